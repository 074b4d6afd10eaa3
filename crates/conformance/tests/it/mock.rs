//! One suite, one mock, two ways to reach it: the reports must be the same.

use std::path::Path;
use std::sync::Arc;

use polyvirt_conformance::{Profile, Report, run, suite};
use polyvirt_contract::model::{Headers, ImageOrigin, PrepareImage, Pull};
use polyvirt_provider_mock::{Mock, MockConfig};

use crate::wire::{basic_service, both_services};

fn profile() -> Profile {
    let origin = ImageOrigin::Http {
        url: "https://images.example/conformance.raw".to_owned(),
        headers: Headers::default(),
    };
    Profile {
        prepare: Some(PrepareImage {
            target_name: "conformance".to_owned(),
            origin,
            checksum: String::new(),
            checksum_type: String::new(),
            storage_hint: String::new(),
            pull: Pull::default(),
            identity: None,
        }),
        staging: Some("pvc://claim/conformance".to_owned()),
        ..Profile::simulated()
    }
}

fn mock(options: &str, staging: &Path) -> Arc<Mock> {
    let mut config = MockConfig::from_url(&format!("mock://memory?{options}")).expect("readable");
    staging.clone_into(&mut config.staging);
    Mock::new(config)
}

/// The reports in process and over the wire, each of a mock of its own.
async fn both(options: &str) -> (Report, Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = run(mock(options, folder.path()), &profile()).await;
    let served = mock(options, folder.path());
    let wire = both_services(served.clone()).await;
    let outside = run(wire.client.clone(), &profile()).await;
    assert_eq!(served.vms(), [], "nothing is left behind");
    (inside, outside)
}

fn assert_all_pass(report: &Report) {
    assert!(report.conforms(), "{report}");
    assert_eq!(report.not_applicable().count(), 0, "{report}");
    assert_eq!(report.outcomes.len(), suite().len());
}

#[tokio::test]
async fn the_mock_keeps_every_promise_in_process_and_over_the_wire() {
    let (inside, outside) = both("").await;
    assert_all_pass(&inside);
    assert_eq!(inside, outside, "\n{outside}");
}

#[tokio::test]
async fn also_when_work_is_done_by_tasks() {
    let times = "asyncTasks=true&createTime=30ms&powerTime=10ms&deleteTime=10ms&reconfigureTime=10ms&snapshotTime=10ms\
                 &cloneTime=20ms&imageTime=10ms&diskTime=10ms&bootTime=10ms&shutdownTime=20ms";
    let (inside, outside) = both(times).await;
    assert_all_pass(&inside);
    assert_eq!(inside, outside, "\n{outside}");
}

#[tokio::test]
async fn also_when_the_watch_stutters_and_tasks_are_forgotten() {
    let faults = "asyncTasks=true&createTime=10ms&duplicate=30%25&reorder=20%25&late=10%25:50ms&forget=30%25&seed=7";
    let (inside, outside) = both(faults).await;
    assert_all_pass(&inside);
    assert_eq!(inside, outside, "\n{outside}");
}

#[tokio::test]
async fn also_when_vms_are_kept_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config =
        MockConfig::from_url(&format!("mock://{}", folder.path().display())).expect("readable");
    config.staging = folder.path().join("staging");
    let report = run(Mock::new(config), &profile()).await;
    assert_all_pass(&report);
}

#[tokio::test]
async fn a_provider_without_extensions_keeps_the_promises_of_provider_v1() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = profile().basic();
    let inside = run(mock("basic=true", folder.path()), &profile).await;
    assert!(inside.conforms(), "{inside}");
    let wire = basic_service(mock("basic=true", folder.path())).await;
    let outside = run(wire.client.clone(), &profile).await;
    assert_eq!(inside, outside, "\n{outside}");
    let reasons: Vec<_> = inside.not_applicable().collect();
    let not_asked = |check: &str| reasons.iter().any(|(name, _)| *name == check);
    assert!(not_asked("create-twice") && not_asked("watch-gone") && not_asked("guest-exec"));
    assert!(!not_asked("power") && !not_asked("snapshot") && !not_asked("delete-twice"));
    assert!(reasons.iter().all(|(_, why)| !why.is_empty()));
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_fails_everything_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = run(
        mock("fail=GetCapabilities:Unavailable", folder.path()),
        &profile(),
    )
    .await;
    assert_eq!(report.failures().count(), suite().len());
    assert!(
        report
            .failures()
            .all(|(_, why)| why.contains("Unavailable")),
        "{report}"
    );
}
