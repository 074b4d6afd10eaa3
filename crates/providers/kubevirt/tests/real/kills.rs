//! Requests that end in the middle: the caller goes away, or the provider dies, between any two lines.

use std::time::Duration;

use bytes::Bytes;
use polyvirt_contract::Provider;
use polyvirt_contract::model::{CreateVm, DiskSpec, PowerState, Stage, UserData};

use crate::lab::Lab;

fn wish(lab: &Lab, name: &str) -> CreateVm {
    let disk = DiskSpec {
        name: "data".to_owned(),
        size_gib: 1,
        ..DiskSpec::default()
    };
    CreateVm {
        disks: vec![disk],
        user_data: Some(UserData::CloudInit(Bytes::from_static(b"#cloud-config\n"))),
        ..lab.wish(name)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_is_cut_anywhere_ends_in_one_whole_vm() {
    let lab = Lab::new().await;
    let mut cut = 0;
    for moment in 0..25 {
        let name = format!("vm-{moment}");
        let patience = Duration::from_millis(15 * moment);
        let request = lab.provider.create(wish(&lab, &name));
        match tokio::time::timeout(patience, request).await {
            Err(_) => cut += 1,
            Ok(made) => drop(made.expect("made")),
        }
        let found = lab.provider.find(&lab.owner(&name).identity).await;
        let seen = found.expect("an answer").map(|state| state.stage);
        assert!(
            seen.is_none_or(|stage| stage != Stage::Deleting),
            "{seen:?}"
        );
        let vm = lab.make(wish(&lab, &name)).await;
        let state = lab.state(&vm).await;
        assert_eq!((state.stage, state.power), (Stage::Whole, PowerState::Off));
        let disks = state.disks.expect("known");
        assert_eq!((disks.len(), disks[0].size_gib), (1, 1), "{disks:?}");
    }
    println!("{cut} of 25 requests were cut");
    assert!(cut > 2, "nothing was cut");
    assert_eq!(lab.names("VirtualMachine").await.len(), 25);
    assert_eq!(lab.names("PersistentVolumeClaim").await.len(), 50);
    assert_eq!(lab.names("Secret").await.len(), 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_cut_anywhere_is_made_by_the_next() {
    let lab = Lab::new().await;
    let mut wanted = wish(&lab, "web");
    let vm = lab.make(wanted.clone()).await;
    for moment in 0..10 {
        wanted.class.memory_mib += 64;
        wanted.disks[0].size_gib += 1;
        let patience = Duration::from_millis(20 * moment);
        let request = lab.provider.reconfigure(&vm, wanted.clone());
        let _ = tokio::time::timeout(patience, request).await;
        let again = lab.provider.reconfigure(&vm, wanted.clone()).await;
        again.expect("changed");
        let state = lab.state(&vm).await;
        assert_eq!(state.memory_mib, wanted.class.memory_mib);
        let size = state.disks.expect("known")[0].size_gib;
        assert_eq!(size, wanted.disks[0].size_gib);
    }
}
