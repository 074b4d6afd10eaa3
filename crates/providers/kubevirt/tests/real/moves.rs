//! Machines that move to another node.

use futures::StreamExt as _;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use polyvirt_contract::model::{MigrateVm, MigrationPhase, PowerOp, PowerState};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{ErrorKind, Provider, RequestId, TaskId};
use polyvirt_testkit::ControlPlane;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, patience, synced};

const NODES: [&str; 2] = ["sim-node-1", "sim-node-2"];

fn other(host: &str) -> &'static str {
    if host == NODES[0] { NODES[1] } else { NODES[0] }
}

fn to(host: &str, request: &str) -> MigrateVm {
    MigrateVm {
        target_host: host.to_owned(),
        request: RequestId::non_empty(request),
        ..MigrateVm::default()
    }
}

/// The end of a task; `None` is one that ended before the answer.
async fn ended(lab: &Lab, task: Option<TaskId>) -> TaskState {
    let Some(task) = task else {
        return TaskState::Succeeded;
    };
    let waiting = async {
        loop {
            match lab.provider.task_status(&task).await.expect("known") {
                TaskState::Running { .. } => {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
                end => return end,
            }
        }
    };
    tokio::time::timeout(patience(), waiting)
        .await
        .expect("an end")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_moves_once_and_runs_on() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let before = lab.state(&vm).await;
    let target = other(&before.host);
    let mut stream = synced(&lab.provider).await;
    let task = lab
        .provider
        .migrate(&vm, to(target, "first"))
        .await
        .expect("accepted");
    if let Some(task) = &task {
        let progress = lab.provider.migration_progress(task).await.expect("a move");
        assert_ne!(progress.phase, MigrationPhase::Fetching);
    }
    assert_eq!(ended(&lab, task).await, TaskState::Succeeded);
    let told = async {
        while let Some(event) = stream.next().await {
            if let Ok(VmEvent::State(state)) = event
                && state.host == target
            {
                return state;
            }
        }
        panic!("the stream ended");
    };
    let state = tokio::time::timeout(patience(), told).await.expect("told");
    assert_eq!(state.power, PowerState::On);
    // A reply that was lost: the same request again is done, though the machine would now move back to nowhere.
    let again = lab
        .provider
        .migrate(&vm, to("", "first"))
        .await
        .expect("accepted");
    assert_eq!(ended(&lab, again).await, TaskState::Succeeded);
    let after = lab.state(&vm).await;
    assert_eq!(after.host, target);
    assert_eq!(after.last_request, RequestId::non_empty("first"));
}

/// All policies of the cluster that were made here.
/// KubeVirt writes to a VirtualMachine whenever its machine changes: a move that is over is not undone by that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_others_write_to_moves_all_the_same() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let (api, stop) = (lab.api("VirtualMachine"), CancellationToken::new());
    let stopped = stop.clone();
    let others = tokio::spawn(async move {
        let mut writes = 0_u32;
        while !stopped.is_cancelled() {
            writes += 1;
            let note = json!({"metadata": {"annotations": {"others/wrote": writes.to_string()}}});
            let patch = Patch::Merge(note);
            let wrote = api.patch("web", &PatchParams::default(), &patch).await;
            wrote.expect("written");
        }
    });
    for request in ["there", "back", "again"] {
        let target = other(&lab.state(&vm).await.host);
        let task = lab.provider.migrate(&vm, to(target, request)).await;
        let end = ended(&lab, task.expect("accepted")).await;
        assert_eq!(end, TaskState::Succeeded);
    }
    stop.cancel();
    others.await.expect("it ended");
}

