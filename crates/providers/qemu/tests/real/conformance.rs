//! The suite that every provider must pass, on real machines: those without a disk to boot cost next to nothing.

use std::time::Duration;

use polyvirt_conformance::{Profile, run};
use polyvirt_contract::model::{ClassSpec, ImageOrigin, ImageSource, PrepareImage, Pull};

use crate::hosts::Hosts;
use crate::lab::{Lab, guest_image, nic};

fn profile() -> Profile {
    let path = guest_image().display().to_string();
    let origin = ImageOrigin::Libvirt {
        path: path.clone(),
        url: String::new(),
        format: "qcow2".to_owned(),
        storage_pool: String::new(),
    };
    Profile {
        image: ImageSource {
            path,
            ..ImageSource::default()
        },
        class: ClassSpec {
            cpu: 1,
            memory_mib: 192,
            ..ClassSpec::default()
        },
        networks: vec![nic("first"), nic("second")],
        prepare: Some(PrepareImage {
            target_name: "conformance".to_owned(),
            origin,
            checksum: String::new(),
            checksum_type: String::new(),
            storage_hint: String::new(),
            pull: Pull::default(),
            identity: None,
        }),
        patience: Duration::from_secs(240),
        interval: Duration::from_millis(200),
        ..Profile::simulated()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_provider_keeps_every_promise() {
    let lab = Lab::new().await;
    let report = run(lab.provider.clone(), &profile()).await;
    assert!(report.conforms(), "{report}");
    let skipped: Vec<_> = report.not_applicable().map(|(name, _)| name).collect();
    let alone = [
        "disk-info",
        "disk-move",
        "migrate",
        "migrate-off",
        "migrate-cancel-none",
    ];
    assert_eq!(skipped, alone, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_machines_keep_every_promise() {
    let hosts = Hosts::start("nothing").await;
    let report = run(hosts.fleet.clone(), &profile()).await;
    assert!(report.conforms(), "{report}");
    let skipped: Vec<_> = report.not_applicable().map(|(name, _)| name).collect();
    assert_eq!(skipped, ["disk-info", "disk-move"], "{report}");
}
