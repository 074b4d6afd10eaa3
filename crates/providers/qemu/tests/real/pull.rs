//! Images whose origin changes: who looks there, and what VMs of before keep.

use std::path::Path;

use polyvirt_contract::model::{PrepareImage, Pull};
use polyvirt_contract::{ErrorKind, Provider as _};
use polyvirt_provider_lab::origin::Origin;

use crate::lab::{Lab, blank_image, desired};

/// A disk that nothing boots from, so many bytes large.
fn disk(folder: &Path, bytes: &str) -> Vec<u8> {
    let blank = blank_image(folder).path;
    let made = std::process::Command::new("qemu-img")
        .args(["resize", "-q", &blank, bytes])
        .status();
    assert!(made.expect("qemu-img").success());
    std::fs::read(&blank).expect("a disk")
}

/// Waits until the image is whole, and returns where it is.
async fn prepared(lab: &Lab, request: PrepareImage) -> String {
    loop {
        let answer = lab.provider.image_prepare(request.clone()).await;
        let answer = answer.expect("accepted");
        if answer.task.is_none() {
            return answer.path;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_changed_is_fetched_when_that_is_asked_for_and_old_versions_stay() {
    let lab = Lab::new().await;
    let origin = Origin::start(disk(lab.folder.path(), "2M")).await;
    let first = prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    assert_eq!(prepared(&lab, origin.request(Pull::Always)).await, first);
    assert_eq!(origin.downloads(), 1, "it has not changed");

    let vm = origin.of_it(desired("old", 1), Pull::IfNotPresent);
    lab.provider.create(vm).await.expect("made");
    origin.change(disk(lab.folder.path(), "3M"), "\"2\"");
    let same = prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    assert_eq!(same, first, "nobody has looked");
    let second = prepared(&lab, origin.request(Pull::Always)).await;
    assert_ne!(second, first);
    assert!(Path::new(&first).exists(), "a VM is built upon it");
    assert_eq!(
        prepared(&lab, origin.request(Pull::IfNotPresent)).await,
        second,
        "the newest that is here"
    );
    assert_eq!(prepared(&lab, origin.request(Pull::Always)).await, second);
    assert_eq!(origin.downloads(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_that_may_not_fetch_its_image_needs_it_to_be_here() {
    let lab = Lab::new().await;
    let origin = Origin::start(disk(lab.folder.path(), "2M")).await;
    let refused = lab
        .provider
        .create(origin.of_it(desired("strict", 1), Pull::Never))
        .await;
    let error = refused.expect_err("it is not here");
    assert_eq!(error.kind, ErrorKind::Precondition, "{error}");
    assert_eq!(error.field.as_deref(), Some("spec.imagePullPolicy"));
    assert_eq!(origin.downloads(), 0);
    prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    let made = lab
        .provider
        .create(origin.of_it(desired("strict", 1), Pull::Never))
        .await;
    made.expect("it is here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_is_tried_again_fetches_nothing_again() {
    let lab = Lab::new().await;
    let content = disk(lab.folder.path(), "2M");
    let origin = Origin::start(content.clone()).await;
    // It does not tell whether it has changed.
    origin.change(content, "");
    let wanted = origin.of_it(desired("once", 1), Pull::Always);
    for _ in 0..2 {
        let vm = lab.create(&wanted).await;
        lab.delete(&vm).await;
    }
    assert_eq!(origin.downloads(), 1, "it was fetched for this VM");
    let other = origin.of_it(desired("other", 2), Pull::Always);
    lab.create(&other).await;
    assert_eq!(origin.downloads(), 2, "another VM is another look");
}
