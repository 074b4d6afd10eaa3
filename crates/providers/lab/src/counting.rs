//! Guests that count in their memory: whoever moves them sees whether they go on.

use std::time::{Duration, Instant};

use polyvirt_contract::model::{CreateVm, MigrateVm, VmRef};

use crate::Patience;

/// Words that are in the memory of the guest and nowhere else.
pub const MARKER: &str = "polyvirt-marker-in-guest-memory-0123456789";
/// Slow enough to do something meanwhile, in bytes a second.
pub const SLOW: u64 = 6 << 20;

/// A move to that host.
pub fn to(host: &str, request: &str) -> MigrateVm {
    MigrateVm {
        target_host: host.to_owned(),
        request: Some(request.into()),
        ..MigrateVm::default()
    }
}

/// What a guest is told to do: to count in its memory, and to hold the marker there.
pub fn counter() -> String {
    let half = MARKER.split_at(MARKER.len() / 2);
    format!(
        "a={}; i=0; while [ $i -lt 2000 ]; do echo ${{a}}{}; i=$((i+1)); done > /run/marker; (i=0; while :; do i=$((i+1)); echo $i > /run/counter.new; mv /run/counter.new /run/counter; sleep 0.1; done) </dev/null >/dev/null 2>&1 & echo begun",
        half.0, half.1
    )
}

/// A guest that does so.
pub async fn counting(hosts: &impl Patience, desired: CreateVm) -> VmRef {
    let vm = hosts.boots(desired).await;
    assert_eq!(hosts.run(&vm, &counter()).await, "begun");
    vm
}

/// How far it is.
pub async fn count(hosts: &impl Patience, vm: &VmRef) -> u64 {
    let text = hosts.run(vm, "cat /run/counter").await;
    text.parse().expect("a number")
}

/// The guest goes on from where it was: it counts on, and was not booted again.
pub async fn counts_on(hosts: &impl Patience, vm: &VmRef, before: u64) -> u64 {
    let first = count(hosts, vm).await;
    assert!(first >= before, "it fell back from {before} to {first}");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let now = count(hosts, vm).await;
        if now > first {
            return now;
        }
        assert!(Instant::now() < deadline, "it stands still at {now}");
    }
}
