//! VMs for which a node was chosen: they keep their devices.

use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{CreateVm, Placement, PowerOp, PowerState, VmRef};
use serde_json::{Value, json};

use crate::lab::Lab;

/// A change as managers send it that do not say again where the VM was placed.
async fn grow(lab: &Lab, vm: &VmRef, wish: &CreateVm) {
    let mut bigger = wish.clone();
    bigger.placement = None;
    bigger.class.cpu += 1;
    let task = lab.provider.reconfigure(vm, bigger).await;
    lab.done(task.expect("accepted")).await;
}

fn gpus(machine: &Value, spec: &str) -> Vec<Value> {
    let found = machine.pointer(&format!("{spec}/domain/devices/gpus"));
    found.and_then(Value::as_array).cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_size_takes_no_device_away() {
    let lab = Lab::new().await;
    let mut wish = lab.wish("web");
    wish.placement = Some(Placement {
        devices: [("amd.com/mi300".to_owned(), 2)].into(),
        ..Placement::default()
    });
    let vm = lab.make(wish.clone()).await;
    let device = |name: &str| json!({"name": name, "deviceName": "amd.com/mi300"});
    let both = [device("device0"), device("device1")];
    let made = lab.get("VirtualMachine", "web").await;
    assert_eq!(gpus(&made, "/spec/template/spec"), both);
    grow(&lab, &vm, &wish).await;
    let changed = lab.get("VirtualMachine", "web").await;
    assert_eq!(gpus(&changed, "/spec/template/spec"), both);
    lab.switch(&vm, PowerOp::On, PowerState::On).await;
    let instance = lab.get("VirtualMachineInstance", "web").await;
    assert_eq!(gpus(&instance, "/spec"), both);
}
