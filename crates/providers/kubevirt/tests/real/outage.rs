//! A cluster that goes and comes back.

use std::time::Duration;

use futures::StreamExt as _;
use polyvirt_contract::model::PowerState;
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Provider, ProviderError};
use polyvirt_testkit::ControlPlane;

use crate::lab::{Lab, PATIENCE, synced};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_cannot_be_reached_is_never_an_absent_vm() {
    let plane = ControlPlane::builder().start().await.expect("a control plane");
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
        lab.provider.find(&lab.owner("web").identity).await.expect_err("no answer"),
        lab.provider.list_vms().await.expect_err("no answer"),
        lab.provider.validate().await.expect_err("no answer"),
        lab.provider.delete(&vm).await.expect_err("no answer"),
        lab.provider.create(lab.wish("web")).await.expect_err("no answer"),
    ] {
        unreachable(&error);
    }

    plane.restart_apiserver().await.expect("back");
    lab.provider.validate().await.expect("back");
    let mut stream = lab.provider.watch().await.expect("a stream");
    let first = tokio::time::timeout(Duration::from_secs(10), stream.next()).await;
    match first.expect("in time") {
        Some(Ok(VmEvent::State(state))) => {
            assert_eq!((state.id, state.power), (vm.id, PowerState::On));
        }
        other => panic!("the VM was told as {other:?}"),
    }
}

fn unreachable(error: &ProviderError) {
    let kinds = [ErrorKind::Unavailable, ErrorKind::Timeout];
    assert!(kinds.contains(&error.kind), "{error:?}");
}
