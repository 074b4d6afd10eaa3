//! Records in, arguments out.

use std::collections::BTreeMap;

use polyvirt_provider_kit::devices::DeviceAddress;
use polyvirt_provider_kit::lineage::Lineage;

use super::*;
use crate::state::{Disk, Hardware, HotAdd, Nic, Plugged, Stage};
use crate::uuid::Uuid;

const ID: &str = "0a1b2c3d-0000-4000-8000-00000000000f";

pub(crate) fn record() -> Record {
    Record {
        uuid: Uuid::parse(ID).expect("a UUID"),
        name: "web,1".to_owned(),
        owner: None,
        stage: Stage::Ready,
        revision: 1,
        machine: "pc-q35-10.0".to_owned(),
        firmware: FirmwareKind::Bios,
        image: "img".to_owned(),
        seed: None,
        tags: Vec::new(),
        hardware: Hardware {
            cpu: 2,
            memory_mib: 512,
            hot_add: HotAdd::default(),
            root_gib: 0,
            disks: Vec::new(),
            nics: Vec::new(),
        },
        devices: Vec::new(),
        pending: None,
        plugged: Plugged::default(),
        snapshots: Vec::new(),
        lineage: Lineage::default(),
        last_request: None,
        running: false,
        starts: 0,
        fault: String::new(),
        moving: None,
    }
}

fn nic(bridge: &str) -> Nic {
    Nic {
        name: "eth0".to_owned(),
        bridge: bridge.to_owned(),
        vlan: 0,
        device: "virtio-net-pci".to_owned(),
        mac: "02:70:00:00:00:01".to_owned(),
        mtu: 9000,
        address: String::new(),
        subnet: 1,
        port: 3,
        implicit: false,
    }
}

fn context() -> Context {
    Context {
        accel: Accel::Tcg,
        firmware: None,
        taps: BTreeMap::new(),
    }
}

fn line(record: &Record, context: &Context) -> String {
    let words = arguments(record, context);
    let words: Vec<String> = words
        .into_iter()
        .map(|w| w.into_string().expect("text"))
        .collect();
    words.join(" ")
}

fn assert_has(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

#[test]
fn every_machine_is_locked_up_and_stands_still_at_first() {
    let line = line(&record(), &context());
    assert_has(
        &line,
        &[
            "-nodefaults -no-user-config -S",
            "spawn=deny",
            "elevateprivileges=deny",
            "-uuid 0a1b2c3d-0000-4000-8000-00000000000f",
            "guest=web,,1",
            "-machine pc-q35-10.0 ",
            "-smp cpus=2,sockets=1,cores=2,threads=1",
            "-m size=512M ",
            "-accel tcg -cpu max",
        ],
    );
    assert!(!line.contains("maxmem"), "{line}");
}

#[test]
fn growth_has_room_only_where_it_was_asked_for() {
    let mut record = record();
    record.hardware.hot_add = HotAdd {
        cpu: true,
        memory: true,
    };
    assert_has(
        &line(&record, &context()),
        &[
            "cpus=2,maxcpus=8,sockets=8",
            "size=512M,slots=16,maxmem=2048M",
        ],
    );
}

#[test]
fn what_was_added_is_there_again_and_not_counted_twice() {
    let mut record = record();
    record.hardware.hot_add = HotAdd {
        cpu: true,
        memory: true,
    };
    record.hardware.cpu = 3;
    record.hardware.memory_mib = 640;
    record.plugged.dimms = vec![128];
    record.plugged.cpus = vec![crate::state::CpuPlace {
        driver: "max-x86_64-cpu".to_owned(),
        props: BTreeMap::from([("socket-id".to_owned(), 2)]),
    }];
    assert_has(
        &line(&record, &context()),
        &[
            "cpus=2,maxcpus=8",
            "size=512M",
            r#""driver":"max-x86_64-cpu","id":"cpu0","socket-id":2"#,
            r#""id":"mem0","qom-type":"memory-backend-ram","size":134217728"#,
            r#""driver":"pc-dimm","id":"dimm0","memdev":"mem0""#,
        ],
    );
}

#[test]
fn uefi_has_its_own_variables_and_secure_boot_needs_smm() {
    let mut record = record();
    record.firmware = FirmwareKind::SecureUefi;
    let context = Context {
        firmware: Some(PathBuf::from("/fw/CODE.secboot.fd")),
        ..context()
    };
    assert_has(
        &line(&record, &context),
        &[
            "pflash0=code,pflash1=vars,smm=on",
            "/fw/CODE.secboot.fd",
            "vars.qcow2",
            "property=secure",
        ],
    );
}

#[test]
fn cards_are_on_a_network_of_their_own_or_on_a_bridge() {
    let mut record = record();
    record.hardware.nics = vec![nic("")];
    assert_has(
        &line(&record, &context()),
        &[
            r#""ipv6":false,"net":"10.0.3.0/24","type":"user""#,
            r#""bus":"port3""#,
            r#""mac":"02:70:00:00:00:01""#,
            r#""host_mtu":9000"#,
        ],
    );
    record.hardware.nics = vec![nic("br0")];
    let context = Context {
        taps: BTreeMap::from([(3, "pv0".to_owned())]),
        ..context()
    };
    assert_has(
        &line(&record, &context),
        &[r#""ifname":"pv0""#, r#""script":"no""#],
    );
}

#[test]
fn first_boot_data_is_named_and_never_shown() {
    let mut record = record();
    record.seed = Some(SeedKind::Ignition);
    assert_has(
        &line(&record, &context()),
        &["name=opt/com.coreos/config,file=ignition.json"],
    );
    record.seed = Some(SeedKind::NoCloud);
    assert_has(&line(&record, &context()), &["seed.img"]);
}

#[test]
fn disks_sit_in_their_ports() {
    let mut record = record();
    record.hardware.disks = vec![Disk {
        name: "data".to_owned(),
        file: "data1.qcow2".to_owned(),
        size_gib: 2,
        online: true,
        thick: false,
        port: 5,
    }];
    assert_has(
        &line(&record, &context()),
        &[
            r#""filename":"data1.qcow2""#,
            r#""bus":"port5","drive":"data1","driver":"virtio-blk-pci","id":"data1""#,
            r#""id":"port15""#,
        ],
    );
}

#[test]
fn devices_of_the_host_have_ports_of_their_own() {
    let mut record = record();
    let uuid = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001";
    for address in ["0000:41:00.0", uuid] {
        let device = DeviceAddress::try_from(address.to_owned());
        record.devices.push(device.expect("an address"));
    }
    let words = arguments(&record, &context());
    let text: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let text = text.join(" ");
    for words in [
        r#""host":"0000:41:00.0""#,
        r#""bus":"lent-port0""#,
        r#""bus":"lent-port1""#,
        r#""sysfsdev":"/sys/bus/mdev/devices/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001""#,
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
