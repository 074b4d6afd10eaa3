//! A guest that was made quiet for a snapshot and does not go on is told, by the next life of the provider too, and let go on as
//! soon as it can be.

use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{Quiesce, SnapshotContents, SnapshotRequest, VmRef, VmState};

use crate::lab::{Lab, open};

/// The agent comes back deaf to one command. It hears again when the machine gets one more disk: while it is frozen nobody can tell
/// the guest anything else.
const DEAF: &str = "
    cp /sbin/agent /run/agent.before
    sed -i 's/--fsfreeze-hook/-b guest-fsfreeze-thaw --fsfreeze-hook/' /sbin/agent
    (sleep 1; killall qemu-ga; while [ ! -e /sys/block/vdc ]; do sleep 1; done
     cp /run/agent.before /sbin/agent; killall -9 qemu-ga) >/dev/null 2>&1 &";

fn heal(lab: &Lab) {
    let file = lab.host.path("signal.img");
    std::fs::write(&file, vec![0; 1 << 20]).expect("written");
    let file = file.display().to_string();
    lab.host
        .virsh(&["attach-disk", "frozen", &file, "vdq", "--live"]);
}

async fn snapshot(lab: &Lab, vm: &VmRef, name: &str) {
    let request = SnapshotRequest {
        name_hint: name.to_owned(),
        contents: SnapshotContents::Disks,
        quiesce: Quiesce::IfPossible,
        ..SnapshotRequest::default()
    };
    let taken = lab.provider.snapshot_create(vm, request).await;
    lab.done(Ok(taken.expect("taken").task)).await;
}

/// Waits for an agent that goes and comes back.
async fn restarted(lab: &Lab, vm: &VmRef) {
    let listens = |state: &VmState| {
        let agent = state.details.get("guestAgent");
        agent.is_some_and(|agent| agent == "connected")
    };
    lab.until(vm, "the agent to go", |state| !listens(state))
        .await;
    lab.until(vm, "the agent to come", listens).await;
}

fn noted(lab: &Lab) -> bool {
    let xml = lab.host.virsh(&["dumpxml", "frozen"]);
    xml.contains("frozenBy")
}

fn is_frozen(state: &VmState) -> bool {
    state.fault.contains("still frozen")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_stays_frozen_is_an_alarm_that_outlives_the_provider() {
    let mut lab = Lab::new().await;
    let vm = lab.create(&lab.desired("frozen", 1)).await;
    lab.boot(&vm).await;
    lab.run(&vm, DEAF).await;
    restarted(&lab, &vm).await;
    snapshot(&lab, &vm, "quiet").await;
    assert!(is_frozen(&lab.state(&vm).await));
    assert!(noted(&lab), "it is written down with the machine");
    // Another snapshot of it is taken all the same, and changes nothing of that.
    snapshot(&lab, &vm, "again").await;
    assert!(is_frozen(&lab.state(&vm).await));

    // The next life of the provider knows of it, and lets it go on.
    lab.provider = open(&lab.host.url());
    lab.until(&vm, "the alarm", is_frozen).await;
    heal(&lab);
    lab.until(&vm, "the guest to go on", |state| state.fault.is_empty())
        .await;
    lab.until_runs(&vm, "echo written > /data/after; sync")
        .await;
    assert!(!noted(&lab), "nothing is left of it");
    let left = lab.state(&vm).await.snapshots.expect("told");
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|s| s.size_bytes > 0), "{left:?}");
    lab.delete(&vm).await;
}

/// The agent dies when it is told to freeze, which is the last that anybody hears of it for a while.
const DIES: &str = "
    printf '#!/bin/sh\\n[ $1 != freeze ] || { mv /sbin/agent /run/away; killall -9 qemu-ga; }\\n' > /sbin/hook
    chmod +x /sbin/hook
    sed -i 's,--fsfreeze-hook=/bin/true,--fsfreeze-hook=/sbin/hook,' /sbin/agent
    (sleep 1; killall qemu-ga; while [ ! -e /sys/block/vdc ]; do sleep 1; done; mv /run/away /sbin/agent) >/dev/null 2>&1 &";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_freeze_whose_answer_is_lost_is_told_until_the_guest_goes_on() {
    let lab = Lab::new().await;
    let vm = lab.create(&lab.desired("frozen", 1)).await;
    lab.boot(&vm).await;
    lab.run(&vm, DIES).await;
    restarted(&lab, &vm).await;
    snapshot(&lab, &vm, "lost").await;
    assert!(
        is_frozen(&lab.state(&vm).await),
        "nobody can know that it is not"
    );
    let taken = lab.state(&vm).await.snapshots.expect("told");
    assert_eq!(taken.len(), 1);
    heal(&lab);
    lab.until(&vm, "the guest to go on", |state| state.fault.is_empty())
        .await;
    assert!(!noted(&lab), "nothing is left of it");
    lab.delete(&vm).await;
}
