//! Changes of a guest that runs, and moments to go back to.

use std::process::Command;

use polyvirt_contract::model::{
    CloneMode, CloneVm, CreateVm, DiskSpec, ExpandPolicy, GuestDisks, PerformanceProfile, PowerOp,
    PowerState, Quiesce, SnapshotContents, SnapshotRequest, VmRef,
};
use polyvirt_contract::{Provider as _, SnapshotId};

use crate::lab::{Lab, nic, owner};

fn disk(size_gib: u32) -> DiskSpec {
    DiskSpec {
        name: "data".to_owned(),
        size_gib,
        expand_policy: ExpandPolicy::Online,
        ..DiskSpec::default()
    }
}

fn can_grow(mut desired: CreateVm) -> CreateVm {
    desired.class.performance = Some(PerformanceProfile {
        cpu_hot_add: true,
        memory_hot_add: true,
        ..PerformanceProfile::default()
    });
    desired
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_guest_grows_and_goes_back() {
    let lab = Lab::new().await;
    let mut desired = can_grow(lab.desired("grows", 1));
    let vm = lab.create(&desired).await;
    lab.boot(&vm).await;
    desired.class.cpu = 2;
    desired.class.memory_mib = 320;
    desired.disks = vec![disk(1)];
    desired.networks.push(nic("eth1"));
    lab.done(lab.provider.reconfigure(&vm, desired.clone()).await)
        .await;
    let state = lab.state(&vm).await;
    assert_eq!(state.restart_required, Vec::<String>::new());
    assert_eq!((state.cpu, state.memory_mib), (2, 320));
    assert_eq!(state.nics.map(|nics| nics.len()), Some(2));
    lab.until_runs(&vm, "[ \"$(nproc)\" = 2 ]").await;
    lab.until_runs(&vm, "[ -e /sys/class/net/eth1 ]").await;
    lab.until_runs(&vm, "[ \"$(cat /sys/block/vdc/size)\" = 2097152 ] || [ \"$(cat /sys/block/vdb/size)\" = 2097152 ]").await;
    desired.disks = vec![disk(2)];
    lab.done(lab.provider.reconfigure(&vm, desired.clone()).await)
        .await;
    lab.until_runs(&vm, "cat /sys/block/vd*/size | grep -q 4194304")
        .await;

    // Disks alone, with the guest made quiet: to go back is to be off.
    lab.run(&vm, "mkdir -p /mnt/t; mount LABEL=data /mnt/t 2>/dev/null || mount /dev/vda2 /mnt/t; echo kept > /mnt/t/kept; sync; umount /mnt/t").await;
    let request = SnapshotRequest {
        name_hint: "moment".to_owned(),
        description: "before".to_owned(),
        contents: SnapshotContents::Disks,
        quiesce: Quiesce::IfPossible,
    };
    let taken = take(&lab, &vm, request.clone()).await;
    let state = lab.state(&vm).await;
    assert_eq!(state.power, PowerState::On);
    let snapshots = state.snapshots.expect("told");
    assert_eq!(
        (snapshots.len(), snapshots[0].guest),
        (1, GuestDisks::Quiet)
    );
    assert!(snapshots[0].size_bytes > 0, "{snapshots:?}");
    let later = SnapshotRequest {
        name_hint: "later".to_owned(),
        ..request
    };
    let later = take(&lab, &vm, later).await;
    sizes_are_told(&lab, &vm, SnapshotContents::DisksAndMemory, &later).await;
    assert_eq!(parent_of(&lab, &vm, &later).await, Some(taken.clone()));
    lab.done(lab.provider.snapshot_revert(&vm, &taken).await)
        .await;
    let state = lab.state(&vm).await;
    assert_eq!(
        (state.power, state.owner.clone()),
        (PowerState::Off, vm.owner.clone())
    );
    sizes_are_told(&lab, &vm, SnapshotContents::Disks, &later).await;
    lab.done(lab.provider.snapshot_delete(&vm, &taken).await)
        .await;
    assert_eq!(parent_of(&lab, &vm, &later).await, None);
    lab.done(lab.provider.snapshot_delete(&vm, &later).await)
        .await;
    assert_eq!(lab.state(&vm).await.snapshots, Some(Vec::new()));

    // Less is stored for the next start; a disk goes with its volume.
    desired.disks.clear();
    desired.networks.truncate(1);
    desired.class.cpu = 1;
    lab.done(lab.provider.reconfigure(&vm, desired).await).await;
    let state = lab.state(&vm).await;
    assert_eq!((state.cpu, state.disks), (1, Some(Vec::new())));
    let left = lab.host.volumes("default");
    assert!(!left.iter().any(|name| name.contains(".vdb")), "{left:?}");
    lab.delete(&vm).await;
}

async fn take(lab: &Lab, vm: &VmRef, request: SnapshotRequest) -> SnapshotId {
    let taken = lab.provider.snapshot_create(vm, request).await;
    let taken = taken.expect("taken");
    lab.done(Ok(taken.task)).await;
    taken.id
}

/// Takes another snapshot, which holds its disks, and with memory more than one without, and takes it away.
async fn sizes_are_told(lab: &Lab, vm: &VmRef, contents: SnapshotContents, of_disks: &SnapshotId) {
    let request = SnapshotRequest {
        name_hint: "counted".to_owned(),
        contents,
        ..SnapshotRequest::default()
    };
    let counted = take(lab, vm, request).await;
    let held = async |id: &SnapshotId| {
        let snapshots = lab.state(vm).await.snapshots.expect("told");
        let found = snapshots.into_iter().find(|s| s.id == *id);
        found.expect("there").size_bytes
    };
    let (bytes, disks) = (held(&counted).await, held(of_disks).await);
    println!("{contents:?}: {bytes} bytes; disks alone {disks}");
    let memory = match contents {
        SnapshotContents::DisksAndMemory => disks + (16 << 20),
        SnapshotContents::Disks => 0,
    };
    assert!(disks > 0 && bytes > memory, "{disks}, {bytes}");
    lab.done(lab.provider.snapshot_delete(vm, &counted).await)
        .await;
}

async fn parent_of(lab: &Lab, vm: &VmRef, id: &SnapshotId) -> Option<SnapshotId> {
    let snapshots = lab.state(vm).await.snapshots.expect("told");
    let found = snapshots.into_iter().find(|s| s.id == *id);
    found.expect("there").parent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_outlive_their_source() {
    let lab = Lab::new().await;
    let source = lab.create(&lab.desired("source", 1)).await;
    let copy = |number: u32, name: &str, mode: CloneMode| CloneVm {
        owner: Some(owner(name, number)),
        source: source.id.clone(),
        target_name: name.to_owned(),
        mode,
        class: None,
        placement: None,
        customize_json: String::new(),
    };
    let linked = lab
        .provider
        .clone_vm(copy(2, "linked", CloneMode::Linked))
        .await
        .expect("accepted");
    lab.done(Ok(linked.task)).await;
    lab.power(&source, PowerOp::On).await;
    let full = lab
        .provider
        .clone_vm(copy(3, "full", CloneMode::Full))
        .await
        .expect("accepted");
    lab.done(Ok(full.task)).await;
    let full = polyvirt_contract::model::VmRef {
        id: full.id,
        owner: Some(owner("full", 3)),
    };
    let linked = polyvirt_contract::model::VmRef {
        id: linked.id,
        owner: Some(owner("linked", 2)),
    };
    let macs: Vec<_> = [&source, &full, &linked].into_iter().collect();
    let mut seen = std::collections::BTreeSet::new();
    for vm in macs {
        let nics = lab.state(vm).await.nics.expect("told");
        assert!(seen.insert(nics[0].mac.clone()), "two VMs have one address");
    }
    lab.done(lab.provider.delete(&source).await).await;
    lab.delete(&full).await;
    // The layer that the source left is still there, and the copy starts from it.
    let state = lab.boot(&linked).await;
    assert_eq!(state.details["hostname"], "linked");
    lab.delete(&linked).await;
    let left = lab.host.volumes("default");
    assert!(left.iter().all(|name| name.starts_with("img-")), "{left:?}");
}

/// Layers below a disk, with itself.
fn chain(lab: &Lab, file: &str) -> usize {
    let file = lab.host.path("pool").join(file);
    let told = Command::new("qemu-img")
        .args(["info", "-U", "--backing-chain", "--output=json"])
        .arg(file)
        .output()
        .expect("qemu-img is installed");
    let list: serde_json::Value = serde_json::from_slice(&told.stdout).expect("told");
    list.as_array().expect("a list").len()
}

/// Lets a tool read or write a disk of a VM that is off.
fn disk_io(lab: &Lab, file: &str, what: &str) {
    let file = lab.host.path("pool").join(file);
    let done = Command::new("qemu-io")
        .args(["-f", "qcow2", "-c", what])
        .arg(&file)
        .output();
    let done = done.expect("qemu-io is installed");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && !said.contains("failed"),
        "{what} {}: {said}",
        file.display()
    );
}

/// The file that a VM has its first disk in.
fn root_of(lab: &Lab, vm: &str) -> String {
    let blocks = lab.host.virsh(&["domblklist", vm]);
    let line = blocks
        .lines()
        .find(|line| line.trim_start().starts_with("vda"));
    let path = line
        .expect("a disk")
        .split_whitespace()
        .nth(1)
        .expect("a path");
    path.rsplit('/').next().expect("a name").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_of_linked_clones_stay_short() {
    let lab = Lab::new().await;
    let source = lab.create(&lab.desired("source", 1)).await;
    let linked = async |number: u32| {
        let name = format!("copy-{number}");
        let request = CloneVm {
            owner: Some(owner(&name, number)),
            source: source.id.clone(),
            target_name: name,
            mode: CloneMode::Linked,
            class: None,
            placement: None,
            customize_json: String::new(),
        };
        let cloned = lab.provider.clone_vm(request).await.expect("accepted");
        lab.done(Ok(cloned.task)).await;
        VmRef {
            id: cloned.id,
            owner: Some(owner(&format!("copy-{number}"), number)),
        }
    };
    let mut copies = Vec::new();
    // A source that rests gives the same layer to all: image, layer, disk.
    for number in 2..5 {
        copies.push(linked(number).await);
        assert_eq!(chain(&lab, &root_of(&lab, "source")), 3);
        assert_eq!(chain(&lab, &root_of(&lab, &format!("copy-{number}"))), 3);
    }
    // One that is written to gives another, and is made whole when they are many. Each clone has what was there then.
    let mut longest = 0;
    for number in 5..16 {
        let top = root_of(&lab, "source");
        disk_io(&lab, &top, &format!("write -P {number} 40M 64k"));
        copies.push(linked(number).await);
        longest = longest.max(chain(&lab, &root_of(&lab, "source")));
    }
    println!("{longest} layers at most");
    assert!((9..=10).contains(&longest), "{longest}");
    for number in 5..16 {
        let file = root_of(&lab, &format!("copy-{number}"));
        disk_io(&lab, &file, &format!("read -P {number} 40M 64k"));
    }
    for vm in copies.iter().chain([&source]) {
        lab.done(lab.provider.delete(vm).await).await;
    }
    let left = lab.host.volumes("default");
    assert!(left.iter().all(|name| name.starts_with("img-")), "{left:?}");
    assert_eq!(lab.host.virsh(&["list", "--all", "--name"]), "");
}
