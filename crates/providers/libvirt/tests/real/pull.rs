//! Images whose origin changes: who looks there, and what VMs of before keep.

use std::path::Path;

use polyvirt_contract::model::{
    CreateVm, Headers, ImageOrigin, ImageSource, PrepareImage, PreparedImage, Pull,
};
use polyvirt_contract::{ErrorKind, Provider as _};
use polyvirt_provider_lab::origin::Origin;
use polyvirt_testkit::registry::{Access, Registry};

use crate::lab::Lab;

/// A disk that nothing boots from, so large.
fn disk(folder: &Path, size: &str) -> Vec<u8> {
    let file = folder.join("disk.qcow2");
    let made = std::process::Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2"])
        .arg(&file)
        .arg(size)
        .status();
    assert!(made.expect("qemu-img").success());
    std::fs::read(&file).expect("a disk")
}

/// Waits until the image is whole.
async fn prepared(lab: &Lab, request: PrepareImage) -> PreparedImage {
    loop {
        let answer = lab.provider.image_prepare(request.clone()).await;
        let answer = answer.expect("accepted");
        if answer.task.is_none() {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn images(lab: &Lab) -> Vec<String> {
    lab.host.virsh(&["pool-refresh", "default"]);
    let volumes = lab.host.volumes("default").into_iter();
    volumes.filter(|name| name.starts_with("img-")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_changed_is_fetched_when_that_is_asked_for_and_old_versions_stay() {
    let lab = Lab::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let origin = Origin::start(disk(folder.path(), "2M")).await;
    let first = prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    assert_eq!(prepared(&lab, origin.request(Pull::Always)).await, first);
    assert_eq!(origin.downloads(), 1, "it has not changed");

    let vm = origin.of_it(lab.desired("old", 1), Pull::IfNotPresent);
    let vm = lab.create(&vm).await;
    origin.change(disk(folder.path(), "3M"), "\"2\"");
    let same = prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    assert_eq!(same, first, "nobody has looked");
    let second = prepared(&lab, origin.request(Pull::Always)).await;
    assert_ne!(second, first);
    assert!(Path::new(&first.path).exists(), "a VM is built upon it");
    let newest = prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    assert_eq!(newest, second, "the newest that is here");
    assert_eq!(prepared(&lab, origin.request(Pull::Always)).await, second);
    assert_eq!(origin.downloads(), 2);

    // The versions go together, but for what a VM needs.
    let gone = lab.provider.image_delete(&second).await;
    gone.expect("nobody needs it");
    assert!(!Path::new(&second.path).exists());
    assert!(Path::new(&first.path).exists(), "a VM is built upon it");
    lab.delete(&vm).await;
    let gone = lab.provider.image_delete(&first).await;
    gone.expect("nobody needs it");
    assert_eq!(images(&lab), Vec::<String>::new(), "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_that_may_not_fetch_its_image_needs_it_to_be_here() {
    let lab = Lab::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let origin = Origin::start(disk(folder.path(), "2M")).await;
    let strict = origin.of_it(lab.desired("strict", 1), Pull::Never);
    let answer = lab.provider.create(strict.clone()).await;
    let answer = lab.ended(answer.map(|created| created.task)).await;
    let error = answer.expect_err("it is not here");
    assert_eq!(error.kind, ErrorKind::Precondition, "{error}");
    assert_eq!(error.field.as_deref(), Some("spec.imagePullPolicy"));
    assert_eq!(origin.downloads(), 0);
    prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    lab.create(&strict).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_is_tried_again_fetches_nothing_again() {
    let lab = Lab::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let content = disk(folder.path(), "2M");
    let origin = Origin::start(content.clone()).await;
    // It does not tell whether it has changed.
    origin.change(content, "");
    let wanted = origin.of_it(lab.desired("once", 1), Pull::Always);
    for _ in 0..2 {
        let vm = lab.create(&wanted).await;
        lab.delete(&vm).await;
    }
    assert_eq!(origin.downloads(), 1, "it was fetched for this VM");
    let other = origin.of_it(lab.desired("other", 2), Pull::Always);
    lab.create(&other).await;
    assert_eq!(origin.downloads(), 2, "another VM is another look");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_comes_out_of_a_registry_and_a_tag_that_moves_is_seen_when_asked_for() {
    let lab = Lab::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let secret = "Basic dXNlcjpodW50ZXIy".to_owned();
    let access = Access::Secret(secret.clone());
    let registry = Registry::start(access).await.expect("a registry");
    registry.disk("team/disk", "1", &disk(folder.path(), "2M"));
    let request = |pull| PrepareImage {
        target_name: "image".to_owned(),
        origin: ImageOrigin::Registry {
            image: registry.name("team/disk:1"),
            format: "qcow2".to_owned(),
            headers: Headers([("Authorization".to_owned(), secret.clone())].into()),
        },
        checksum: String::new(),
        checksum_type: String::new(),
        storage_hint: String::new(),
        pull,
        identity: None,
    };
    let first = prepared(&lab, request(Pull::IfNotPresent)).await;
    registry.disk("team/disk", "1", &disk(folder.path(), "3M"));
    assert_eq!(prepared(&lab, request(Pull::IfNotPresent)).await, first);
    let second = prepared(&lab, request(Pull::Always)).await;
    assert_ne!(second, first, "the tag has moved");
    assert_eq!(prepared(&lab, request(Pull::Always)).await, second);
    assert_eq!(registry.downloads(), 2);

    let image = ImageSource {
        url: format!("docker://{}", registry.name("team/disk:1")),
        format: "qcow2".to_owned(),
        ..ImageSource::default()
    };
    let vm = CreateVm {
        image,
        ..lab.desired("packed", 1)
    };
    lab.create(&vm).await;
    assert_eq!(registry.downloads(), 2, "it is here");
    let mut claim = vm.clone();
    claim.image.url = "pvc://team/disk".to_owned();
    claim.owner = lab.desired("claim", 2).owner;
    claim.name = "claim".to_owned();
    let answer = lab.provider.create(claim).await;
    let answer = lab.ended(answer.map(|created| created.task)).await;
    let error = answer.expect_err("a claim").to_string();
    let text = "The claim team/disk is storage of a cluster";
    assert!(error.contains(text), "{error}");
}
