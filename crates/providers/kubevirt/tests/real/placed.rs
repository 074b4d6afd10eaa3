//! VMs for which a node was chosen, or named: they keep their devices, and are not nailed to that node.

use std::sync::atomic::{AtomicU32, Ordering};

use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_contract::model::{
    Chosen, CreateVm, MigrateVm, Placement, PowerOp, PowerState, VmRef,
};
use polyvirt_contract::{ErrorKind, Provider as _, RequestId, Result};
use polyvirt_testkit::kubevirt_sim::FAULT;
use serde_json::{Value, json};

use crate::lab::{Lab, with_options};

const NODES: [&str; 2] = ["sim-node-1", "sim-node-2"];
const HOSTNAME: &str = "kubernetes.io/hostname";

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

/// Somebody names the node.
fn named(wish: CreateVm, host: &str) -> CreateVm {
    let placement = Placement {
        host: host.to_owned(),
        ..Placement::default()
    };
    CreateVm {
        placement: Some(placement),
        ..wish
    }
}

/// The manager has chosen the node out of several.
fn chosen(wish: CreateVm, host: &str) -> CreateVm {
    let mut wish = named(wish, host);
    let placement = wish.placement.get_or_insert_default();
    placement.chosen = Some(Chosen::default());
    wish
}

/// A VM as older versions made it: with a selector on its node, which is ours.
fn pinned(wish: CreateVm, host: &str) -> CreateVm {
    let options = KubevirtOptions {
        node_selector: [(HOSTNAME.to_owned(), host.to_owned())].into(),
        ..KubevirtOptions::default()
    };
    with_options(wish, &options)
}

async fn send(lab: &Lab, vm: &VmRef, host: &str) -> Result<()> {
    static REQUESTS: AtomicU32 = AtomicU32::new(0);
    let request = REQUESTS.fetch_add(1, Ordering::Relaxed);
    let request = MigrateVm {
        target_host: host.to_owned(),
        request: RequestId::non_empty(format!("{request}")),
        ..MigrateVm::default()
    };
    let task = lab.provider.migrate(vm, request).await?;
    lab.done(task).await;
    assert_eq!(lab.state(vm).await.host, host);
    Ok(())
}

async fn there_and_back(lab: &Lab, vm: &VmRef) {
    for node in NODES {
        send(lab, vm, node).await.expect("moved");
    }
}

async fn template(lab: &Lab) -> Value {
    let vm = lab.get("VirtualMachine", "web").await;
    vm["spec"]["template"]["spec"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_chosen_is_taken_and_left_again() {
    let lab = Lab::new().await;
    for node in NODES {
        let vm = lab.running(chosen(lab.wish(node), node)).await;
        assert_eq!(lab.state(&vm).await.host, node);
    }
    let vm = lab.running(chosen(lab.wish("web"), NODES[1])).await;
    there_and_back(&lab, &vm).await;
    // A node that is full, or gone, is not waited for.
    let elsewhere = lab.running(chosen(lab.wish("lost"), "no-such-node")).await;
    assert!(NODES.contains(&lab.state(&elsewhere).await.host.as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_named_is_the_only_one_until_the_vm_is_moved() {
    let lab = Lab::new().await;
    let vm = lab.make(named(lab.wish("lost"), "no-such-node")).await;
    lab.provider
        .power(&vm, PowerOp::On.into())
        .await
        .expect("told");
    let wish = named(lab.wish("web"), NODES[1]);
    let web = lab.running(wish.clone()).await;
    assert_eq!(lab.state(&web).await.host, NODES[1]);
    assert_eq!(
        lab.state(&vm).await.power,
        PowerState::Off,
        "it waits for its node"
    );
    there_and_back(&lab, &web).await;
    let task = lab.provider.reconfigure(&web, wish).await;
    lab.done(task.expect("accepted")).await;
    there_and_back(&lab, &web).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_of_an_older_version_is_taken_off_by_a_move() {
    let lab = Lab::new().await;
    let vm = lab.running(pinned(lab.wish("web"), NODES[0])).await;
    send(&lab, &vm, NODES[1]).await.expect("moved");
    assert_eq!(template(&lab).await["nodeSelector"], json!({}));
    there_and_back(&lab, &vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_of_an_older_version_is_taken_off_by_a_change() {
    let lab = Lab::new().await;
    let vm = lab.running(pinned(lab.wish("web"), NODES[0])).await;
    grow(&lab, &vm, &lab.wish("web")).await;
    let spec = template(&lab).await;
    assert_eq!(spec.pointer("/nodeSelector/kubernetes.io~1hostname"), None);
    assert!(spec.to_string().contains("preferredDuring"), "{spec}");
    there_and_back(&lab, &vm).await;
}

/// Where KubeVirt keeps changes for a restart, a machine that is bound cannot move before one; afterwards it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_stays_bound_says_what_to_do() {
    let lab = Lab::new().await;
    let vm = lab.make(named(lab.wish("web"), NODES[0])).await;
    let fault = json!({"metadata": {"annotations": {FAULT: "Staged"}}});
    lab.change("VirtualMachine", "web", fault).await;
    lab.switch(&vm, PowerOp::On, PowerState::On).await;
    let refused = send(&lab, &vm, NODES[1]).await.expect_err("bound");
    assert_eq!(refused.kind, ErrorKind::Precondition, "{refused}");
    assert!(refused.message.contains("restart it"), "{refused}");
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    lab.switch(&vm, PowerOp::On, PowerState::On).await;
    there_and_back(&lab, &vm).await;
}
