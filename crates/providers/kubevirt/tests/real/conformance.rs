//! The suite that every provider must pass.

use std::time::{Duration, Instant};

use polyvirt_conformance::{Profile, run};
use polyvirt_contract::model::{Headers, ImageOrigin, ImageSource, NicSpec, PrepareImage, Pull};

use crate::lab::{Lab, patience};

const IMAGE: &str = "https://images.example/conformance.qcow2";

pub fn profile() -> Profile {
    let card = |name: &str, network: &str| NicSpec {
        name: name.to_owned(),
        network: network.to_owned(),
        ..NicSpec::default()
    };
    Profile {
        image: ImageSource {
            url: IMAGE.to_owned(),
            ..ImageSource::default()
        },
        networks: vec![card("first", ""), card("second", "vlan7")],
        prepare: Some(PrepareImage {
            target_name: "conformance".to_owned(),
            origin: ImageOrigin::Http {
                url: IMAGE.to_owned(),
                headers: Headers::default(),
            },
            checksum: String::new(),
            checksum_type: String::new(),
            storage_hint: String::new(),
            pull: Pull::default(),
            identity: None,
        }),
        patience: patience(),
        interval: Duration::from_millis(50),
        ..Profile::simulated()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_provider_keeps_every_promise() {
    let lab = Lab::new().await;
    let begin = Instant::now();
    let report = run(lab.provider.clone(), &profile()).await;
    println!("{report}\nin {:?}", begin.elapsed());
    assert!(report.conforms(), "{report}");
    let skipped: Vec<_> = report.not_applicable().map(|(name, _)| name).collect();
    let elsewhere = [
        "usage",
        "snapshot-memory",
        "clone-linked",
        "disk-info",
        "disk-move",
        "guest-exec",
        "guest-exec-off",
    ];
    assert!(
        skipped.iter().all(|name| elsewhere.contains(name)),
        "{report}"
    );
}
