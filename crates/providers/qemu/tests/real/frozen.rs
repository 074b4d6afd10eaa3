//! A guest that was made quiet for a snapshot and does not go on is told, and let go on as soon as it can be.

use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{Quiesce, SnapshotContents, SnapshotRequest, VmState};

use crate::lab::{Lab, desired};

/// The agent comes back deaf to one command, and hears it again after a while.
const DEAF: &str = "
    cp /sbin/agent /run/agent.before
    sed -i 's/--fsfreeze-hook/-b guest-fsfreeze-thaw --fsfreeze-hook/' /sbin/agent
    (sleep 1; killall qemu-ga; sleep 25; cp /run/agent.before /sbin/agent; killall -9 qemu-ga) >/dev/null 2>&1 &";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_stays_frozen_is_an_alarm_until_it_goes_on() {
    let lab = Lab::new().await;
    let vm = lab.create(&desired("frozen", 70)).await;
    lab.boot(&vm).await;
    lab.run(&vm, DEAF).await;
    let gone = |state: &VmState| crate::lab::agent(state) != "connected";
    lab.until(&vm, "the agent to go", gone).await;
    lab.up(&vm).await;
    let request = SnapshotRequest {
        name_hint: "quiet".to_owned(),
        contents: SnapshotContents::Disks,
        quiesce: Quiesce::IfPossible,
        ..SnapshotRequest::default()
    };
    let taken = lab.provider.snapshot_create(&vm, request).await;
    lab.done(Ok(taken.expect("taken").task)).await;
    let fault = lab.state(&vm).await.fault;
    assert!(fault.contains("still frozen"), "{fault}");
    let mended = |state: &VmState| state.fault.is_empty();
    lab.until(&vm, "the guest to go on", mended).await;
    lab.run(&vm, "echo written > /data/after; sync").await;
}
