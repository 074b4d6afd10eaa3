//! What hardware is asked for arrives in the cluster as it was said, past its schema and its webhooks. That such devices work is
//! for clusters that have them.

use polyvirt_api::kubevirt::{Attachment, Device, KubevirtOptions, NamedKind, NetworkOption};
use polyvirt_contract::model::{Firmware, NicSpec, Placement};
use serde_json::{Value, json};

use crate::lab::{Lab, bridge_network, with_options};

const DOMAIN: &str = "/spec/template/spec/domain";
const POD: &str = "/spec/template/spec";

fn arrived(vm: &Value, all: &[(String, Value)]) {
    for (pointer, expected) in all {
        assert_eq!(vm.pointer(pointer), Some(expected), "{pointer} of {vm:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_functions_and_nodes_are_asked_for() {
    let lab = Lab::new().await;
    lab.put("NetworkAttachmentDefinition", bridge_network("fast"))
        .await;
    let device = |name: &str, device_name: &str| Device {
        name: name.to_owned(),
        device_name: device_name.to_owned(),
    };
    let function = NetworkOption {
        attachment: Some(Attachment {
            name: "fast".to_owned(),
            ..Attachment::default()
        }),
        binding: Some("sriov".to_owned()),
        ..NetworkOption::default()
    };
    let options = KubevirtOptions {
        gpus: vec![device("gpu1", "nvidia.com/A100")],
        host_devices: vec![device("nic1", "vendor.example/accelerator")],
        networks: [("function".to_owned(), function)].into(),
        node_selector: [("disk".to_owned(), "ssd".to_owned())].into(),
        tolerations: vec![json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"})],
        ..KubevirtOptions::default()
    };
    let mut wish = with_options(lab.wish("strong"), &options);
    wish.class.firmware = Firmware::Uefi;
    wish.networks.push(NicSpec {
        name: "function".to_owned(),
        ..NicSpec::default()
    });
    wish.placement = Some(Placement {
        devices: [("amd.com/mi300".to_owned(), 2)].into(),
        ..Placement::default()
    });
    lab.make(wish).await;
    let vm = lab.get("VirtualMachine", "strong").await;
    let devices = format!("{DOMAIN}/devices");
    arrived(
        &vm,
        &[
            (
                format!("{devices}/gpus/0/deviceName"),
                json!("nvidia.com/A100"),
            ),
            (
                format!("{devices}/gpus/1/deviceName"),
                json!("amd.com/mi300"),
            ),
            (
                format!("{devices}/gpus/2/deviceName"),
                json!("amd.com/mi300"),
            ),
            (
                format!("{devices}/hostDevices/0/deviceName"),
                json!("vendor.example/accelerator"),
            ),
            (format!("{devices}/interfaces/1/sriov"), json!({})),
            (
                format!("{POD}/networks/1/multus/networkName"),
                json!("fast"),
            ),
            (format!("{POD}/nodeSelector/disk"), json!("ssd")),
            (format!("{POD}/tolerations/0/effect"), json!("NoSchedule")),
            (
                format!("{DOMAIN}/firmware/bootloader/efi/secureBoot"),
                json!(false),
            ),
        ],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instancetype_and_a_preference_stand_for_a_size() {
    let lab = Lab::new().await;
    let kind = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let size = json!({"cpu": {"guest": 1}, "memory": {"guest": "128Mi"}});
    let (instancetype, preference) = ("VirtualMachineInstancetype", "VirtualMachinePreference");
    lab.put(instancetype, kind(instancetype, "tiny", size))
        .await;
    let likes = json!({"devices": {"preferredDiskBus": "virtio"}});
    lab.put(preference, kind(preference, "linux", likes)).await;
    let named = |kind: &str, name: &str| {
        Some(NamedKind {
            name: name.to_owned(),
            kind: kind.to_owned(),
        })
    };
    let options = KubevirtOptions {
        instancetype: named(instancetype, "tiny"),
        preference: named(preference, "linux"),
        ..KubevirtOptions::default()
    };
    lab.make(with_options(lab.wish("sized"), &options)).await;
    let vm = lab.get("VirtualMachine", "sized").await;
    arrived(
        &vm,
        &[
            ("/spec/instancetype/name".to_owned(), json!("tiny")),
            ("/spec/instancetype/kind".to_owned(), json!(instancetype)),
            ("/spec/preference/name".to_owned(), json!("linux")),
        ],
    );
    for left_to_it in ["cpu", "memory"] {
        assert_eq!(vm.pointer(&format!("{DOMAIN}/{left_to_it}")), None);
    }
}
