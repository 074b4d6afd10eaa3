//! Size, firmware, placement and devices.

use polyvirt_api::kubevirt::{Device, Features, NamedKind, OwnerOption, Topology};
use polyvirt_contract::model::{Firmware, Placement, ResourceLimits, SecurityProfile};
use serde_json::{Value, json};

use super::{says, with};

#[test]
fn size_and_hardware() {
    let plain = with(|_, _| {});
    let one = json!({"sockets": 4, "cores": 1, "threads": 1});
    says(
        "plain",
        &plain,
        &[
            ("DOMAIN/cpu", one),
            ("DOMAIN/memory/guest", json!("2Gi")),
            ("DOMAIN/firmware/bootloader", json!({"bios": {}})),
            ("DOMAIN/devices/autoattachPodInterface", json!(false)),
            ("/spec/runStrategy", json!("Halted")),
            ("/metadata/labels/polyvirt.io~1identity", json!("id-1")),
            (
                "/spec/template/metadata/labels/polyvirt.io~1identity",
                json!("id-1"),
            ),
            (
                "/metadata/annotations/polyvirt.io~1owner-name",
                json!("web"),
            ),
            ("/metadata/annotations/polyvirt.io~1creating", Value::Null),
            ("/spec/running", Value::Null),
        ],
    );
    let shaped = with(|_, options| {
        options.topology = Some(Topology {
            sockets: 1,
            cores: 2,
            threads: 1,
        });
        options.cpu_model = Some("host-model".to_owned());
        options.memory_bytes = Some((2048 << 20) + 4096);
        options.machine_type = Some("pc-q35-rhel9".to_owned());
        options.network_multiqueue = Some(true);
    });
    let cpu = json!({"sockets": 2, "cores": 2, "threads": 1, "model": "host-model"});
    says(
        "shaped",
        &shaped,
        &[
            ("DOMAIN/cpu", cpu),
            ("DOMAIN/memory/guest", json!("2097156Ki")),
            ("DOMAIN/machine/type", json!("pc-q35-rhel9")),
            ("DOMAIN/devices/networkInterfaceMultiqueue", json!(true)),
        ],
    );
}

#[test]
fn firmware_and_features() {
    let secure = with(|request, options| {
        request.class.firmware = Firmware::Uefi;
        request.class.security = Some(SecurityProfile {
            secure_boot: true,
            tpm: true,
            ..SecurityProfile::default()
        });
        options.features = Some(Features {
            acpi: Some(true),
            apic: Some(false),
            hyperv: Some(true),
        });
    });
    says(
        "secure boot",
        &secure,
        &[
            ("DOMAIN/firmware/bootloader/efi/secureBoot", json!(true)),
            ("DOMAIN/features/smm/enabled", json!(true)),
            ("DOMAIN/features/acpi", json!({"enabled": true})),
            ("DOMAIN/features/apic", json!({"enabled": false})),
            ("DOMAIN/features/hyperv/spinlocks/spinlocks", json!(8191)),
            ("DOMAIN/devices/tpm/persistent", json!(true)),
        ],
    );
    let uefi = with(|request, _| request.class.firmware = Firmware::Uefi);
    says(
        "UEFI",
        &uefi,
        &[("DOMAIN/firmware/bootloader/efi/secureBoot", json!(false))],
    );
}

#[test]
fn instancetypes_take_the_place_of_sizes() {
    let vm = with(|_, options| {
        options.instancetype = Some(NamedKind {
            name: "u1.small".to_owned(),
            kind: String::new(),
        });
        options.preference = Some(NamedKind {
            name: "linux".to_owned(),
            kind: "VirtualMachinePreference".to_owned(),
        });
    });
    let kind = "VirtualMachineClusterInstancetype";
    says(
        "instancetype",
        &vm,
        &[
            (
                "/spec/instancetype",
                json!({"name": "u1.small", "kind": kind}),
            ),
            ("/spec/preference/kind", json!("VirtualMachinePreference")),
            ("DOMAIN/cpu", Value::Null),
            ("DOMAIN/memory", Value::Null),
        ],
    );
}

#[test]
fn placement_devices_and_limits() {
    let vm = with(|request, options| {
        request.placement = Some(Placement {
            host: "node-7".to_owned(),
            devices: [("amd.com/mi300".to_owned(), 2)].into(),
            ..Placement::default()
        });
        request.class.limits = Some(ResourceLimits {
            cpu_limit: Some(2000),
            memory_reservation_mib: Some(1024),
            ..ResourceLimits::default()
        });
        request.tags = vec!["a".to_owned(), "b".to_owned()];
        options
            .node_selector
            .insert("disk".to_owned(), "ssd".to_owned());
        options.tolerations = vec![json!({"key": "gpu", "operator": "Exists"})];
        options.affinity = Some(json!({"podAffinity": {}}));
        options.gpus = vec![Device {
            name: "gpu1".to_owned(),
            device_name: "nvidia.com/A100".to_owned(),
        }];
        options.labels.insert("team".to_owned(), "blue".to_owned());
        options.owner = Some(OwnerOption {
            cluster: "here".to_owned(),
            uid: "u".to_owned(),
            ..OwnerOption::default()
        });
    });
    says(
        "placement",
        &vm,
        &[
            ("POD/nodeSelector", json!({"disk": "ssd"})),
            ("POD/tolerations/0/key", json!("gpu")),
            ("POD/affinity/podAffinity", json!({})),
            ("DOMAIN/devices/gpus/0/deviceName", json!("nvidia.com/A100")),
            (
                "DOMAIN/devices/gpus/2",
                json!({"name": "device1", "deviceName": "amd.com/mi300"}),
            ),
            (
                "DOMAIN/resources",
                json!({"requests": {"memory": "1024Mi"}, "limits": {"cpu": "2000m"}}),
            ),
            ("/metadata/labels/team", json!("blue")),
            ("/metadata/annotations/polyvirt.io~1tags", json!("a,b")),
            ("/metadata/ownerReferences/0/uid", json!("u")),
        ],
    );
    let elsewhere = with(|_, options| {
        options.owner = Some(OwnerOption {
            cluster: "there".to_owned(),
            ..OwnerOption::default()
        });
    });
    says(
        "an owner elsewhere",
        &elsewhere,
        &[("/metadata/ownerReferences", Value::Null)],
    );
}
