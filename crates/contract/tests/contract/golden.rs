//! Bytes and documents as they were when they were last looked at. `UPDATE_GENERATED=1` writes them anew.

use std::fmt::Write as _;
use std::path::PathBuf;

use polyvirt_contract::model::{PrepareImage, VmState};
use polyvirt_contract::wire::{json, v1};
use prost::Message;

use crate::{fixtures, golden_messages};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn compare(name: &str, fresh: &str) {
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(path(name), fresh).unwrap();
    }
    let golden = std::fs::read_to_string(path(name)).unwrap_or_else(|e| {
        panic!("{name}: {e}. Run this test with UPDATE_GENERATED=1 and look at the new file")
    });
    assert_eq!(fresh, golden, "{name} has changed on the wire");
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        for byte in line {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

/// Encodes to the golden bytes, and the golden bytes decode to it.
pub fn check<M: Message + Default + PartialEq>(name: &str, message: &M) {
    let file = format!("{name}.hex");
    compare(&file, &hex(&message.encode_to_vec()));
    let golden = std::fs::read_to_string(path(&file)).unwrap();
    let decoded = M::decode(unhex(&golden).as_slice()).unwrap();
    assert!(
        decoded == *message,
        "{name} does not decode to what was encoded"
    );
}

#[test]
fn messages_of_provider_v1() {
    golden_messages::provider_v1();
}

#[test]
fn messages_of_the_extensions() {
    golden_messages::extensions();
}

#[test]
fn every_message_of_an_rpc_has_a_golden_file() {
    use prost_types::FileDescriptorSet;
    let set = FileDescriptorSet::decode(polyvirt_contract::wire::FILE_DESCRIPTORS).unwrap();
    let methods = set
        .file
        .iter()
        .flat_map(|f| &f.service)
        .flat_map(|s| &s.method);
    let names = methods.flat_map(|m| [m.input_type(), m.output_type()]);
    let missing: Vec<_> = names
        .map(|name| name.trim_start_matches('.'))
        .filter(|name| !path(&format!("{name}.hex")).exists())
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn documents_inside_strings() {
    // Compact, as it travels: the order of the keys counts, too.
    let line = |text: String| format!("{text}\n");
    let vm = fixtures::create();
    let raw = v1::DescribeResponse::from(Some(fixtures::vm_state())).provider_raw_json;
    compare("class.json", &line(json::write_class(&vm.class).unwrap()));
    compare(
        "class_object.json",
        &line(json::write_class_object(&vm.class).unwrap()),
    );
    compare("image.json", &line(json::write_image(&vm.image).unwrap()));
    compare(
        "networks.json",
        &line(json::write_networks(&vm.networks).unwrap()),
    );
    compare("disks.json", &line(json::write_disks(&vm.disks).unwrap()));
    compare(
        "placement.json",
        &line(json::write_placement(vm.placement.as_ref()).unwrap()),
    );
    compare("desired.json", &line(json::write_desired(&vm).unwrap()));
    compare("provider_raw.json", &line(raw));
    for (name, origin) in fixtures::origins() {
        let image = PrepareImage {
            origin,
            ..fixtures::prepare()
        };
        let text = json::write_prepare(&image).unwrap();
        compare(&format!("prepare_{name}.json"), &line(text));
    }
}

#[test]
fn a_bare_vm_still_gives_a_flat_object() {
    let raw = v1::DescribeResponse::from(Some(VmState::default())).provider_raw_json;
    assert_eq!(raw, "{}");
}
