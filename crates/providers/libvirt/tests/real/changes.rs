//! Changes of a guest that runs, and moments to go back to.

use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{
    CloneMode, CloneVm, CreateVm, DiskSpec, ExpandPolicy, GuestDisks, PerformanceProfile, PowerOp,
    PowerState, Quiesce, SnapshotContents, SnapshotRequest,
};

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
    let taken = lab
        .provider
        .snapshot_create(&vm, request)
        .await
        .expect("taken");
    lab.done(Ok(taken.task)).await;
    let state = lab.state(&vm).await;
    assert_eq!(state.power, PowerState::On);
    let snapshots = state.snapshots.expect("told");
    assert_eq!(
        (snapshots.len(), snapshots[0].guest),
        (1, GuestDisks::Quiet)
    );
    lab.done(lab.provider.snapshot_revert(&vm, &taken.id).await)
        .await;
    let state = lab.state(&vm).await;
    assert_eq!(
        (state.power, state.owner.clone()),
        (PowerState::Off, vm.owner.clone())
    );
    lab.done(lab.provider.snapshot_delete(&vm, &taken.id).await)
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
