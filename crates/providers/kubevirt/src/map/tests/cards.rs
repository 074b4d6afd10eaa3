//! Cards, first-boot data, and what can never work.

use bytes::Bytes;
use polyvirt_api::kubevirt::{
    Attachment, CloudInitMedium, CloudInitOption, CloudInitPlace, DiskOption, KubevirtOptions,
    NetworkOption,
};
use polyvirt_contract::model::{CreateVm, DiskSpec, ImageSource, NicSpec, StaticAddress, UserData};
use serde_json::{Value, json};

use super::{built, key, nic, request, says, with};
use crate::map::cards::cards;
use crate::map::cloud_init::Seed;
use crate::map::layout::Layout;
use crate::map::to_kubevirt::Hot;

#[test]
fn cards_are_plugged_in_where_they_belong() {
    let vm = with(|request, options| {
        request.networks = vec![
            NicSpec {
                model: "E1000".to_owned(),
                mac: "02:AA:00:00:00:01".to_owned(),
                ..nic("pods")
            },
            NicSpec {
                network: "other/vlan7".to_owned(),
                ..nic("named")
            },
            nic("option"),
            nic("old"),
        ];
        let attachment = Attachment {
            name: "sriov-net".to_owned(),
            ..Attachment::default()
        };
        let option = NetworkOption {
            attachment: Some(attachment),
            binding: Some("sriov".to_owned()),
            model: None,
        };
        options.networks.insert("option".to_owned(), option);
        let option = NetworkOption {
            attachment: Some(Attachment {
                name: "legacy".to_owned(),
                ..Attachment::default()
            }),
            model: Some("rtl8139".to_owned()),
            ..NetworkOption::default()
        };
        options.networks.insert("old".to_owned(), option);
    });
    let card = "DOMAIN/devices/interfaces";
    says(
        "cards",
        &vm,
        &[
            ("POD/networks/0", json!({"name": "pods", "pod": {}})),
            (&format!("{card}/0/masquerade"), json!({})),
            (&format!("{card}/0/model"), json!("e1000")),
            (&format!("{card}/0/macAddress"), json!("02:aa:00:00:00:01")),
            ("POD/networks/1/multus/networkName", json!("other/vlan7")),
            (&format!("{card}/1/bridge"), json!({})),
            ("POD/networks/2/multus/networkName", json!("sriov-net")),
            (&format!("{card}/2/sriov"), json!({})),
            (&format!("{card}/2/model"), Value::Null),
            (&format!("{card}/3/model"), json!("rtl8139")),
        ],
    );
}

#[test]
fn what_can_never_work_names_its_field() {
    let refused = |change: fn(&mut CreateVm, &mut KubevirtOptions)| {
        let (mut request, mut options) = (request(), KubevirtOptions::default());
        change(&mut request, &mut options);
        let layout = Layout::of(&request, &options, &key());
        let cards = cards(&request.networks, &options, "id");
        let error = layout
            .and_then(|layout| crate::check::layout(&layout))
            .err();
        error
            .or(cards.err())
            .expect("refused")
            .field
            .unwrap_or_default()
    };
    for (field, change) in [
        (
            "spec.imageRef",
            (|r, _| r.image = ImageSource::default()) as fn(&mut CreateVm, &mut KubevirtOptions),
        ),
        ("spec.imageRef", |r, _| {
            r.image = ImageSource {
                url: "ftp://x".to_owned(),
                ..ImageSource::default()
            }
        }),
        ("network.libvirt.model", |r, _| {
            r.networks[0].model = "vmxnet3".to_owned();
        }),
        ("spec.networks", |r, _| r.networks.push(nic("second"))),
        ("spec.networks[0]", |_, o| {
            o.networks.insert(
                "net".to_owned(),
                NetworkOption {
                    attachment: None,
                    binding: Some("sriov".to_owned()),
                    model: None,
                },
            );
        }),
        ("spec.disks", |r, _| {
            r.disks = vec![DiskSpec {
                name: "root".to_owned(),
                size_gib: 1,
                ..DiskSpec::default()
            }];
        }),
        ("class.extraConfig", |_, o| {
            o.root_disk = Some(DiskOption {
                bus: Some("nvme".to_owned()),
                ..DiskOption::default()
            });
        }),
    ] {
        assert_eq!(refused(change), field);
    }
}

