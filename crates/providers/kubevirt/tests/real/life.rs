//! A VM from its first moment to its last.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use polyvirt_api::kubevirt::{Attachment, KubevirtOptions, NetworkOption};
use polyvirt_contract::model::{
    ConsoleKind, DiskSpec, NicSpec, PowerOp, PowerState, SnapshotRequest, Stage, UserData, VmRef,
};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Extension, Provider};
use polyvirt_testkit::kubevirt_sim::FAULT;
use serde_json::json;

use crate::lab::{Lab, PATIENCE, bridge_network, first, synced, with_options};

fn disk(name: &str, size_gib: u32) -> DiskSpec {
    DiskSpec {
        name: name.to_owned(),
        size_gib,
        ..DiskSpec::default()
    }
}

/// A VM with all that a VM can have beside it.
fn rich(lab: &Lab, name: &str) -> polyvirt_contract::model::CreateVm {
    let mut wish = lab.wish(name);
    wish.image = polyvirt_contract::model::ImageSource {
        url: "https://images.example.com/debian.qcow2".to_owned(),
        ..Default::default()
    };
    wish.disks = vec![disk("data", 2)];
    wish.user_data = Some(UserData::CloudInit(Bytes::from_static(b"#cloud-config\n")));
    wish.networks.push(NicSpec {
        name: "storage".to_owned(),
        ..NicSpec::default()
    });
    let attachment = Attachment {
        name: "vlan12".to_owned(),
        config: Some(r#"{"cniVersion":"1.0.0","type":"bridge","bridge":"br0"}"#.to_owned()),
        ..Attachment::default()
    };
    let options = KubevirtOptions {
        networks: [(
            "storage".to_owned(),
            NetworkOption {
                attachment: Some(attachment),
                binding: None,
                model: None,
            },
        )]
        .into(),
        ..KubevirtOptions::default()
    };
    with_options(wish, &options)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_belongs_to_a_vm_comes_and_goes_with_it() {
    let lab = Lab::new().await;
    lab.put("NetworkAttachmentDefinition", bridge_network("others"))
        .await;
    let vm = lab.running(rich(&lab, "web")).await;
    let state = lab.until(&vm, |state| !state.ips.is_empty()).await;
    assert!(state.host.starts_with("sim-node-"), "{state:?}");
    assert_eq!(state.details["guest.os"], "Simulated Linux");
    assert_eq!(state.disks.as_ref().map(Vec::len), Some(1));
    assert_eq!(lab.names("DataVolume").await, ["web-root"]);
    assert_eq!(
        lab.names("PersistentVolumeClaim").await,
        ["web-data", "web-root"]
    );
    assert_eq!(lab.names("Secret").await, ["web-cloudinit"]);
    assert_eq!(
        lab.names("NetworkAttachmentDefinition").await,
        ["others", "vlan12"]
    );
    let object = lab.get("VirtualMachine", "web").await;
    assert!(!object.to_string().contains("#cloud-config"), "{object}");

    delete(&lab, &vm).await;
    for kind in [
        "VirtualMachine",
        "VirtualMachineInstance",
        "DataVolume",
        "Secret",
    ] {
        assert_eq!(lab.names(kind).await, Vec::<String>::new(), "{kind}");
    }
    assert_eq!(lab.names("NetworkAttachmentDefinition").await, ["others"]);
    let begin = Instant::now();
    while !lab.names("PersistentVolumeClaim").await.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(10), "claims are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn delete(lab: &Lab, vm: &VmRef) {
    let task = lab.provider.delete(vm).await.expect("accepted");
    let begin = Instant::now();
    while let Some(task) = &task {
        let state = lab.provider.task_status(task).await.expect("known");
        if state == polyvirt_contract::watch::TaskState::Succeeded {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{state:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(lab.provider.describe(&vm.id).await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_another_vm_uses_stays() {
    let lab = Lab::new().await;
    let one = lab.make(rich(&lab, "one")).await;
    let two = lab.make(rich(&lab, "two")).await;
    delete(&lab, &one).await;
    assert_eq!(lab.names("NetworkAttachmentDefinition").await, ["vlan12"]);
    delete(&lab, &two).await;
    assert!(lab.names("NetworkAttachmentDefinition").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_goes_with_the_last_card_that_used_it() {
    let lab = Lab::new().await;
    let mut wish = rich(&lab, "web");
    let vm = lab.running(wish.clone()).await;
    assert_eq!(lab.names("NetworkAttachmentDefinition").await, ["vlan12"]);
    wish.networks.pop();
    let task = lab.provider.reconfigure(&vm, wish).await;
    lab.done(task.expect("accepted")).await;
    lab.until(&vm, |state| {
        state.nics.as_ref().is_some_and(|n| n.len() == 1)
    })
    .await;
    let begin = Instant::now();
    while !lab.names("NetworkAttachmentDefinition").await.is_empty() {
        assert!(begin.elapsed() < PATIENCE, "it stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_somebody_else_is_told_within_a_second() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let mut stream = synced(&lab.provider).await;
    lab.change(
        "VirtualMachine",
        "web",
        json!({"spec": {"runStrategy": "Halted"}}),
    )
    .await;
    let off = |event: &VmEvent| matches!(event, VmEvent::State(state) if state.id == vm.id && state.power == PowerState::Off);
    let (_, took) = first(&mut stream, off).await;
    println!("told after {took:?}");
    assert!(took < Duration::from_secs(1), "told after {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_scheduled_is_told_and_can_be_stopped() {
    let lab = Lab::new().await;
    let vm = lab.make(lab.wish("big")).await;
    let fault = json!({"metadata": {"annotations": {FAULT: "Unschedulable"}}});
    lab.change("VirtualMachine", "big", fault).await;
    lab.provider
        .power(&vm, PowerOp::On.into())
        .await
        .expect("accepted");
    let state = lab.until(&vm, |state| !state.fault.is_empty()).await;
    assert!(
        state.fault.starts_with("ErrorUnschedulable: 0/2 nodes"),
        "{}",
        state.fault
    );
    assert_eq!((state.power, state.stage), (PowerState::Off, Stage::Whole));
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    lab.until(&vm, |state| state.fault.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_cannot_be_fetched_is_told() {
    let lab = Lab::new().await;
    let mut wish = lab.wish("web");
    wish.image.format.clear();
    wish.image.url = "https://nowhere.invalid/x.qcow2".to_owned();
    let vm = lab.make(wish).await;
    let state = lab.until(&vm, |state| !state.fault.is_empty()).await;
    assert!(state.fault.contains("DataVolumeError"), "{}", state.fault);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_died_half_way_goes_on() {
    let lab = Lab::new().await;
    let vm = lab.make(rich(&lab, "web")).await;
    // What a provider leaves that dies after the VirtualMachine: the mark, and neither claim nor Secret.
    let creating = json!({"metadata": {"annotations": {"polyvirt.io/creating": "true"}}});
    lab.change("VirtualMachine", "web", creating).await;
    lab.api("Secret")
        .delete("web-cloudinit", &DeleteParams::default())
        .await
        .expect("deleted");
    assert_eq!(lab.state(&vm).await.stage, Stage::Creating);
    let found = lab
        .provider
        .find(&lab.owner("web").identity)
        .await
        .expect("an answer");
    assert_eq!(found.map(|state| state.stage), Some(Stage::Creating));
    lab.make(rich(&lab, "web")).await;
    assert_eq!(lab.names("Secret").await, ["web-cloudinit"]);
    assert_eq!(lab.state(&vm).await.stage, Stage::Whole);
}

/// A quota of claims, as if its controller had counted: none is left.
async fn allow_no_claims(lab: &Lab) -> Api<ResourceQuota> {
    let quotas = Api::<ResourceQuota>::namespaced(lab.client.clone(), &lab.namespace);
    let hard = json!({"persistentvolumeclaims": "0"});
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": hard}});
    let quota = serde_json::from_value(quota).expect("a quota");
    quotas
        .create(&PostParams::default(), &quota)
        .await
        .expect("made");
    let status = json!({"status": {"hard": hard, "used": hard}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    let counted = quotas.patch_status("none", &params, &patch).await;
    counted.expect("counted");
    quotas
}

/// Every create is refused by the quota, and none makes another VM; without the quota the next one completes what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_a_quota_stops_half_way_is_completed_by_another() {
    let lab = Lab::new().await;
    let quotas = allow_no_claims(&lab).await;
    for _ in 0..2 {
        let error = lab.provider.create(lab.wish("web")).await;
        let error = error.expect_err("no claim is allowed");
        assert_eq!(error.kind, ErrorKind::Exhausted, "{error}");
        assert!(error.message.contains("exceeded quota"), "{error}");
        let found = lab.provider.find(&lab.owner("web").identity).await;
        let found = found.expect("an answer").expect("half of it is there");
        assert_eq!(found.stage, Stage::Creating);
    }
    let params = DeleteParams::default();
    quotas.delete("none", &params).await.expect("deleted");
    let begin = Instant::now();
    // The API server's admission learns by a watch of its own that the quota is gone.
    while let Err(error) = lab.provider.create(lab.wish("web")).await {
        assert_eq!(error.kind, ErrorKind::Exhausted, "{error}");
        assert!(begin.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let vm = lab.make(lab.wish("web")).await;
    assert_eq!(lab.state(&vm).await.stage, Stage::Whole);
    assert_eq!(lab.names("VirtualMachine").await, ["web"]);
}

/// The instance that runs now.
async fn instance(lab: &Lab) -> Option<String> {
    let api = lab.api("VirtualMachineInstance");
    let found = api.get_opt("web").await.expect("an answer");
    found.and_then(|instance| instance.metadata.uid)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_that_is_asked_for_again_is_not_done_again() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let first = instance(&lab).await.expect("an instance");
    let request = || polyvirt_contract::model::PowerRequest {
        op: PowerOp::Reboot,
        request: Some("r1".into()),
    };
    lab.provider.power(&vm, request()).await.expect("accepted");
    let begin = Instant::now();
    while instance(&lab).await.is_none_or(|now| now == first) {
        assert!(begin.elapsed() < PATIENCE, "it is not restarted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lab.until(&vm, |state| state.power == PowerState::On).await;
    // What a provider leaves that dies before it says so.
    let forget = json!({"metadata": {"annotations": {"polyvirt.io/last-request": null}}});
    lab.change("VirtualMachine", "web", forget).await;
    let second = instance(&lab).await.expect("an instance");
    assert_ne!(first, second);
    lab.provider.power(&vm, request()).await.expect("accepted");
    let third = instance(&lab).await.expect("an instance");
    assert_eq!(second, third);
    assert_eq!(lab.state(&vm).await.last_request, Some("r1".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_that_is_being_deleted_is_not_started() {
    let lab = Lab::new().await;
    let vm = lab.make(lab.wish("web")).await;
    let hold = json!({"metadata": {"finalizers": ["kubevirt.io/virtualMachineControllerFinalize", "test.io/hold"]}});
    lab.change("VirtualMachine", "web", hold).await;
    lab.provider.delete(&vm).await.expect("accepted");
    assert_eq!(lab.state(&vm).await.stage, Stage::Deleting);
    let error = lab
        .provider
        .power(&vm, PowerOp::On.into())
        .await
        .expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Precondition);
    let again = lab
        .provider
        .create(lab.wish("web"))
        .await
        .expect_err("refused");
    assert_eq!(again.kind, ErrorKind::Precondition);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_carries_bytes_both_ways() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let session = lab.provider.console(&vm, ConsoleKind::Serial).await;
    let mut session = session.expect("attached");
    let greeting = session.output.next().await.expect("bytes").expect("bytes");
    assert!(
        greeting.starts_with(b"web: Simulated Linux"),
        "{greeting:?}"
    );
    session
        .input
        .send(Bytes::from_static(b"root\r"))
        .await
        .expect("sent");
    let echo = session.output.next().await.expect("bytes").expect("bytes");
    assert_eq!(echo, "root\r");
    let screen = lab.provider.console(&vm, ConsoleKind::Vnc).await;
    let mut screen = screen.expect("attached");
    let hello = screen.output.next().await.expect("bytes").expect("bytes");
    assert!(hello.starts_with(b"RFB 003.008\n"), "{hello:?}");
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    let error = lab
        .provider
        .console(&vm, ConsoleKind::Vnc)
        .await
        .expect_err("off");
    assert_eq!(error.kind, ErrorKind::Precondition);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_is_paused_and_goes_on() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let state = lab.switch(&vm, PowerOp::Pause, PowerState::Suspended).await;
    assert!(!state.ips.is_empty(), "it keeps its addresses");
    lab.switch(&vm, PowerOp::Pause, PowerState::Suspended).await;
    lab.switch(&vm, PowerOp::On, PowerState::On).await;
    lab.switch(&vm, PowerOp::Pause, PowerState::Suspended).await;
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    let error = lab.provider.power(&vm, PowerOp::Pause.into()).await;
    assert_eq!(error.expect_err("off").kind, ErrorKind::Precondition);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_vm_uses_is_told() {
    let lab = Lab::new().await;
    let features = lab.provider.features().await.expect("features");
    assert!(features.has(Extension::Usage));
    let vm = lab.running(lab.wish("web")).await;
    let used = async || {
        let all = lab.provider.usage().await.expect("told");
        let found = all.into_iter().find(|used| used.id == vm.id);
        found.expect("it runs")
    };
    let first = used().await;
    assert_eq!(first.memory_bytes, Some(512 << 20));
    // Two processors, each a quarter busy, for the fifteen seconds of the window.
    assert_eq!(first.cpu_time, Duration::from_millis(7_500));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second = used().await;
    assert!(second.cpu_time > first.cpu_time, "{second:?}");
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    let all = lab.provider.usage().await.expect("told");
    assert!(all.iter().all(|used| used.id != vm.id));
}

/// KubeVirt does not see that a claim which it has deleted is gone, and may wait for minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_kubevirt_forgets_is_done_all_the_same() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let request = SnapshotRequest {
        name_hint: "before".to_owned(),
        ..SnapshotRequest::default()
    };
    let taken = lab.provider.snapshot_create(&vm, request).await;
    let taken = taken.expect("taken");
    lab.done(taken.task).await;
    let fault = json!({"metadata": {"annotations": {FAULT: "ForgetsRestore"}}});
    lab.change("VirtualMachine", "web", fault).await;
    let back = lab.provider.snapshot_revert(&vm, &taken.id).await;
    lab.done(back.expect("accepted")).await;
}
