//! Images out of a registry.

use polyvirt_contract::model::{
    CreateVm, Headers, ImageOrigin, ImageSource, PrepareImage, PreparedImage, Pull,
};
use polyvirt_contract::{ErrorKind, Provider as _, Result};
use polyvirt_testkit::registry::{Access, Registry};

use crate::images::prepare;
use crate::lab::{Lab, blank_image, desired, guest_image};

const SECRET: &str = "Basic dXNlcjpodW50ZXIy";

fn request(registry: &Registry, image: &str, secret: Option<&str>, pull: Pull) -> PrepareImage {
    let pair = secret.map(|secret| ("Authorization".to_owned(), secret.to_owned()));
    PrepareImage {
        target_name: "image".to_owned(),
        origin: ImageOrigin::Registry {
            image: registry.name(image),
            // What the API says when nobody says anything.
            format: "qcow2".to_owned(),
            headers: Headers(pair.into_iter().collect()),
        },
        checksum: String::new(),
        checksum_type: String::new(),
        storage_hint: String::new(),
        pull,
        identity: None,
    }
}

/// As the manager writes it of an image that stands in the VM itself.
fn vm(registry: &Registry, image: &str, name: &str, number: u32) -> CreateVm {
    let image = ImageSource {
        url: format!("docker://{}", registry.name(image)),
        format: "qcow2".to_owned(),
        ..ImageSource::default()
    };
    CreateVm {
        image,
        ..desired(name, number)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_boots_from_a_container_disk() {
    let lab = Lab::new().await;
    let registry = Registry::start(Access::Token).await.expect("a registry");
    let disk = std::fs::read(guest_image()).expect("a guest");
    registry.disk("team/guest", "1", &disk);
    registry.break_after(disk.len() / 2);
    let vm = lab
        .create(&vm(&registry, "team/guest:1", "packed", 1))
        .await;
    lab.boot(&vm).await;
    assert_eq!(lab.run(&vm, "hostname").await, "packed");
    assert_eq!(registry.downloads(), 2, "once, in two parts");
    lab.delete(&vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_read_an_image_has_it_and_a_tag_that_moves_is_seen_when_asked_for() {
    let lab = Lab::new().await;
    let access = Access::Secret(SECRET.to_owned());
    let registry = Registry::start(access).await.expect("a registry");
    let disk = std::fs::read(blank_image(lab.folder.path()).path).expect("a disk");
    registry.disk("a", "1", &disk);
    let get = async |secret, pull| -> Result<PreparedImage> {
        prepare(&lab, request(&registry, "a:1", secret, pull)).await
    };
    let refused = get(None, Pull::IfNotPresent).await;
    let refused = refused.expect_err("a secret is needed");
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(refused.to_string().contains("pullSecretRef"), "{refused}");
    let first = get(Some(SECRET), Pull::IfNotPresent).await.expect("there");
    let raw = [&disk[..], &[0; 512]].concat();
    registry.disk("a", "1", &raw);
    let asked = registry.asked().len();
    let same = get(Some(SECRET), Pull::IfNotPresent).await.expect("there");
    assert_eq!((&same.path, registry.asked().len()), (&first.path, asked));
    let second = get(Some(SECRET), Pull::Always).await.expect("there");
    assert_ne!(second.path, first.path, "the tag has moved");
    let third = get(Some(SECRET), Pull::Always).await.expect("there");
    assert_eq!(third.path, second.path);
    assert_eq!(registry.downloads(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_disk_and_what_is_a_claim_is_refused_with_what_to_do() {
    let lab = Lab::new().await;
    let registry = Registry::start(Access::Open).await.expect("a registry");
    let layer = registry.layer(polyvirt_testkit::registry::archive(&[("bin/sh", b"x")]));
    registry.image("a", "1", &[layer]);
    let image = request(&registry, "a:1", None, Pull::default());
    let error = prepare(&lab, image).await.expect_err("no disk");
    assert!(error.to_string().contains("one file in /disk"), "{error}");
    let mut claim = desired("claim", 1);
    claim.image = ImageSource {
        url: "pvc:///disk".to_owned(),
        ..ImageSource::default()
    };
    let error = lab.provider.create(claim).await.expect_err("a claim");
    let text = "The claim disk is storage of a cluster";
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(error.kind, ErrorKind::Invalid);
}