#[test]
fn first_boot_data_stand_where_they_fit() {
    let data = |text: &str, keep, medium| {
        let (mut request, mut options) = (request(), KubevirtOptions::default());
        request.user_data = Some(UserData::CloudInit(Bytes::copy_from_slice(text.as_bytes())));
        options.cloud_init = Some(CloudInitOption { medium, keep });
        built(&request, &options, None, Hot::Stopped)["spec"]["template"]["spec"]["volumes"][1]
            .clone()
    };
    let secret = json!({"secretRef": {"name": "web-cloudinit"}});
    let (no_cloud, drive) = (CloudInitMedium::NoCloud, CloudInitMedium::ConfigDrive);
    for (volume, expected) in [
        (
            data("x", CloudInitPlace::Secret, no_cloud),
            json!({"cloudInitNoCloud": secret}),
        ),
        (
            data("x", CloudInitPlace::Secret, drive),
            json!({"cloudInitConfigDrive": secret}),
        ),
        (
            data("x", CloudInitPlace::Inline, no_cloud),
            json!({"cloudInitNoCloud": {"userData": "x"}}),
        ),
        (
            data(&"x".repeat(2049), CloudInitPlace::Inline, no_cloud),
            json!({"cloudInitNoCloud": secret}),
        ),
    ] {
        let mut volume = volume;
        volume.as_object_mut().expect("an object").remove("name");
        assert_eq!(volume, expected);
    }
}

#[test]
fn fixed_addresses_reach_the_guest_and_ignition_goes_by_config_drive() {
    let mut request = request();
    request.networks[0].address = Some(StaticAddress {
        ip: "10.0.0.5".to_owned(),
        prefix: 24,
        ..StaticAddress::default()
    });
    let cards = cards(&request.networks, &KubevirtOptions::default(), "id-1").expect("cards");
    let seed = Seed::of(&request, &cards, CloudInitOption::default()).expect("a seed");
    let volume = seed.volume("s");
    assert_eq!(
        volume["cloudInitNoCloud"]["networkDataSecretRef"]["name"],
        "s"
    );
    assert!(seed.secret().expect("data").get("networkdata").is_some());
    request.user_data = Some(UserData::Ignition(Bytes::from_static(b"{}")));
    let seed = Seed::of(&request, &cards, CloudInitOption::default()).expect("a seed");
    assert!(seed.volume("s").get("cloudInitConfigDrive").is_some());
}

/// With two cards the guest is told which is which. It reads that at its first boot, and a machine that runs gets no disk for it.
#[test]
fn a_card_that_comes_later_brings_no_cloud_init_disk() {
    let mut request = request();
    let one = built(&request, &KubevirtOptions::default(), None, Hot::Stopped);
    request.networks.push(on("second", "lan"));
    let two = built(
        &request,
        &KubevirtOptions::default(),
        Some(&one),
        Hot::Running,
    );
    assert_eq!(volume_names(&two), volume_names(&one), "{two:#}");
    let fresh = built(&request, &KubevirtOptions::default(), None, Hot::Stopped);
    assert_eq!(volume_names(&fresh), ["root", "cloudinitdisk"]);
    request.networks.pop();
    let left = built(
        &request,
        &KubevirtOptions::default(),
        Some(&fresh),
        Hot::Running,
    );
    assert_eq!(
        volume_names(&left),
        volume_names(&fresh),
        "nor takes it away"
    );
}

#[test]
fn cards_change_nothing_of_what_a_person_wrote_for_cloud_init() {
    let mut request = request();
    request.user_data = Some(UserData::CloudInit(Bytes::from_static(b"#cloud-config\n")));
    let one = built(&request, &KubevirtOptions::default(), None, Hot::Stopped);
    request.networks.push(on("second", "lan"));
    let two = built(
        &request,
        &KubevirtOptions::default(),
        Some(&one),
        Hot::Running,
    );
    let path = "/spec/template/spec/volumes";
    assert_eq!(two.pointer(path), one.pointer(path));
    request.network_data = Bytes::from_static(b"version: 2\n");
    let said = built(
        &request,
        &KubevirtOptions::default(),
        Some(&one),
        Hot::Running,
    );
    assert_ne!(
        said.pointer(path),
        one.pointer(path),
        "a person's words act"
    );
}

fn volume_names(vm: &Value) -> Vec<&str> {
    let all = vm.pointer("/spec/template/spec/volumes");
    let all = all.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|volume| volume["name"].as_str()).collect()
}

fn on(name: &str, network: &str) -> NicSpec {
    NicSpec {
        network: network.to_owned(),
        ..nic(name)
    }
}
