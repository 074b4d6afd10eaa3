//! Machines in three clusters. One of them is slow, then gone, then forgets who we are; the others notice nothing, nobody takes a
//! silent cluster for an empty one, and at rest nobody writes anything anywhere.
//!
//! `POLYVIRT_TEST_MACHINES` says how many Machines there are. All figures are printed:
//!
//! ```console
//! $ POLYVIRT_TEST_MACHINES=500 cargo test -p polyvirt-dialects --test kubevirt sick -- --nocapture
//! ```

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fleet::{CLUSTERS, EDITED, Fleet, NS, VERSIONS, machines, with_token};
use crate::site::{ALONE, PATIENCE, introduce};

/// So long an API server believes a token that it has looked at, though its account is gone.
const BELIEVED: Duration = Duration::from_secs(11);

/// Others are as quick as before, as far as a busy machine lets one see that.
fn unhurt(what: &str, usual: Duration, now: Duration) {
    let ratio = now.as_secs_f64() / usual.as_secs_f64();
    println!("{what}: others react in {now:?}, {ratio:.2} times the usual {usual:?}");
    let bound = usual * 2 + Duration::from_millis(500);
    assert!(
        now < bound,
        "{what}: others suffer: {now:?}, usually {usual:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sick_cluster_hurts_nobody_else() {
    let _alone = ALONE.lock().await;
    let fleet = Fleet::start().await;
    for cluster in 0..CLUSTERS.len() {
        fleet.config(cluster, "Ready").await;
    }
    versions(&fleet).await;
    let begin = Instant::now();
    fleet.declare().await;
    println!("{} Machines declared in {:?}", machines(), begin.elapsed());
    fleet.all_running().await;
    println!("{} Machines run after {:?}", machines(), begin.elapsed());
    fleet.rests().await;
    fleet.tell_costs();
    let usual = fleet.reaction(&[1, 2]).await;
    slow(&fleet, usual).await;
    gone(&fleet, usual).await;
    rotated(&fleet).await;
    fleet.all_running().await;
    fleet.rests().await;
    println!("the whole took {:?}", begin.elapsed());
    let text = fleet.manager.metrics();
    assert!(text.contains("kubevirt_operator_machines_total{phase=\"Running\""));
}

/// Which KubeVirt each cluster has is in its status; that they differ is told once.
async fn versions(fleet: &Fleet) {
    for (cluster, version) in VERSIONS.iter().enumerate() {
        let place = ("default", CLUSTERS[cluster]);
        let known = |c: &Value| c["status"]["kubevirtVersion"] == *version;
        let config = fleet
            .supervisor
            .until("KubevirtConfig", place, version, known)
            .await;
        assert_eq!(config["status"]["apiVersions"], json!(["v1"]), "{config:#}");
        assert!(config["status"]["latencyMs"].is_i64(), "{config:#}");
    }
    let words = "KubeVirt differs between clusters: cluster-east has v1.8.0 (kubevirt.io v1), cluster-north has v1.7.1";
    let told = |line: &Value| line["message"].as_str().is_some_and(|m| m.contains(words));
    let deadline = Instant::now() + PATIENCE;
    while !fleet.manager.log().iter().any(told) {
        assert!(
            Instant::now() < deadline,
            "nobody tells that versions differ"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Who is refused asks again with pauses that grow, and not once for every Machine.
fn patient(refused: usize, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    println!("{refused} requests of ours were refused in {seconds:.1} s");
    let most = EDITED as f64 + seconds * 2.0;
    assert!((refused as f64) < most, "a storm of {refused} requests");
}

async fn slow(fleet: &Fleet, usual: Duration) {
    fleet.wire.slow(Duration::from_millis(1500));
    fleet.edit(0, "Off").await;
    fleet.lose().await;
    unhurt("one cluster slow", usual, fleet.reaction(&[1, 2]).await);
    fleet.wire.slow(Duration::ZERO);
    fleet.edited(0, "Stopped").await;
    fleet.undecided().await;
}

/// A cluster that does not answer is never one without VMs: nothing is made anew, and nothing is taken for deleted.
async fn gone(fleet: &Fleet, usual: Duration) {
    let before = fleet.uids(0).await;
    fleet.clusters[0].plane.kill_apiserver().unwrap();
    fleet.edit(0, "On").await;
    let doomed = fleet.of(0).pop().unwrap();
    fleet.supervisor.delete("Machine", (NS, &doomed)).await;
    unhurt("one cluster gone", usual, fleet.reaction(&[1, 2]).await);
    let sick = fleet.config(0, "Failed").await;
    assert!(sick["status"]["lastError"].is_string(), "{sick:#}");
    let healthy = fleet.config(2, "Ready").await;
    assert_eq!(healthy["status"]["status"], "Connected");
    for machine in fleet.of(0) {
        let seen = fleet.supervisor.look("Machine", (NS, &machine)).await;
        let phase = seen["status"]["phase"].as_str().unwrap_or_default();
        let expected = if machine == doomed {
            &["Terminating"][..]
        } else {
            &["Running", "Stopped", "Stopping"]
        };
        assert!(expected.contains(&phase), "{machine}: {seen:#}");
        assert_ne!(seen["status"]["failureReason"], "VmMissing", "{machine}");
    }
    fleet.clusters[0].plane.restart_apiserver().await.unwrap();
    fleet.edited(0, "Running").await;
    fleet
        .supervisor
        .until("Machine", (NS, &doomed), "gone", Value::is_null)
        .await;
    let after = fleet.uids(0).await;
    assert!(after.is_subset(&before), "a VM was made anew");
    assert_eq!(
        after.len(),
        before.len() - 1,
        "only the one that was deleted is gone"
    );
}

/// The old credentials are taken away, and new ones come with the Secret. What is usual is measured anew: an API server that was
/// started a moment ago is slower than one that has run for a while.
async fn rotated(fleet: &Fleet) {
    fleet.rests().await;
    let usual = fleet.reaction(&[0, 2]).await;
    let north = &fleet.clusters[1];
    let fresh = with_token(north, "second").await;
    north
        .delete("v1/ServiceAccount", ("default", "first"))
        .await;
    tokio::time::sleep(BELIEVED).await;
    fleet.edit(1, "Off").await;
    let refused = fleet.config(1, "Failed").await;
    assert!(refused["status"]["lastError"].is_string(), "{refused:#}");
    let (begin, before) = (Instant::now(), north.refused());
    unhurt(
        "one cluster refuses us",
        usual,
        fleet.reaction(&[0, 2]).await,
    );
    patient(north.refused() - before, begin);
    introduce(&fleet.supervisor, "default", CLUSTERS[1], &fresh).await;
    fleet.edited(1, "Stopped").await;
    fleet.edit(1, "On").await;
    fleet.edited(1, "Running").await;
    fleet.config(1, "Ready").await;
}
