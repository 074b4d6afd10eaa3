//! Images are brought to a provider once, whoever waits for them, and taken away with their object.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use polyvirt_api::infra::{ImagePhase, VMImage, VMPhase, VirtualMachine};
use polyvirt_api::names;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Mock, MockConfig, Rpc, TaskMode, Times};
use serde_json::json;

use crate::support::look::{condition, field, ready, runs, says};
use crate::support::world::{HYPERVISOR, Manifest};
use crate::support::{World, download, message, phase, reason, secret, vm};

/// Imports take their time.
fn importing() -> MockConfig {
    let times = Times {
        image: Duration::from_millis(500),
        ..Times::default()
    };
    MockConfig {
        tasks: TaskMode::Async,
        times,
        ..MockConfig::default()
    }
}

pub fn from(image: &str, name: &str) -> Manifest<VirtualMachine> {
    vm(name).spec(json!({"imageRef": {"name": image}}))
}

fn prepares(mock: &Mock) -> u64 {
    mock.counts().of(Rpc::ImagePrepare).calls
}

fn failed(image: &VMImage) -> bool {
    image.status.as_ref().and_then(|s| s.phase) == Some(ImagePhase::Failed)
}

#[tokio::test]
async fn twenty_vms_that_wait_for_an_image_cause_one_import() {
    let (world, mock) = World::furnished("herd", importing()).await;
    world.create(download("debian")).await;
    let names: Vec<_> = (0..20).map(|n| format!("vm-{n}")).collect();
    for name in &names {
        world.create(from("debian", name)).await;
    }
    let waits = |vm: &VirtualMachine| reason(vm) == Reason::WaitingForImage.as_str();
    world
        .vm("vm-0", "waits for its image", |vm| waits(vm) || runs(vm))
        .await;
    for name in &names {
        world.vm(name, "runs", runs).await;
    }
    assert_eq!((prepares(&mock), mock.images_prepared()), (1, 1));
    let image: VMImage = world.until("debian", "is ready", ready).await;
    let there = format!("{}/{HYPERVISOR}", world.namespace);
    assert_eq!(image.status.unwrap_or_default().available_on, [there]);
    for reason in [Reason::Importing, Reason::Prepared] {
        world.told("debian", reason).await;
    }
}

#[tokio::test]
async fn the_prepared_copy_is_what_the_vm_is_made_from() {
    let (world, _mock) = World::furnished("copy", MockConfig::default()).await;
    world.create(download("debian")).await;
    world.create(from("debian", "web")).await;
    let vm = world.vm("web", "runs", runs).await;
    assert!(
        field(&vm, "image").contains("image-1"),
        "{}",
        field(&vm, "image")
    );
}

#[tokio::test]
async fn an_image_that_nobody_uses_is_not_imported() {
    let (world, mock) = World::furnished("idle", MockConfig::default()).await;
    world.create(download("debian")).await;
    let waits = |image: &VMImage| says(image, "Ready", "False", Reason::WaitingForUse);
    let image = world.until("debian", "waits for use", waits).await;
    assert_eq!(image.metadata.finalizers, None, "nothing holds it");
    assert_eq!(prepares(&mock), 0);
}

#[tokio::test]
async fn each_provider_has_its_own_import_and_its_own_failure() {
    let mut world = World::empty("two").await;
    let good = world.furnish(importing()).await;
    let bad = world.hypervisor("other", importing()).await;
    bad.faults()
        .lose_image("https://images.example.com/debian.qcow2");
    world.start().await;
    world.create(download("debian")).await;
    world.create(from("debian", "here")).await;
    world
        .create(from("debian", "there").spec(json!({"providerRef": {"name": "other"}})))
        .await;
    world.vm("here", "runs", runs).await;
    let no_image = |vm: &VirtualMachine| reason(vm) == Reason::ImageFailed.as_str();
    let vm = world
        .vm("there", "tells that it has no image", no_image)
        .await;
    assert!(
        message(&vm).starts_with("spec.imageRef: Image debian: "),
        "{}",
        message(&vm)
    );
    let image: VMImage = world.until("debian", "has failed", failed).await;
    let status = image.status.clone().unwrap_or_default();
    let there = format!("{}/{HYPERVISOR}", world.namespace);
    assert_eq!(status.available_on, [there]);
    assert!(message(&image).contains("/other: "), "{}", message(&image));
    assert_eq!((good.vms().len(), bad.vms().len()), (1, 0));
}

