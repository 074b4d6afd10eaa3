//! A cluster that goes and comes back.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use polyvirt_contract::model::{MigrateVm, PowerOp, PowerState, VmState};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{ErrorKind, Provider, ProviderError, RequestId};
use polyvirt_testkit::ControlPlane;

use crate::lab::{Lab, PATIENCE, synced};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_cannot_be_reached_is_never_an_absent_vm() {
    let plane = ControlPlane::builder()
        .start()
        .await
        .expect("a control plane");
    let lab = Lab::on(&plane).await;
    let vm = lab.running(lab.wish("web")).await;
    let mut stream = synced(&lab.provider).await;
    plane.kill_apiserver().expect("killed");

    let ended = async {
        loop {
            match stream.next().await {
                Some(Err(error)) => return error,
                Some(Ok(_)) => {}
                None => panic!("the stream ended without a word"),
            }
        }
    };
    let error = tokio::time::timeout(PATIENCE, ended).await.expect("told");
    unreachable(&error);
    for error in [
        lab.provider.describe(&vm.id).await.expect_err("no answer"),
        lab.provider
            .find(&lab.owner("web").identity)
            .await
            .expect_err("no answer"),
        lab.provider.list_vms().await.expect_err("no answer"),
        lab.provider.validate().await.expect_err("no answer"),
        lab.provider.delete(&vm).await.expect_err("no answer"),
        lab.provider
            .create(lab.wish("web"))
            .await
            .expect_err("no answer"),
    ] {
        unreachable(&error);
    }

    plane.restart_apiserver().await.expect("back");
    let state = told_again(&lab).await;
    assert_eq!((state.id, state.power), (vm.id.clone(), PowerState::On));
    // The simulator is back as soon as the API server is: watches that are opened again after growing pauses took a minute.
    let begin = Instant::now();
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    assert!(
        begin.elapsed() < Duration::from_secs(15),
        "{:?}",
        begin.elapsed()
    );
}

/// A move that nobody can look at for a while goes on, and so does its task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_outlives_an_outage_of_the_api_server() {
    let plane = ControlPlane::builder()
        .start()
        .await
        .expect("a control plane");
    let lab = Lab::on(&plane).await;
    let vm = lab.running(lab.wish("web")).await;
    let request = MigrateVm {
        target_host: "no-such-node".to_owned(),
        request: RequestId::non_empty("slow"),
        ..MigrateVm::default()
    };
    let task = lab.provider.migrate(&vm, request).await.expect("accepted");
    let task = task.expect("it is under way");
    plane.kill_apiserver().expect("killed");
    tokio::time::sleep(Duration::from_secs(3)).await;
    plane.restart_apiserver().await.expect("back");
    told_again(&lab).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let state = lab.provider.task_status(&task).await.expect("known");
    assert!(matches!(state, TaskState::Running { .. }), "{state:?}");
    let request = RequestId::from("slow");
    let stopped = lab.provider.cancel_migration(&vm, &request).await;
    stopped.expect("stopped");
    let begin = Instant::now();
    loop {
        match lab.provider.task_status(&task).await.expect("known") {
            TaskState::Failed(error) if error.kind == ErrorKind::Cancelled => return,
            state => assert!(begin.elapsed() < PATIENCE, "{state:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What a new stream begins with. A server that has just come up may refuse the first.
async fn told_again(lab: &Lab) -> VmState {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE, "no stream comes to stand");
        if let Ok(mut stream) = lab.provider.watch().await
            && let Some(Ok(VmEvent::State(state))) = stream.next().await
        {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn unreachable(error: &ProviderError) {
    let kinds = [ErrorKind::Unavailable, ErrorKind::Timeout];
    assert!(kinds.contains(&error.kind), "{error:?}");
}
