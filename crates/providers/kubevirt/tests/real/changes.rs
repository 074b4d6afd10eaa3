//! A machine that is changed while it runs.

use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{CreateVm, DiskSpec, NicSpec, PowerOp, PowerState, VmRef, VmState};
use polyvirt_contract::watch::TaskState;
use polyvirt_testkit::ControlPlane;
use polyvirt_testkit::kubevirt_sim::FAULT;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, PATIENCE, bridge_network};

fn disk(name: &str, size_gib: u32) -> DiskSpec {
    DiskSpec {
        name: name.to_owned(),
        size_gib,
        ..DiskSpec::default()
    }
}

async fn change(lab: &Lab, vm: &VmRef, wish: &CreateVm) -> VmState {
    let task = lab.provider.reconfigure(vm, wish.clone()).await;
    lab.done(task.expect("accepted")).await;
    lab.state(vm).await
}

async fn volumes(lab: &Lab) -> Vec<String> {
    let instance = lab.get("VirtualMachineInstance", "web").await;
    let volumes = instance["spec"]["volumes"].as_array().cloned();
    let name = |volume: &Value| volume["name"].as_str().map(str::to_owned);
    volumes.iter().flatten().filter_map(name).collect()
}

async fn until_claims_are(lab: &Lab, expected: &[&str]) {
    let begin = Instant::now();
    while lab.names("PersistentVolumeClaim").await != expected {
        assert!(begin.elapsed() < PATIENCE, "the claims stay");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn until_bound(lab: &Lab, claim: &str) {
    let begin = Instant::now();
    while lab.get("PersistentVolumeClaim", claim).await["status"]["phase"] != "Bound" {
        assert!(begin.elapsed() < PATIENCE, "the claim is not bound");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A disk comes, grows and goes, and the machine has it and has it not.
async fn comes_and_goes(lab: &Lab) {
    let mut wish = lab.wish("web");
    let vm = lab.running(wish.clone()).await;
    wish.disks = vec![disk("data", 2)];
    let state = change(lab, &vm, &wish).await;
    assert_eq!(state.restart_required, Vec::<String>::new(), "plugged in");
    assert_eq!(volumes(lab).await, ["root", "data"]);
    wish.disks[0].size_gib = 5;
    change(lab, &vm, &wish).await;
    let claim = lab.get("PersistentVolumeClaim", "web-data").await;
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "5Gi");
    wish.disks.clear();
    change(lab, &vm, &wish).await;
    until_claims_are(lab, &["web-root"]).await;
    assert_eq!(volumes(lab).await, ["root"]);
    assert_eq!(lab.state(&vm).await.power, PowerState::On);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_comes_grows_and_goes_while_the_vm_runs() {
    comes_and_goes(&Lab::new().await).await;
}

/// Whoever binds and resizes claims writes to them whenever it likes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_others_write_to_grows_all_the_same() {
    let lab = Lab::new().await;
    let mut wish = lab.wish("web");
    wish.disks = vec![disk("data", 1)];
    let vm = lab.make(wish.clone()).await;
    until_bound(&lab, "web-data").await;
    let (api, stop) = (lab.api("PersistentVolumeClaim"), CancellationToken::new());
    let stopped = stop.clone();
    let others = tokio::spawn(async move {
        let mut writes = 0_u32;
        while !stopped.is_cancelled() {
            writes += 1;
            let note = json!({"metadata": {"annotations": {"others/wrote": writes.to_string()}}});
            let patch = Patch::Merge(note);
            let wrote = api.patch("web-data", &PatchParams::default(), &patch).await;
            wrote.expect("written");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        writes
    });
    for size_gib in 2..8 {
        wish.disks[0].size_gib = size_gib;
        let changed = lab.provider.reconfigure(&vm, wish.clone()).await;
        changed.expect("it grows");
    }
    stop.cancel();
    assert!(others.await.expect("it ended") > 1);
    let claim = lab.get("PersistentVolumeClaim", "web-data").await;
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "7Gi");
}

async fn set_gates(lab: &Lab, gates: Value) {
    let change =
        json!({"spec": {"configuration": {"developerConfiguration": {"featureGates": gates}}}});
    lab.kubevirt(change).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_come_as_the_gates_of_kubevirt_let_them() {
    let plane = ControlPlane::builder()
        .start()
        .await
        .expect("a control plane");
    let lab = Lab::on(&plane).await;
    set_gates(&lab, json!(["DeclarativeHotplugVolumes"])).await;
    comes_and_goes(&lab).await;
    let vm = VmRef {
        id: format!("{}/web", lab.namespace).into(),
        owner: Some(lab.owner("web")),
    };
    set_gates(&lab, json!([])).await;
    let mut wish = lab.wish("web");
    wish.disks = vec![disk("data", 2)];
    let state = change(&lab, &vm, &wish).await;
    assert_eq!(volumes(&lab).await, ["root"], "KubeVirt cannot plug it in");
    assert_eq!(state.restart_required, ["spec.disks"], "and that is told");
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    lab.switch(&vm, PowerOp::On, PowerState::On).await;
    assert_eq!(volumes(&lab).await, ["root", "data"]);
    // KubeVirt takes its word back a moment after the machine has come up.
    let content = |state: &VmState| state.restart_required.is_empty();
    lab.until(&vm, content).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_grows_while_it_runs_and_shrinks_when_it_restarts() {
    let lab = Lab::new().await;
    let mut wish = lab.wish("web");
    wish.class.memory_mib = 1024;
    let vm = lab.running(wish.clone()).await;
    wish.class.cpu = 3;
    let state = change(&lab, &vm, &wish).await;
    assert_eq!((state.cpu, state.memory_mib), (3, 1024));
    wish.class.memory_mib = 2048;
    let state = change(&lab, &vm, &wish).await;
    assert_eq!((state.cpu, state.memory_mib), (3, 2048));
    assert_eq!(state.restart_required, Vec::<String>::new());
    wish.class.cpu = 1;
    let state = change(&lab, &vm, &wish).await;
    assert_eq!(state.cpu, 3, "KubeVirt takes nothing from it");
    assert_eq!(state.restart_required, ["spec.resources.cpu"]);
}

/// A disk that KubeVirt takes note of and never plugs in is not told as one that is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_never_comes_is_told() {
    let lab = Lab::new().await;
    let mut wish = lab.wish("web");
    let vm = lab.running(wish.clone()).await;
    let fault = json!({"metadata": {"annotations": {FAULT: "Tokenless"}}});
    lab.change("VirtualMachineInstance", "web", fault).await;
    wish.disks = vec![disk("data", 1)];
    let task = lab.provider.reconfigure(&vm, wish).await.expect("taken");
    let task = task.expect("it is under way");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let state = lab.provider.task_status(&task).await.expect("known");
    assert!(matches!(state, TaskState::Running { .. }), "{state:?}");
    let well = json!({"metadata": {"annotations": {FAULT: null}}});
    lab.change("VirtualMachineInstance", "web", well).await;
    lab.done(Some(task)).await;
}

/// KubeVirt gives processors by a move, and a machine that cannot move waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_cannot_move_waits_for_a_restart() {
    let lab = Lab::new().await;
    let mut wish = lab.wish("web");
    let vm = lab.make(wish.clone()).await;
    let fault = json!({"metadata": {"annotations": {FAULT: "Immovable"}}});
    lab.change("VirtualMachine", "web", fault).await;
    lab.switch(&vm, PowerOp::On, PowerState::On).await;
    wish.class.cpu = 4;
    let begun = lab.provider.reconfigure(&vm, wish).await;
    assert!(begun.expect("accepted").is_some(), "it is waited for");
    let waits = |state: &VmState| state.restart_required == ["spec.resources.cpu"];
    let state = lab.until(&vm, waits).await;
    assert_eq!(state.cpu, 2);
}

fn card(name: &str, network: &str) -> NicSpec {
    NicSpec {
        name: name.to_owned(),
        network: network.to_owned(),
        ..NicSpec::default()
    }
}

/// The cards of the VirtualMachine, and of the machine that runs.
async fn cards(lab: &Lab) -> [Vec<String>; 2] {
    let vm = lab.get("VirtualMachine", "web").await;
    let instance = lab.get("VirtualMachineInstance", "web").await;
    [&vm["spec"]["template"]["spec"], &instance["spec"]].map(|spec| {
        let all = spec["domain"]["devices"]["interfaces"].as_array().cloned();
        let name = |card: &Value| card["name"].as_str().map(str::to_owned);
        all.iter().flatten().filter_map(name).collect()
    })
}

async fn until_cards_are(lab: &Lab, expected: &[&str]) {
    let begin = Instant::now();
    while cards(lab).await.iter().any(|found| found != expected) {
        let found = cards(lab).await;
        assert!(begin.elapsed() < PATIENCE, "they are {found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A card on a bridge of its own comes and goes while the machine runs, and KubeVirt strikes it from the VirtualMachine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_comes_and_goes_while_the_vm_runs() {
    let lab = Lab::new().await;
    lab.put("NetworkAttachmentDefinition", bridge_network("lan"))
        .await;
    let mut wish = lab.wish("web");
    let vm = lab.running(wish.clone()).await;
    let began = lab.get("VirtualMachineInstance", "web").await;
    wish.networks.push(card("second", "lan"));
    let state = change(&lab, &vm, &wish).await;
    assert_eq!(state.restart_required, Vec::<String>::new(), "plugged in");
    until_cards_are(&lab, &["net", "second"]).await;
    wish.networks.pop();
    let state = change(&lab, &vm, &wish).await;
    assert_eq!(state.restart_required, Vec::<String>::new(), "unplugged");
    assert_eq!(state.nics.map(|cards| cards.len()), Some(1));
    until_cards_are(&lab, &["net"]).await;
    let ends = lab.get("VirtualMachineInstance", "web").await;
    assert_eq!(ends["metadata"]["uid"], began["metadata"]["uid"]);
    // What comes again under the same name is another card.
    wish.networks.push(card("second", "lan"));
    change(&lab, &vm, &wish).await;
    until_cards_are(&lab, &["net", "second"]).await;
}

/// KubeVirt takes no card from the network of the pods while a machine runs, and gives none; of the latter it says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_on_the_network_of_the_pods_waits_for_a_restart() {
    let lab = Lab::new().await;
    lab.put("NetworkAttachmentDefinition", bridge_network("lan"))
        .await;
    let mut wish = lab.wish("web");
    wish.networks = vec![card("first", "lan")];
    let vm = lab.running(wish.clone()).await;
    wish.networks.push(card("pods", ""));
    let state = change(&lab, &vm, &wish).await;
    assert_eq!(state.restart_required, ["spec.networks"], "it comes");
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    lab.switch(&vm, PowerOp::On, PowerState::On).await;
    lab.until(&vm, |state| state.restart_required.is_empty())
        .await;
    wish.networks.pop();
    let state = change(&lab, &vm, &wish).await;
    assert_eq!(state.restart_required, ["spec.networks"], "it goes");
}

/// A disk that was there at the start stays until the next one, and what waits is called a disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_disk_that_is_taken_away_is_told_as_a_disk() {
    let lab = Lab::new().await;
    let mut wish = lab.wish("web");
    wish.disks = vec![disk("data", 1)];
    let vm = lab.running(wish.clone()).await;
    wish.disks.clear();
    let state = change(&lab, &vm, &wish).await;
    assert_eq!(state.restart_required, ["spec.disks"]);
    assert_eq!(volumes(&lab).await, ["root", "data"]);
}
