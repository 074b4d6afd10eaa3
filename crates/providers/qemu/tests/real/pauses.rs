//! How long a guest stands still, and guests that write faster than they can be moved.

use std::time::{Duration, Instant};

use polyvirt_contract::model::{MigrateVm, MigrationPhase, VmRef};
use polyvirt_contract::watch::TaskState;
use polyvirt_provider_lab::Patience as _;
use polyvirt_provider_lab::counting::{count, counter, counts_on, to};

use crate::bare::Bare;
use crate::hosts::Hosts;
use crate::moving::counting;

/// Moves of which the middle one counts.
const ROUNDS: usize = 5;
/// Slower than the guest writes.
const NARROW: u64 = 12 << 20;
/// Writes memory over and over.
const BUSY: &str = "(while :; do tr '\\0' x < /dev/zero | head -c 25165824 > /run/blob; done) </dev/null >/dev/null 2>&1 & echo busy";
/// Whether users without rights may fetch memory.
const FETCH: &str = "/proc/sys/vm/unprivileged_userfaultfd";

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Our own measure of one move.
async fn stood_still(hosts: &Hosts, vm: &VmRef, round: usize) -> Duration {
    let host = ["hv-b", "hv-a"][round % 2];
    let answer = hosts
        .fleet
        .migrate(vm, to(host, &format!("r{round}")))
        .await;
    let id = answer.expect("accepted").expect("a task");
    hosts.ended(Ok(Some(id.clone()))).await.expect("moved");
    let progress = hosts.fleet.migration_progress(&id).await.expect("told");
    progress.downtime.expect("measured")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_hardly_stands_still_longer_than_with_qemu_alone() {
    let hosts = Hosts::start("nothing").await;
    let vm = counting(&hosts, "sprinter", 1).await;
    let mut alone = Bare::start(&hosts.wire);
    tokio::task::block_in_place(|| alone.is_up_and_does(&counter()));
    let before = count(&hosts, &vm).await;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        ours.push(stood_still(&hosts, &vm, round).await);
        theirs.push(tokio::task::block_in_place(|| alone.migrate(&hosts.wire)));
    }
    counts_on(&hosts, &vm, before).await;
    println!("ours: {ours:?}\nalone: {theirs:?}");
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("stood still for {ours:?}, with QEMU alone for {theirs:?}: {ratio:.2} times");
    assert!(ours <= theirs * 3 / 2, "{ours:?} {theirs:?}");
}

/// Sets what the kernel allows, and sets it back.
struct Allowed(String);

impl Allowed {
    fn fetch() -> Self {
        let before = std::fs::read_to_string(FETCH).expect("the kernel can do it");
        std::fs::write(FETCH, "1").expect("root may allow it");
        Self(before)
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let _ = std::fs::write(FETCH, &self.0);
    }
}

/// Follows a move to its end. Whether it was seen to fetch.
async fn fetched(hosts: &Hosts, vm: &VmRef, request: MigrateVm) -> bool {
    let answer = hosts.fleet.migrate(vm, request).await;
    let id = answer.expect("accepted").expect("a task");
    let deadline = Instant::now() + Duration::from_secs(240);
    let mut fetched = false;
    loop {
        let progress = hosts.fleet.migration_progress(&id).await.expect("told");
        fetched |= progress.phase == MigrationPhase::Fetching;
        match hosts.fleet.task_status(&id).await.expect("known") {
            TaskState::Succeeded => return fetched,
            TaskState::Failed(error) => panic!("{error:?}"),
            TaskState::Running { .. } => assert!(Instant::now() < deadline, "{progress:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_writes_faster_than_it_moves_arrives_by_policy() {
    let hosts = Hosts::start("nothing").await;
    let vm = counting(&hosts, "writer", 1).await;
    assert_eq!(hosts.run(&vm, BUSY).await, "busy");
    let before = count(&hosts, &vm).await;
    let narrow = |host: &str, request: &str| MigrateVm {
        bandwidth: Some(NARROW),
        ..to(host, request)
    };

    // What the kernel does not allow is refused with how to allow it.
    let later = |host: &str, request: &str| MigrateVm {
        post_copy: true,
        ..narrow(host, request)
    };
    if std::fs::read_to_string(FETCH).is_ok_and(|text| text.trim() == "0") {
        let refused = hosts.migrate(&vm, later("hv-b", "not yet")).await;
        let refused = refused.expect_err("not allowed");
        assert_eq!(refused.field.as_deref(), Some("postCopy"), "{refused:?}");
        hosts.only_at(&vm, "hv-a").await;
    }
    let allowed = Allowed::fetch();
    assert!(fetched(&hosts, &vm, later("hv-b", "fetch")).await);
    drop(allowed);
    hosts.only_at(&vm, "hv-b").await;
    let before = counts_on(&hosts, &vm, before).await;

    // Slowed down until it can be caught up with.
    let slowed = MigrateVm {
        auto_converge: true,
        ..narrow("hv-a", "slower")
    };
    let begun = Instant::now();
    fetched(&hosts, &vm, slowed).await;
    println!("caught up with after {:?}", begun.elapsed());
    hosts.only_at(&vm, "hv-a").await;
    counts_on(&hosts, &vm, before).await;
}