async fn policies(lab: &Lab) -> Vec<String> {
    let kind = GroupVersionKind::gvk("migrations.kubevirt.io", "v1alpha1", "MigrationPolicy");
    let kind = ApiResource::from_gvk_with_plural(&kind, "migrationpolicies");
    let api: Api<DynamicObject> = Api::all_with(lab.client.clone(), &kind);
    let all = api.list(&ListParams::default()).await.expect("a list");
    let specs = all.items.into_iter().map(|policy| policy.data.to_string());
    specs.filter(|spec| spec.contains(&lab.namespace)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_limited_as_it_was_asked_for() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let target = other(&lab.state(&vm).await.host);
    let request = MigrateVm {
        bandwidth: Some(64 << 20),
        auto_converge: true,
        ..to(target, "slowly")
    };
    let task = lab.provider.migrate(&vm, request).await.expect("accepted");
    assert_eq!(ended(&lab, task).await, TaskState::Succeeded);
    let instance = lab.get("VirtualMachineInstance", "web").await;
    let went = &instance["status"]["migrationState"]["migrationConfiguration"];
    assert_eq!(went["bandwidthPerMigration"], "67108864", "{instance}");
    assert_eq!(went["allowAutoConverge"], true);
    assert!(policies(&lab).await.is_empty(), "a policy was left");
    // A policy that somebody left who died does not act on a move without wishes.
    let back = to(other(target), "quickly");
    let task = lab.provider.migrate(&vm, back).await.expect("accepted");
    assert_eq!(ended(&lab, task).await, TaskState::Succeeded);
    let instance = lab.get("VirtualMachineInstance", "web").await;
    let went = &instance["status"]["migrationState"];
    assert_eq!(went["migrationPolicyName"], serde_json::Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_cannot_move_stays_and_says_why() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let before = lab.state(&vm).await;
    let fault =
        serde_json::json!({"metadata": {"annotations": {"sim.polyvirt.io/fault": "Immovable"}}});
    lab.change("VirtualMachineInstance", "web", fault).await;
    let answer = lab.provider.migrate(&vm, to("", "try")).await;
    let error = match answer {
        Err(error) => error,
        Ok(task) => match ended(&lab, task).await {
            TaskState::Failed(error) => error,
            other => panic!("{other:?}"),
        },
    };
    assert!(error.message.contains("writes faster"), "{error}");
    let after = lab.state(&vm).await;
    assert_eq!((after.host, after.power), (before.host, PowerState::On));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_off_does_not_move() {
    let lab = Lab::new().await;
    let vm = lab.make(lab.wish("web")).await;
    let error = lab
        .provider
        .migrate(&vm, to(NODES[0], "x"))
        .await
        .expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Precondition, "{error}");
    let unknown = lab
        .provider
        .migration_progress(&TaskId::from("nobody"))
        .await;
    assert_eq!(unknown.expect_err("unknown").kind, ErrorKind::NotFound);
}

/// There is nothing to stop any more when the machine is off, and that is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_move_of_a_machine_that_went_off_is_over_for_who_cancels() {
    let lab = Lab::new().await;
    let vm = lab.running(lab.wish("web")).await;
    let begun = lab.provider.migrate(&vm, to("no-such-node", "stuck")).await;
    begun.expect("accepted");
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    let request = RequestId::from("stuck");
    let asked = async {
        // What is at work still is stopped first.
        while lab.provider.cancel_migration(&vm, &request).await == Ok(()) {}
        lab.provider.cancel_migration(&vm, &request).await
    };
    let answer = tokio::time::timeout(patience(), asked)
        .await
        .expect("an end");
    assert_eq!(answer.expect_err("over").kind, ErrorKind::NotFound);
}

/// Who must have encryption does not get a move without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_must_be_encrypted_is_refused_where_none_is() {
    let plane = ControlPlane::builder().start().await;
    let plane = plane.expect("a control plane");
    let lab = Lab::on(&plane).await;
    let vm = lab.running(lab.wish("web")).await;
    let encrypted = |request: &str| MigrateVm {
        encrypted: true,
        ..to("", request)
    };
    let plain = |yes: bool| json!({"spec": {"configuration": {"migrations": {"disableTLS": yes}}}});
    lab.kubevirt(plain(true)).await;
    let refused = lab.provider.migrate(&vm, encrypted("one")).await;
    let refused = refused.expect_err("refused");
    assert_eq!(refused.kind, ErrorKind::Unsupported, "{refused}");
    assert_eq!(refused.field.as_deref(), Some("encrypted"));
    lab.kubevirt(plain(false)).await;
    let task = lab.provider.migrate(&vm, encrypted("two")).await;
    let end = ended(&lab, task.expect("accepted")).await;
    assert_eq!(end, TaskState::Succeeded);
}