#[tokio::test]
async fn a_wrong_checksum_is_told_and_the_corrected_image_is_used() {
    let (world, mock) = World::furnished("checksum", MockConfig::default()).await;
    world
        .create(download("debian").spec(json!({"source": {"http": {"checksum": "bad"}}})))
        .await;
    world.create(from("debian", "web")).await;
    let image: VMImage = world.until("debian", "has failed", failed).await;
    assert!(message(&image).contains("checksum"), "{}", message(&image));
    let vm = world
        .vm("web", "fails", |vm| phase(vm) == Some(VMPhase::Failed))
        .await;
    assert!(message(&vm).contains("checksum"), "{}", message(&vm));
    world.told("debian", Reason::ImageFailed).await;
    let calls = prepares(&mock);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(prepares(&mock), calls, "no storm of imports");
    let right = json!({"spec": {"source": {"http": {"checksum": "0123456789abcdef"}}}});
    world.edit::<VMImage>("debian", right).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_missing_image_is_told_and_imported_when_it_is_corrected() {
    let (world, mock) = World::furnished("missing", MockConfig::default()).await;
    mock.faults()
        .lose_image("https://images.example.com/debian.qcow2");
    world.create(download("debian")).await;
    world.create(from("debian", "web")).await;
    let vm = world
        .vm("web", "fails", |vm| phase(vm) == Some(VMPhase::Failed))
        .await;
    assert!(message(&vm).contains("does not exist"), "{}", message(&vm));
    let right = json!({"spec": {"source": {"http": {"url": "https://images.example.com/debian-12.qcow2"}}}});
    world.edit::<VMImage>("debian", right).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn an_edited_image_is_imported_again_for_the_next_vm() {
    let (world, mock) = World::furnished("edit", MockConfig::default()).await;
    world.create(download("debian")).await;
    world.create(from("debian", "old")).await;
    let old = world.vm("old", "runs", runs).await;
    let newer =
        json!({"spec": {"source": {"http": {"url": "https://images.example.com/newer.qcow2"}}}});
    world.edit::<VMImage>("debian", newer).await;
    world.create(from("debian", "new")).await;
    let new = world.vm("new", "runs", runs).await;
    assert_ne!(field(&old, "image"), field(&new, "image"));
    assert_eq!(mock.images_prepared(), 2);
}

#[tokio::test]
async fn an_import_whose_task_is_forgotten_is_asked_for_again() {
    let (world, mock) = World::furnished("forgotten", importing()).await;
    mock.faults().parse("forget=1").expect("a rule");
    world.create(download("debian")).await;
    world.create(from("debian", "web")).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(mock.images_prepared(), 1);
}

#[tokio::test]
async fn what_is_missing_follows_the_policy_of_the_image() {
    let (world, mock) = World::furnished("policy", MockConfig::default()).await;
    for policy in ["Fail", "Wait"] {
        let image = policy.to_lowercase();
        world
            .create(download(&image).spec(json!({"prepare": {"onMissing": policy}})))
            .await;
        world.create(from(&image, &image)).await;
    }
    let vm = world
        .vm("fail", "fails", |vm| phase(vm) == Some(VMPhase::Failed))
        .await;
    assert!(
        message(&vm).contains("spec.prepare.onMissing is Fail"),
        "{}",
        message(&vm)
    );
    let vm = world
        .vm("wait", "waits", |vm| reason(vm) == "WaitingForImage")
        .await;
    assert!(
        message(&vm).contains("spec.prepare.onMissing is Wait"),
        "{}",
        message(&vm)
    );
    assert_eq!(prepares(&mock), 0);
}

#[tokio::test]
async fn an_image_whose_secret_comes_later_is_imported_then() {
    let (world, _mock) = World::furnished("auth", MockConfig::default()).await;
    let bearer = json!({"bearer": {"secretRef": {"name": "token"}}});
    let image = download("debian").spec(json!({"source": {"http": {"authentication": bearer}}}));
    world
        .create(image.spec(json!({"prepare": {"retries": 0}})))
        .await;
    world.create(from("debian", "web")).await;
    let no_image = |vm: &VirtualMachine| reason(vm) == Reason::ImageFailed.as_str();
    let vm = world.vm("web", "has no image", no_image).await;
    assert!(
        message(&vm).contains("Secret token does not exist"),
        "{}",
        message(&vm)
    );
    world.create(secret("token", "token", "s3cret")).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn the_pull_secret_of_a_registry_is_shown_and_what_it_lacks_is_told() {
    let (world, mock) = World::furnished("pull-secret", MockConfig::default()).await;
    let source =
        json!({"registry": {"image": "r.example/team/disk:1", "pullSecretRef": {"name": "r"}}});
    let spec = json!({"source": source, "prepare": {"retries": 0}});
    world.create(Manifest::<VMImage>::new("packed", spec)).await;
    world.create(from("packed", "web")).await;
    let no_image = |vm: &VirtualMachine| reason(vm) == Reason::ImageFailed.as_str();
    let vm = world.vm("web", "has no image", no_image).await;
    assert!(
        message(&vm).contains("Secret r does not exist"),
        "{}",
        message(&vm)
    );
    let other = r#"{"auths": {"other.example": {"auth": "eDp5"}}}"#;
    world.create(secret("r", ".dockerconfigjson", other)).await;
    let told = |vm: &VirtualMachine| message(vm).contains("--docker-server=r.example");
    world.vm("web", "names what is missing", told).await;
    let right = r#"{"auths": {"r.example": {"auth": "dXNlcjpwYXNz"}}}"#;
    assert_eq!(prepares(&mock), 0);
    let change = json!({"stringData": {".dockerconfigjson": right}});
    world.edit::<Secret>("r", change).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(prepares(&mock), 1);
}

#[tokio::test]
async fn an_image_in_use_is_not_deleted_and_says_by_whom() {
    let (world, _mock) = World::furnished("in-use", MockConfig::default()).await;
    world.create(download("debian")).await;
    world.create(from("debian", "web")).await;
    world.vm("web", "runs", runs).await;
    world.delete::<VMImage>("debian").await;
    let blocked = |image: &VMImage| says(image, "Deleting", "True", Reason::InUse);
    let image = world.until("debian", "is held", blocked).await;
    let text = &condition(&image, "Deleting").expect("told").message;
    assert!(text.contains(&format!("{}/web", world.namespace)), "{text}");
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VMImage>("debian").await;
}

#[tokio::test]
async fn prepared_copies_go_with_their_image() {
    let (world, mock) = World::furnished("copies", MockConfig::default()).await;
    world.create(download("debian")).await;
    world.create(from("debian", "web")).await;
    world.vm("web", "runs", runs).await;
    let image: VMImage = world.until("debian", "is ready", ready).await;
    let marks = image.metadata.finalizers.clone().unwrap_or_default();
    assert!(
        marks.iter().any(|mark| mark == names::IMAGE_FINALIZER),
        "{marks:?}"
    );
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    world.delete::<VMImage>("debian").await;
    world.gone::<VMImage>("debian").await;
    let deleted = mock.counts().of(Rpc::DeleteImage);
    assert_eq!((deleted.calls, deleted.mutations), (1, 1));
    let left_behind = world
        .events("debian")
        .await
        .iter()
        .any(|event| event.warning);
    assert!(!left_behind);
}

#[tokio::test]
async fn a_copy_that_the_provider_cannot_delete_is_told() {
    let (world, _mock) = World::furnished(
        "left",
        MockConfig {
            offer: polyvirt_provider_mock::Offer::Basic,
            ..MockConfig::default()
        },
    )
    .await;
    world.create(download("debian")).await;
    world.create(from("debian", "web")).await;
    world.vm("web", "runs", runs).await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    world.delete::<VMImage>("debian").await;
    world.gone::<VMImage>("debian").await;
    let event = world.told("debian", Reason::UnsupportedByProvider).await;
    assert!(
        event.warning && event.note.contains("Delete it by hand"),
        "{event:?}"
    );
}
