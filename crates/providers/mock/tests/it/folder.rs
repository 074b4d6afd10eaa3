use std::fs;
use std::path::Path;
use std::sync::Arc;

use polyvirt_contract::model::{CreateVm, PowerOp, PowerState, SnapshotRequest, UserData};
use polyvirt_contract::{ErrorKind, Provider};
use polyvirt_provider_mock::{Mock, Storage, TaskMode};

use crate::common::{SECOND, created, created_as, now, power, request, seen, with};

fn opened(folder: &Path, tasks: TaskMode) -> Arc<Mock> {
    let folder = folder.to_owned();
    with(|config| {
        config.storage = Storage::Directory(folder);
        config.tasks = tasks;
        config.times.create = SECOND;
    })
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Waits for the one second that a creation takes here.
fn settle(mock: &Mock) {
    mock.advance(SECOND);
}

#[test]
fn all_vms_are_found_again_as_they_were() {
    let folder = folder();
    let mock = opened(folder.path(), TaskMode::Async);
    let vm = created_as(
        &mock,
        CreateVm {
            user_data: Some(UserData::CloudInit(vec![0xff, 0xfe].into())),
            tags: vec!["x".to_owned()],
            ..request("a")
        },
    );
    created(&mock, "b");
    settle(&mock);
    power(&mock, &vm, PowerOp::On).expect("accepted");
    now(mock.snapshot_create(&vm, SnapshotRequest::default())).expect("accepted");
    settle(&mock);
    let before = mock.vms();
    assert_eq!(before[0].power, PowerState::On);
    drop(mock);
    let again = opened(folder.path(), TaskMode::Async);
    assert_eq!(again.vms(), before);
    let found = now(again.find(&vm.owner.clone().expect("owned").identity)).expect("asked");
    assert_eq!(found.expect("found").id, vm.id);
    let host = &now(again.inventory()).expect("told").hosts[0];
    assert_eq!(host.cpus_used, 2);
}

#[test]
fn numbers_are_never_given_twice() {
    let folder = folder();
    let mock = opened(folder.path(), TaskMode::Async);
    let first = created(&mock, "a");
    settle(&mock);
    let task = now(mock.delete(&first)).expect("accepted").expect("a task");
    settle(&mock);
    drop(mock);
    let again = opened(folder.path(), TaskMode::Async);
    let second = now(again.create(request("a"))).expect("accepted");
    assert_ne!(second.id, first.id);
    assert_ne!(second.task.expect("a task"), task);
    assert_eq!(
        now(again.task_status(&task))
            .expect_err("another life")
            .kind,
        ErrorKind::NotFound
    );
}

#[test]
fn what_was_half_made_is_gone_from_the_folder() {
    let folder = folder();
    let mock = opened(folder.path(), TaskMode::Async);
    created(&mock, "half");
    assert_eq!(files(folder.path()), 1);
    drop(mock);
    let again = opened(folder.path(), TaskMode::Async);
    assert!(again.vms().is_empty());
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn a_restart_reads_the_folder_again() {
    let folder = folder();
    let mock = opened(folder.path(), TaskMode::Async);
    let vm = created(&mock, "a");
    settle(&mock);
    let before = seen(&mock, &vm.id);
    mock.restart();
    assert_eq!(seen(&mock, &vm.id), before);
    now(mock.delete(&vm)).expect("accepted");
    settle(&mock);
    assert_eq!(files(folder.path()), 0);
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_what_is_stored() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    let mock = opened(folder.path(), TaskMode::Async);
    created(&mock, "a");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("vms/vm-1.json")), 0o600);
    assert_eq!(mode(&folder.path().join("vms")), 0o700);
}

#[test]
fn a_folder_that_cannot_be_used_is_told_by_every_call() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").expect("written");
    let mock = opened(&file, TaskMode::Async);
    for error in [
        now(mock.validate()).expect_err("unusable"),
        now(mock.create(request("a"))).expect_err("unusable"),
    ] {
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("file"), "{error}");
    }
}

#[test]
fn an_unreadable_vm_is_named() {
    let folder = folder();
    drop(opened(folder.path(), TaskMode::Async));
    fs::write(folder.path().join("vms/vm-1.json"), "{").expect("written");
    let mock = opened(folder.path(), TaskMode::Async);
    let error = now(mock.validate()).expect_err("unusable");
    assert!(error.message.contains("vm-1.json"), "{error}");
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder.join("vms")).expect("there").count()
}
