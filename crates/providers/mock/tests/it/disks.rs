use polyvirt_contract::model::{
    CreateVm, ExpandPolicy, ExportDisk, ImageSource, ImportDisk, Staging, VmRef,
};
use polyvirt_contract::{ErrorKind, Provider};
use polyvirt_provider_mock::Mock;
use std::path::Path;
use std::sync::Arc;

use crate::common::{created, created_as, disk, now, request, seen, with};

fn staged(folder: &Path) -> Arc<Mock> {
    let folder = folder.to_owned();
    with(|config| config.staging = folder)
}

fn place(url: &str) -> Staging {
    Staging {
        url: url.to_owned(),
        ..Staging::default()
    }
}

fn export(vm: &VmRef, url: &str) -> ExportDisk {
    ExportDisk {
        vm: vm.id.clone(),
        staging: place(url),
        format: "raw".to_owned(),
        ..ExportDisk::default()
    }
}

fn import(url: &str, checksum: &str) -> ImportDisk {
    ImportDisk {
        staging: place(url),
        format: "raw".to_owned(),
        target_name: "b-migrated".to_owned(),
        expected_checksum: Some(checksum.to_owned()),
        ..ImportDisk::default()
    }
}

#[test]
fn a_disk_moves_from_one_mock_to_another_with_its_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (staged(folder.path()), staged(folder.path()));
    let vm = created(&from, "a");
    let url = "pvc://claim/vmmigrations/default/m/export.raw";
    let exported = now(from.export_disk(export(&vm, url))).expect("exported");
    let imported = now(to.import_disk(import(url, &exported.checksum))).expect("imported");
    assert_eq!(imported.checksum, exported.checksum);
    assert_eq!(imported.actual_size_bytes, exported.estimated_size_bytes);
    let migrated = created_as(
        &to,
        CreateVm {
            image: ImageSource {
                path: imported.path,
                ..ImageSource::default()
            },
            ..request("b")
        },
    );
    assert_eq!(
        seen(&to, &migrated.id).details["diskSha256"],
        exported.checksum
    );
    let back = now(to.export_disk(export(&migrated, "pvc://claim/back.raw"))).expect("exported");
    assert_eq!(back.checksum, exported.checksum);
}

#[test]
fn a_disk_moves_as_qcow2_with_its_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (staged(folder.path()), staged(folder.path()));
    let vm = created(&from, "a");
    let raw = now(from.export_disk(export(&vm, "pvc://claim/a.raw"))).expect("exported");
    let request = ExportDisk {
        format: "qcow2".to_owned(),
        ..export(&vm, "pvc://claim/a.qcow2")
    };
    let exported = now(from.export_disk(request)).expect("exported");
    assert_ne!(exported.checksum, raw.checksum);
    let file = std::fs::read(folder.path().join("claim/a.qcow2")).expect("written");
    let probed = polyvirt_disks::format::probe(&file, file.len() as u64).expect("a disk");
    assert_eq!(probed.format, polyvirt_disks::format::Format::Qcow2);
    let request = ImportDisk {
        format: "qcow2".to_owned(),
        ..import("pvc://claim/a.qcow2", &exported.checksum)
    };
    let imported = now(to.import_disk(request)).expect("imported");
    assert_eq!(imported.checksum, exported.checksum);
    let image = ImageSource {
        path: imported.path,
        ..ImageSource::default()
    };
    let migrated = created_as(
        &to,
        CreateVm {
            image,
            ..crate::common::request("b")
        },
    );
    let back = now(to.export_disk(export(&migrated, "pvc://claim/b.raw"))).expect("exported");
    assert_eq!(back.checksum, raw.checksum);
}

#[test]
fn places_and_formats_that_cannot_be_served_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mock = staged(folder.path());
    let vm = created(&mock, "a");
    for (url, kind) in [
        ("s3://bucket/x", ErrorKind::Unsupported),
        ("nfs://server/x", ErrorKind::Unsupported),
        ("pvc://claim", ErrorKind::Invalid),
        ("pvc://claim/../../etc/x", ErrorKind::Invalid),
        ("pvc:///etc/passwd", ErrorKind::Invalid),
    ] {
        let error = now(mock.export_disk(export(&vm, url))).expect_err(url);
        assert_eq!(error.kind, kind, "{url}");
    }
    let vmdk = ExportDisk {
        format: "vmdk".to_owned(),
        ..export(&vm, "pvc://claim/x")
    };
    assert_eq!(
        now(mock.export_disk(vmdk)).expect_err("no vmdk").kind,
        ErrorKind::Invalid
    );
    let compressed = ExportDisk {
        compress: true,
        ..export(&vm, "pvc://claim/x")
    };
    assert_eq!(
        now(mock.export_disk(compressed)).expect_err("no").kind,
        ErrorKind::Unsupported
    );
}

#[test]
fn an_import_checks_what_it_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let mock = staged(folder.path());
    let vm = created(&mock, "a");
    let exported = now(mock.export_disk(export(&vm, "pvc://claim/x"))).expect("exported");
    let error = now(mock.import_disk(import("pvc://claim/x", "00"))).expect_err("differs");
    assert_eq!(error.kind, ErrorKind::Invalid);
    let error = now(mock.import_disk(import("pvc://claim/y", ""))).expect_err("not there");
    assert_eq!(error.kind, ErrorKind::NotFound);
    let climbing = ImportDisk {
        target_name: "../x".to_owned(),
        ..import("pvc://claim/x", &exported.checksum)
    };
    assert_eq!(
        now(mock.import_disk(climbing)).expect_err("no name").kind,
        ErrorKind::Invalid
    );
}

#[test]
fn facts_are_told_of_each_disk() {
    let mock = crate::common::manual();
    let vm = created_as(
        &mock,
        CreateVm {
            disks: vec![disk("data", 7, ExpandPolicy::Online)],
            ..request("a")
        },
    );
    let root = now(mock.disk_info(&vm.id, "", None)).expect("told");
    let data = now(mock.disk_info(&vm.id, "data", None)).expect("told");
    assert!(root.bootable && !data.bootable);
    assert_eq!(data.virtual_size_bytes, 7 << 30);
    let error = now(mock.disk_info(&vm.id, "other", None)).expect_err("none");
    assert_eq!(error.kind, ErrorKind::NotFound);
}
