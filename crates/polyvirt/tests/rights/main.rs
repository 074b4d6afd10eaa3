//! What the manager may do is what it does: it works with the roles that are shipped, is refused nothing, and each right
//! that they grant is seen to be used.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod cluster;
mod grants;
mod work;

use std::collections::BTreeSet;

use grants::Grant;
use polyvirt_testkit::audit::{self, Entry};

/// Rights that this test does not bring about, and who needs them.
const RARE: &[(&str, &str)] = &[(
    "/secrets create",
    "the gateway, when its certificate is not there yet",
)];

fn rare(grant: &Grant) -> bool {
    let words = grant.to_string();
    RARE.iter().any(|(right, _)| *right == words)
}

/// A right of a list is used by a list that is watched, and one of a watch by the watch.
fn used(entries: &[Entry]) -> BTreeSet<Grant> {
    entries.iter().filter_map(Grant::of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manager_has_the_rights_that_it_uses_and_no_others() {
    let cluster = cluster::start().await;
    let manager = cluster.manager().await;
    work::everything(&cluster).await;
    drop(manager);

    let entries: Vec<_> = audit::read(&cluster.audit_log())
        .unwrap()
        .into_iter()
        .filter(|entry| entry.user == cluster::ACCOUNT)
        .collect();
    let refused: BTreeSet<_> = entries.iter().filter(|entry| entry.code == 403).collect();
    assert!(refused.is_empty(), "the manager was refused: {refused:#?}");
    let used = used(&entries);
    assert!(used.len() > 40, "too little was seen: {used:?}");
    let idle: Vec<_> = grants::shipped()
        .into_iter()
        .filter(|grant| !used.contains(grant) && !rare(grant))
        .map(|grant| grant.to_string())
        .collect();
    assert!(idle.is_empty(), "granted, but never used: {idle:#?}");
}
