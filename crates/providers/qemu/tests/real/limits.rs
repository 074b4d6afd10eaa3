//! What must not be possible, and what is left when something fails. No guest boots here.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use polyvirt_contract::model::{CreateVm, ImageSource, PreparedImage};
use polyvirt_contract::{ErrorKind, Provider as _};

use crate::lab::{Lab, desired, guest_image};

fn from(path: &Path, number: u32) -> CreateVm {
    CreateVm {
        image: ImageSource {
            path: path.display().to_string(),
            ..ImageSource::default()
        },
        ..desired("limits", number)
    }
}

async fn refused(lab: &Lab, path: &Path, kind: ErrorKind) -> String {
    let error = lab
        .provider
        .create(from(path, 50))
        .await
        .expect_err("refused");
    assert_eq!(error.kind, kind, "{error}");
    assert_eq!(
        lab.provider.list_vms().await.expect("listed"),
        [],
        "nothing is half done"
    );
    let vms = std::fs::read_dir(lab.folder.path().join("state/vms")).expect("listed");
    assert_eq!(vms.count(), 0, "nothing is left behind");
    error.message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_cannot_reach_out_of_their_file() {
    let lab = Lab::new().await;
    let evil = lab.folder.path().join("evil.qcow2");
    let made = std::process::Command::new("qemu-img")
        .args([
            "create",
            "-q",
            "-f",
            "qcow2",
            "-u",
            "-b",
            "/etc/passwd",
            "-F",
            "raw",
        ])
        .arg(&evil)
        .arg("1M")
        .status()
        .expect("qemu-img is installed");
    assert!(made.success());
    let text = refused(&lab, &evil, ErrorKind::Invalid).await;
    assert!(text.contains("outside itself"), "{text}");
    refused(&lab, Path::new("/etc/passwd"), ErrorKind::PermissionDenied).await;
    let link = lab.folder.path().join("link.qcow2");
    std::os::unix::fs::symlink("/etc/passwd", &link).expect("linked");
    refused(&lab, &link, ErrorKind::PermissionDenied).await;
    let text = refused(&lab, &lab.folder.path().join("absent"), ErrorKind::NotFound).await;
    assert!(text.contains("does not exist"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_larger_than_the_host_is_refused_before_it_is_made() {
    let lab = Lab::new().await;
    let inventory = lab.provider.inventory().await.expect("answered");
    let mut request = from(guest_image(), 50);
    request.class.memory_mib = inventory.hosts[0].memory_mib + 1;
    let error = lab.provider.create(request).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Exhausted, "{error}");
    assert_eq!(error.field.as_deref(), Some("class.memory"));
    assert_eq!(lab.provider.list_vms().await.expect("listed"), []);
    let vm = lab.create(&from(guest_image(), 50)).await;
    let mut larger = from(guest_image(), 50);
    larger.class.memory_mib = inventory.hosts[0].memory_mib + 1;
    let error = lab.provider.reconfigure(&vm, larger).await;
    assert_eq!(error.expect_err("refused").kind, ErrorKind::Exhausted);
    lab.delete(&vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_are_private_and_images_are_kept_while_they_are_used() {
    let lab = Lab::new().await;
    let vm = lab.create(&from(guest_image(), 51)).await;
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let folder = lab.vm_folder(&vm);
    assert_eq!(mode(&folder.join("run")), 0o700);
    for file in ["vm.json", "seed.json", "run/seed.img"] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
    let image = lab.state(&vm).await.details["image"].clone();
    let image = PreparedImage {
        id: image.as_str().into(),
        ..PreparedImage::default()
    };
    let error = lab.provider.image_delete(&image).await.expect_err("in use");
    assert_eq!(error.kind, ErrorKind::Precondition);
    assert!(error.message.contains("limits"), "{error}");
    lab.delete(&vm).await;
    lab.provider.image_delete(&image).await.expect("deleted");
    for id in ["../vms", "", "img-absent"] {
        let image = PreparedImage {
            id: id.into(),
            ..PreparedImage::default()
        };
        let error = lab.provider.image_delete(&image).await.expect_err("absent");
        assert_eq!(error.kind, ErrorKind::NotFound, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cut_short_is_gone_after_a_restart() {
    let mut lab = Lab::new().await;
    let vm = lab.create(&from(guest_image(), 52)).await;
    let record = lab.vm_folder(&vm).join("vm.json");
    let text = std::fs::read_to_string(&record).expect("a record");
    assert!(text.contains("\"Ready\""), "{text}");
    std::fs::write(&record, text.replace("\"Ready\"", "\"Creating\"")).expect("written");
    std::fs::create_dir(lab.folder.path().join("state/images/.new-half")).expect("made");
    std::fs::create_dir(
        lab.folder
            .path()
            .join("state/vms/0a1b2c3d-0000-4000-8000-0000000000ff"),
    )
    .expect("made");
    lab.restart().await;
    assert_eq!(lab.provider.list_vms().await.expect("listed"), []);
    assert!(!lab.vm_folder(&vm).exists());
    assert!(!lab.folder.path().join("state/images/.new-half").exists());
    assert_eq!(
        lab.create(&from(guest_image(), 52)).await,
        vm,
        "and is made anew"
    );
    lab.delete(&vm).await;
}
