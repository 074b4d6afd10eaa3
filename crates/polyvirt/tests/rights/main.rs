//! What the manager may do is what it does: it works with the roles that are shipped, which are made from `src/rights`, is
//! refused nothing, and each right that they grant is seen to be used where it is granted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod cluster;
mod grants;
mod work;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cluster::{ACCOUNT, Cluster, Scope};
use grants::Grant;
use polyvirt_testkit::audit::{self, Entry};

/// Rights that this test does not bring about, and who needs them.
const RARE: &[(&str, &str)] = &[
    (
        "/namespaces get",
        "the first Provider, class or image that is shared with namespaces by their labels",
    ),
    (
        "authorization.k8s.io/subjectaccessreviews create",
        "the gateway, for a person who wants into a guest",
    ),
    (
        "coordination.k8s.io/leases create",
        "the election, if somebody has deleted the Lease",
    ),
    (
        "networking.k8s.io/servicecidrs list",
        "the first hook that calls a web server",
    ),
    (
        "/events patch",
        "an event that happened before and happens again",
    ),
];

/// What a manager for some namespaces may do in the whole cluster: with objects that belong to no namespace, and by name.
const EVERYWHERE: &[&str] = &[
    "/namespaces get",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations get",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations patch",
    "admissionregistration.k8s.io/validatingwebhookconfigurations get",
    "admissionregistration.k8s.io/validatingwebhookconfigurations patch",
    "apiextensions.k8s.io/customresourcedefinitions get",
    "apiregistration.k8s.io/apiservices patch",
    "authorization.k8s.io/subjectaccessreviews create",
    "networking.k8s.io/servicecidrs list",
    "vitistack.io/machineclasses list",
    "vitistack.io/machineclasses watch",
];

fn is_rare(grant: &Grant) -> bool {
    let words = grant.to_string();
    RARE.iter().any(|(right, _)| *right == words)
}

fn entries(cluster: &Cluster) -> Vec<Entry> {
    let all = audit::read(&cluster.audit_log()).unwrap();
    let ours = all.into_iter().filter(|entry| entry.user == ACCOUNT);
    ours.collect()
}

/// Granted, but not used so far where it is granted. A watch is written down when it ends.
fn idle(cluster: &Cluster) -> Vec<String> {
    let entries = entries(cluster);
    let granted = grants::shipped(cluster.scope).into_iter();
    granted
        .filter(|grant| !is_rare(grant))
        .filter(|grant| !entries.iter().any(|entry| grant.is_used_by(entry)))
        .map(|grant| grant.in_full())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manager_has_the_rights_that_it_uses_and_no_others() {
    has_what_it_uses_and_no_more(Scope::Cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_for_some_namespaces_too_and_nothing_in_others() {
    for grant in grants::everywhere(Scope::Namespace) {
        let words = grant.to_string();
        assert!(
            EVERYWHERE.contains(&words.as_str()),
            "in all namespaces: {words}"
        );
    }
    has_what_it_uses_and_no_more(Scope::Namespace).await;
}

async fn has_what_it_uses_and_no_more(scope: Scope) {
    let cluster = cluster::start(scope).await;
    let leader = cluster.manager("manager-0").await;
    work::everything(&cluster).await;
    let standby = cluster.manager("manager-1").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    drop((standby, leader));

    let refused: BTreeSet<_> = entries(&cluster)
        .into_iter()
        .filter(|entry| entry.code == 403)
        .collect();
    assert!(refused.is_empty(), "the manager was refused: {refused:#?}");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !idle(&cluster).is_empty() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let idle = idle(&cluster);
    assert!(idle.is_empty(), "granted, but never used: {idle:#?}");
}
