//! One guest that runs, changed in every way that needs no restart; then snapshots and copies of it.

use polyvirt_contract::model::{
    CloneMode, CloneVm, CreateVm, DiskSpec, ExpandPolicy, Owner, PerformanceProfile, PowerOp,
    PowerState, SnapshotContents, SnapshotRequest, VmRef,
};
use polyvirt_contract::{ErrorKind, Provider as _, SnapshotId};

use crate::lab::{Lab, desired, nic};

fn growing(number: u32) -> CreateVm {
    let mut wanted = desired("changes", number);
    wanted.class.performance = Some(PerformanceProfile {
        cpu_hot_add: true,
        memory_hot_add: true,
        ..PerformanceProfile::default()
    });
    wanted
}

fn disk(size_gib: u32) -> DiskSpec {
    DiskSpec {
        name: "data".to_owned(),
        size_gib,
        expand_policy: ExpandPolicy::Online,
        ..DiskSpec::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_vm_changes_without_a_restart() {
    let lab = Lab::new().await;
    let mut wanted = growing(10);
    let vm = lab.create(&wanted).await;
    lab.boot(&vm).await;
    let boots = lab.run(&vm, "cat /data/boots").await;

    wanted.class.cpu = 2;
    wanted.class.memory_mib += 128;
    wanted.disks = vec![disk(1)];
    wanted.networks.push(nic("eth1"));
    reconfigure(&lab, &vm, &wanted).await;
    let state = lab.state(&vm).await;
    assert_eq!((state.cpu, state.memory_mib), (2, 320));
    assert!(
        state.restart_required.is_empty(),
        "{:?}",
        state.restart_required
    );
    lab.until_runs(&vm, "test $(nproc) = 2").await;
    lab.until_runs(
        &vm,
        "test $(sed -n 's/MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo) -gt 200000",
    )
    .await;
    lab.until_runs(&vm, "test $(cat /sys/block/vd*/size | grep -c 2097152) = 1")
        .await;
    lab.until_runs(&vm, "test -e /sys/class/net/eth1").await;

    wanted.disks = vec![disk(2)];
    wanted.networks.pop();
    reconfigure(&lab, &vm, &wanted).await;
    lab.until_runs(&vm, "test $(cat /sys/block/vd*/size | grep -c 4194304) = 1")
        .await;
    lab.until_runs(&vm, "test ! -e /sys/class/net/eth1").await;
    let shrunk = CreateVm {
        disks: vec![disk(1)],
        ..wanted.clone()
    };
    let error = lab
        .provider
        .reconfigure(&vm, shrunk)
        .await
        .expect_err("shrinks");
    assert_eq!(error.field.as_deref(), Some("spec.disks[0].sizeGiB"));
    wanted.disks.clear();
    reconfigure(&lab, &vm, &wanted).await;
    lab.until_runs(&vm, "test $(cat /sys/block/vd*/size | grep -c 4194304) = 0")
        .await;
    assert!(
        !lab.vm_folder(&vm).join("run/data1.qcow2").exists(),
        "the disk is left behind"
    );
    assert_eq!(
        lab.run(&vm, "cat /data/boots").await,
        boots,
        "it was not restarted"
    );

    goes_back_with_memory(&lab, &vm).await;
    shrinks_at_the_next_start(&lab, &vm, wanted).await;
    lab.delete(&vm).await;
}

async fn reconfigure(lab: &Lab, vm: &VmRef, wanted: &CreateVm) {
    lab.done(lab.provider.reconfigure(vm, wanted.clone()).await)
        .await;
}

async fn snapshot(lab: &Lab, vm: &VmRef, name: &str, contents: SnapshotContents) -> SnapshotId {
    let request = SnapshotRequest {
        name_hint: name.to_owned(),
        description: String::new(),
        contents,
        ..SnapshotRequest::default()
    };
    let taken = lab
        .provider
        .snapshot_create(vm, request)
        .await
        .expect("accepted");
    lab.done(Ok(taken.task)).await;
    taken.id
}

/// What a guest has in its memory at least.
const MEMORY: u64 = 16 << 20;

/// What a snapshot is said to hold.
async fn held(lab: &Lab, vm: &VmRef, id: &SnapshotId) -> u64 {
    let snapshots = lab.state(vm).await.snapshots.expect("told");
    let found = snapshots.into_iter().find(|s| s.id == *id);
    found.expect("there").size_bytes
}

/// Memory, disk, and the CPUs and memory that were added while it ran come back.
async fn goes_back_with_memory(lab: &Lab, vm: &VmRef) {
    lab.run(
        vm,
        "echo before > /run/word; echo before > /data/word; sync",
    )
    .await;
    let disks = snapshot(lab, vm, "disks", SnapshotContents::Disks).await;
    let id = snapshot(lab, vm, "with-memory", SnapshotContents::DisksAndMemory).await;
    let (alone, both) = (held(lab, vm, &disks).await, held(lab, vm, &id).await);
    assert!(alone > 0 && both > alone + MEMORY, "{alone}, {both}");
    lab.done(lab.provider.snapshot_delete(vm, &disks).await)
        .await;
    lab.run(vm, "echo after > /run/word; echo after > /data/word; sync")
        .await;
    lab.done(lab.provider.snapshot_revert(vm, &id).await).await;
    lab.up(vm).await;
    assert_eq!(
        lab.run(vm, "cat /run/word /data/word; nproc").await,
        "before\nbefore\n2"
    );
    lab.power(vm, PowerOp::Off).await;
    lab.done(lab.provider.snapshot_revert(vm, &id).await).await;
    lab.up(vm).await;
    assert_eq!(lab.run(vm, "cat /run/word").await, "before");
    lab.done(lab.provider.snapshot_delete(vm, &id).await).await;
    let error = lab
        .provider
        .snapshot_revert(vm, &id)
        .await
        .expect_err("deleted");
    assert_eq!(error.kind, ErrorKind::NotFound);
}

async fn shrinks_at_the_next_start(lab: &Lab, vm: &VmRef, mut wanted: CreateVm) {
    wanted.class.cpu = 1;
    reconfigure(lab, vm, &wanted).await;
    let state = lab.state(vm).await;
    assert_eq!(state.restart_required, ["spec.resources.cpu"]);
    lab.power(vm, PowerOp::Reboot).await;
    let state = lab.up(vm).await;
    assert_eq!(state.cpu, 1);
    assert!(state.restart_required.is_empty());
    assert_eq!(lab.run(vm, "nproc").await, "1");
}

fn copy(source: &VmRef, name: &str, number: u32, mode: CloneMode) -> CloneVm {
    CloneVm {
        owner: Some(Owner {
            identity: format!("copy-{number}").as_str().into(),
            namespace: "test".to_owned(),
            name: name.to_owned(),
        }),
        source: source.id.clone(),
        target_name: name.to_owned(),
        mode,
        class: None,
        placement: None,
        customize_json: String::new(),
    }
}

async fn make_copy(lab: &Lab, request: CloneVm) -> VmRef {
    let owner = request.owner.clone();
    let cloned = lab.provider.clone_vm(request).await.expect("accepted");
    lab.done(Ok(cloned.task)).await;
    VmRef {
        id: cloned.id,
        owner,
    }
}

async fn wishes_that_nobody_fulfils_are_refused(lab: &Lab, source: &VmRef) {
    for (json, field) in [
        (r#"{"timeZone":"UTC"}"#, "spec.customization.timeZone"),
        (
            r#"{"networks":[{"name":"eth0","macAddress":"02:00:00:00:00:01"}]}"#,
            "spec.customization.networks[].macAddress",
        ),
        (
            r#"{"networks":[{"name":"eth7","dhcp":true}]}"#,
            "spec.customization.networks",
        ),
    ] {
        let request = CloneVm {
            customize_json: json.to_owned(),
            ..copy(source, "refused", 9, CloneMode::Full)
        };
        let error = lab.provider.clone_vm(request).await.expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    let vms = lab.provider.list_vms().await.expect("listed");
    assert_eq!(vms.len(), 1, "nothing was begun");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_carry_the_disk_and_go_their_own_way() {
    let lab = Lab::new().await;
    let source = lab.create(&desired("source", 20)).await;
    lab.boot(&source).await;
    lab.run(&source, "echo original > /data/word; sync").await;
    let before = snapshot(&lab, &source, "quiet", SnapshotContents::Disks).await;
    wishes_that_nobody_fulfils_are_refused(&lab, &source).await;
    let full = CloneVm {
        customize_json: r#"{"hostname":"full","tags":["copied"]}"#.to_owned(),
        ..copy(&source, "full", 1, CloneMode::Full)
    };
    let full = make_copy(&lab, full).await;
    assert_eq!(lab.state(&full).await.details["tags"], "copied");
    lab.run(&source, "echo changed > /data/word; sync").await;
    lab.power(
        &source,
        PowerOp::ShutdownGraceful {
            timeout: std::time::Duration::from_secs(60),
        },
    )
    .await;
    let off = lab.state(&source).await;
    assert_eq!((off.power, off.fault.as_str()), (PowerState::Off, ""));

    let refused = lab
        .provider
        .clone_vm(copy(&source, "linked", 2, CloneMode::Linked))
        .await;
    assert_eq!(
        refused.expect_err("has a snapshot").kind,
        ErrorKind::Precondition
    );
    lab.done(lab.provider.snapshot_revert(&source, &before).await)
        .await;
    lab.done(lab.provider.snapshot_delete(&source, &before).await)
        .await;
    let linked = make_copy(&lab, copy(&source, "linked", 2, CloneMode::Linked)).await;
    let busy = lab.provider.list_vms().await.expect("listed");
    assert_eq!(busy.len(), 3);

    for vm in [&full, &linked] {
        let state = lab.boot(vm).await;
        assert_eq!(
            lab.run(vm, "cat /data/word; hostname").await,
            format!("original\n{}", state.name)
        );
        lab.run(vm, "echo mine > /data/word; sync").await;
        lab.power(vm, PowerOp::Off).await;
    }
    lab.boot(&source).await;
    assert_eq!(
        lab.run(&source, "cat /data/word").await,
        "original",
        "a copy does not write to its source"
    );
    lab.delete(&source).await;
    lab.boot(&linked).await;
    assert_eq!(
        lab.run(&linked, "cat /data/word").await,
        "mine",
        "a copy outlives its source"
    );
    lab.delete(&linked).await;
    lab.delete(&full).await;
    let images = std::fs::read_dir(lab.folder.path().join("state/images")).expect("listed");
    assert_eq!(
        images.count(),
        1,
        "the shared layer goes with the last that uses it"
    );
}
