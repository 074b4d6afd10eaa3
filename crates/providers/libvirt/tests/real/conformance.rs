//! The suite that every provider must pass, on a real libvirtd.

use std::time::Duration;

use polyvirt_conformance::{Profile, run};
use polyvirt_contract::model::{ClassSpec, ImageOrigin, PrepareImage, Pull};

use crate::lab::{Lab, nic};

fn profile(lab: &Lab) -> Profile {
    let image = lab.image();
    let origin = ImageOrigin::Libvirt {
        path: image.path.clone(),
        url: String::new(),
        format: "qcow2".to_owned(),
        storage_pool: String::new(),
    };
    Profile {
        image,
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
    let report = run(lab.provider.clone(), &profile(&lab)).await;
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
