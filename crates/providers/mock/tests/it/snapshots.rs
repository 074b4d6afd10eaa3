use polyvirt_contract::model::{
    CreateVm, ExpandPolicy, PowerOp, PowerState, SnapshotContents, SnapshotRequest,
};
use polyvirt_contract::{ErrorKind, Provider, SnapshotId};

use crate::common::{
    SECOND, created, created_as, disk, manual, now, power, request, seen, with_tasks,
};

fn named(name: &str, contents: SnapshotContents) -> SnapshotRequest {
    SnapshotRequest {
        name_hint: name.to_owned(),
        contents,
        ..SnapshotRequest::default()
    }
}

#[test]
fn a_snapshot_brings_back_size_disks_and_power() {
    let mock = manual();
    let with_disk = |cpu, gib| {
        let mut request = CreateVm {
            disks: vec![disk("data", gib, ExpandPolicy::Online)],
            ..request("a")
        };
        request.class.cpu = cpu;
        request
    };
    let vm = created_as(&mock, with_disk(2, 10));
    power(&mock, &vm, PowerOp::On).expect("started");
    let live = now(mock.snapshot_create(&vm, named("live", SnapshotContents::DisksAndMemory)))
        .expect("taken");
    let cold =
        now(mock.snapshot_create(&vm, named("cold", SnapshotContents::Disks))).expect("taken");
    power(&mock, &vm, PowerOp::Off).expect("stopped");
    now(mock.reconfigure(&vm, with_disk(4, 20))).expect("changed");
    for (snapshot, state) in [(&live.id, PowerState::On), (&cold.id, PowerState::Off)] {
        now(mock.snapshot_revert(&vm, snapshot)).expect("reverted");
        let found = seen(&mock, &vm.id);
        assert_eq!((found.cpu, found.power), (2, state));
        assert_eq!(found.disks.expect("told")[0].size_gib, 10);
        assert_eq!(found.details["boots"], "1", "going back is no boot");
    }
}

#[test]
fn the_same_name_is_the_same_snapshot() {
    let mock = with_tasks();
    let vm = created(&mock, "a");
    mock.advance(SECOND);
    let first =
        now(mock.snapshot_create(&vm, named("s", SnapshotContents::Disks))).expect("accepted");
    let again =
        now(mock.snapshot_create(&vm, named("s", SnapshotContents::Disks))).expect("accepted");
    assert_eq!(again, first);
    mock.advance(SECOND);
    let done = now(mock.snapshot_create(&vm, named("s", SnapshotContents::Disks))).expect("found");
    assert_eq!((done.id, done.task), (first.id.clone(), None));
    let other = now(mock.snapshot_create(&vm, SnapshotRequest::default())).expect("accepted");
    assert_ne!(other.id, first.id);
    mock.advance(SECOND);
    let known = now(mock.disk_info(&vm.id, "", None))
        .expect("told")
        .snapshots;
    assert_eq!(known, [first.id.as_str(), other.id.as_str()]);
}

#[test]
fn a_deleted_snapshot_is_not_found() {
    let mock = manual();
    let vm = created(&mock, "a");
    let taken = now(mock.snapshot_create(&vm, SnapshotRequest::default())).expect("taken");
    now(mock.snapshot_delete(&vm, &taken.id)).expect("deleted");
    let unknown = SnapshotId::from("never-taken");
    for error in [
        now(mock.snapshot_delete(&vm, &taken.id)).expect_err("gone"),
        now(mock.snapshot_revert(&vm, &taken.id)).expect_err("gone"),
        now(mock.snapshot_revert(&vm, &unknown)).expect_err("unknown"),
    ] {
        assert_eq!(error.kind, ErrorKind::NotFound);
    }
}
