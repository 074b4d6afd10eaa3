//! A guest from another format with Ignition, and a datastore that is full.

use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use polyvirt_contract::model::{CreateVm, ImageSource, UserData};
use polyvirt_contract::{ErrorKind, Provider as _};

use crate::lab::{Lab, desired, guest_image};

fn convert(target: &Path, format: &str, options: &str) {
    let done = Command::new("qemu-img")
        .args(["convert", "-O", format])
        .args(
            (!options.is_empty())
                .then_some(["-o", options])
                .into_iter()
                .flatten(),
        )
        .args([guest_image(), target])
        .status()
        .expect("qemu-img is installed");
    assert!(done.success(), "{format}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vmdk_boots_and_ignition_arrives_without_showing_in_arguments() {
    let lab = Lab::new().await;
    let path = lab.folder.path().join("guest.vmdk");
    convert(&path, "vmdk", "subformat=streamOptimized");
    let image = ImageSource {
        path: path.display().to_string(),
        format: "vmdk".to_owned(),
        ..ImageSource::default()
    };
    let mut wanted = CreateVm {
        image,
        ..desired("ignition", 70)
    };
    let document = Bytes::from_static(b"{\"ignition\":{\"version\":\"3.4.0\"},\"secret\":1}");
    wanted.user_data = Some(UserData::Ignition(document));
    let vm = lab.create(&wanted).await;
    let info = lab
        .provider
        .disk_info(&vm.id, "", None)
        .await
        .expect("told");
    assert_eq!(info.format, "qcow2");
    assert!(info.backing_file.contains("images/img-"), "{info:?}");
    lab.boot(&vm).await;
    let config = "/sys/firmware/qemu_fw_cfg/by_name/opt/com.coreos/config/raw";
    let read = lab.run(&vm, &format!("cat {config}")).await;
    assert!(read.contains("secret"), "{read}");
    let arguments = std::fs::read(format!("/proc/{}/cmdline", lab.pid(&vm))).expect("runs");
    assert!(!String::from_utf8_lossy(&arguments).contains("secret"));
    lab.delete(&vm).await;
}

/// A file system of a few MiB that goes away with the test.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
            .arg(folder.path())
            .status()
            .expect("mount runs");
        assert!(mounted.success(), "a small file system needs root");
        Self(folder)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_datastore_is_told_and_nothing_is_half_done() {
    let small = Small::new();
    let folder = tempfile::tempdir_in(small.0.path()).expect("a folder");
    let lab = Lab::at(folder).await;
    let error = lab
        .provider
        .create(desired("full", 80))
        .await
        .expect_err("no room");
    assert_eq!(error.kind, ErrorKind::Exhausted, "{error}");
    assert!(error.message.contains("no room"), "{error}");
    assert_eq!(lab.provider.list_vms().await.expect("listed"), []);
    for place in ["state/vms", "state/images"] {
        let left = std::fs::read_dir(lab.folder.path().join(place)).expect("listed");
        assert_eq!(left.count(), 0, "{place}");
    }
}
