//! Two hundred VMs, and silence.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use polyvirt_contract::Provider;
use polyvirt_contract::model::{PowerOp, PowerState};
use polyvirt_testkit::{ControlPlane, audit};

use crate::lab::{Lab, first, synced};

const VMS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_vms_run_and_then_nobody_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("audit.log");
    let plane = ControlPlane::builder().audit_log(&log).start().await;
    let plane = plane.expect("a control plane");
    let lab = Lab::on(&plane).await;
    let begin = Instant::now();
    let start = async |number: usize| {
        let vm = lab.make(lab.wish(&format!("vm-{number}"))).await;
        let on = lab.provider.power(&vm, PowerOp::On.into()).await;
        on.expect("accepted");
    };
    stream::iter(0..VMS).for_each_concurrent(16, start).await;
    let asked = begin.elapsed();
    let on = async || {
        let all = lab.provider.list_vms().await.expect("a list");
        all.iter().filter(|vm| vm.power == PowerState::On).count()
    };
    while on().await < VMS {
        assert!(
            begin.elapsed() < Duration::from_mins(4),
            "{} run",
            on().await
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    println!(
        "{VMS} VMs asked for in {asked:?}, running after {:?}",
        begin.elapsed()
    );

    let look = Instant::now();
    let mut stream = synced(&lab.provider).await;
    println!(
        "a stream of {VMS} VMs is in step after {:?}",
        look.elapsed()
    );
    // The simulator's last words about its machines.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let writes = || {
        let entries = audit::read(&log).expect("an audit log");
        entries
            .iter()
            .filter(|entry| entry.is_write() && !entry.user.starts_with("system:"))
            .count()
    };
    let before = writes();
    lab.provider.list_vms().await.expect("a list");
    first(&mut stream, |event| {
        *event == polyvirt_contract::watch::VmEvent::Heartbeat
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(writes() - before, 0, "somebody writes at rest");
}
