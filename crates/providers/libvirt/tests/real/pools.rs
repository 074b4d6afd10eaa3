//! Disks in pools that keep no files. The volume group is played by a script (`lvm.sh`), all else is real: libvirt's own pool of the
//! kind `logical`, which asks that script as it asks LVM. No guest is started: its disks are no devices here.

use std::process::Command;

use polyvirt_contract::model::{
    CloneMode, CloneVm, CreateVm, DiskDefaults, DiskSpec, Placement, SnapshotRequest, VmRef,
};
use polyvirt_contract::{ErrorKind, Provider as _, ProviderError};

use crate::host::Host;
use crate::lab::{Lab, guest_image, owner};

const GIB: u64 = 1 << 30;

fn data(size_gib: u32) -> DiskSpec {
    disk("data", size_gib)
}

fn disk(name: &str, size_gib: u32) -> DiskSpec {
    DiskSpec {
        name: name.to_owned(),
        size_gib,
        ..DiskSpec::default()
    }
}

fn in_group(lab: &Lab) -> CreateVm {
    in_pool(lab, "block", "fast")
}

fn in_pool(lab: &Lab, name: &str, pool: &str) -> CreateVm {
    let mut desired = lab.desired(name, 1);
    desired.class.disk_defaults = Some(DiskDefaults {
        size_gib: 1,
        ..DiskDefaults::default()
    });
    desired.disks = vec![data(1)];
    desired.placement = Some(Placement {
        datastore: pool.to_owned(),
        ..Placement::default()
    });
    desired
}

/// The endings of the names of a VM's volumes.
fn parts(lab: &Lab, pool: &str, vm: &VmRef) -> Vec<String> {
    let beginning = format!("{}.", vm.id);
    let volumes = lab.host.volumes(pool);
    let mut parts: Vec<String> = volumes
        .iter()
        .filter_map(|name| name.strip_prefix(&beginning).map(str::to_owned))
        .collect();
    parts.sort();
    parts
}

/// The first bytes of a volume.
fn beginning(lab: &Lab, volume: &str) -> Vec<u8> {
    let file = lab.host.path("beginning");
    let path = file.display().to_string();
    lab.host.virsh(&[
        "vol-download",
        "--pool",
        "fast",
        volume,
        &path,
        "--length",
        "40000000",
    ]);
    std::fs::read(file).expect("readable")
}

/// The first bytes of the guest's disk.
fn of_guest(lab: &Lab) -> Vec<u8> {
    let raw = lab.host.path("guest.raw");
    let made = Command::new("qemu-img")
        .args(["convert", "-O", "raw"])
        .args([guest_image(), &raw])
        .status();
    assert!(made.expect("qemu-img is installed").success());
    let mut bytes = std::fs::read(raw).expect("readable");
    bytes.truncate(40_000_000);
    bytes
}

async fn refused(lab: &Lab, desired: CreateVm, vm: &VmRef) -> ProviderError {
    let answer = lab.provider.reconfigure(vm, desired).await;
    lab.ended(answer).await.expect_err("refused")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_are_volumes_of_a_group_where_the_pool_is_one() {
    let lab = Lab::on(Host::with_group()).await;
    let stores = lab.provider.inventory().await.expect("told").datastores;
    let fast = stores.iter().find(|store| store.name == "fast");
    let fast = fast.expect("it is told of");
    assert_eq!(
        (fast.kind.as_str(), fast.capacity_bytes),
        ("logical", 16 * GIB)
    );

    // The first disk is a copy of its image, as large as it was asked for; small files lie with files.
    let mut desired = in_group(&lab);
    let vm = lab.create(&desired).await;
    assert_eq!(parts(&lab, "fast", &vm), ["root.raw", "vdb.raw"]);
    assert_eq!(parts(&lab, "default", &vm), ["documents.json", "seed.img"]);
    let root = format!("{}.root.raw", vm.id);
    assert!(beginning(&lab, &root) == of_guest(&lab), "another disk");
    let info = lab
        .provider
        .disk_info(&vm.id, "", None)
        .await
        .expect("told");
    assert_eq!(
        (info.format.as_str(), info.virtual_size_bytes),
        ("raw", 1 << 30)
    );
    let xml = lab.host.virsh(&["dumpxml", "block"]);
    assert_eq!(xml.matches("<disk type='block'").count(), 2, "{xml}");

    snapshots_and_links_are_refused(&lab, &vm).await;
    grows_by_hand(&lab, &vm, &mut desired).await;

    // A disk that comes and goes takes no other with it.
    desired.disks.push(disk("more", 1));
    let answer = lab.provider.reconfigure(&vm, desired.clone()).await;
    lab.done(answer).await;
    assert_eq!(parts(&lab, "fast", &vm), ["root.raw", "vdb.raw", "vdc.raw"]);
    desired.disks.pop();
    let answer = lab.provider.reconfigure(&vm, desired.clone()).await;
    lab.done(answer).await;
    assert_eq!(parts(&lab, "fast", &vm), ["root.raw", "vdb.raw"]);

    // A whole copy has volumes of its own, and outlives its source.
    let copy = cloned(&lab, &vm, CloneMode::Full).await.expect("copied");
    lab.delete(&vm).await;
    assert_eq!(parts(&lab, "fast", &copy), ["root.raw", "vdb.raw"]);
    let root = format!("{}.root.raw", copy.id);
    assert!(beginning(&lab, &root) == of_guest(&lab), "another disk");
    lab.delete(&copy).await;
    assert!(lab.host.volumes("fast").is_empty(), "volumes are left");

    // More than the group has is told as such, and leaves nothing.
    let mut too_large = in_group(&lab);
    too_large.disks = vec![data(20)];
    let answer = lab
        .provider
        .create(too_large)
        .await
        .map(|created| created.task);
    let error = lab.ended(answer).await.expect_err("no room");
    assert_eq!(error.kind, ErrorKind::Exhausted, "{error:?}");
    assert!(lab.host.volumes("fast").is_empty(), "volumes are left");
}

async fn cloned(lab: &Lab, vm: &VmRef, mode: CloneMode) -> Result<VmRef, ProviderError> {
    let request = CloneVm {
        owner: Some(owner("copy", 2)),
        source: vm.id.clone(),
        target_name: "copy".to_owned(),
        mode,
        class: None,
        placement: None,
        customize_json: String::new(),
    };
    let clone = lab.provider.clone_vm(request).await?;
    lab.ended(Ok(clone.task)).await?;
    Ok(VmRef {
        id: clone.id,
        owner: Some(owner("copy", 2)),
    })
}

async fn snapshots_and_links_are_refused(lab: &Lab, vm: &VmRef) {
    let taken = lab.provider.snapshot_create(vm, SnapshotRequest::default());
    let answer = taken.await.map(|taken| taken.task);
    let error = lab.ended(answer).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Precondition);
    assert!(error.message.contains("raw"), "{error}");
    let error = cloned(lab, vm, CloneMode::Linked)
        .await
        .expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Precondition);
    assert!(error.message.contains("fast"), "{error}");
}

/// libvirt does not make logical volumes larger: whoever can is told how, and then it goes on.
async fn grows_by_hand(lab: &Lab, vm: &VmRef, desired: &mut CreateVm) {
    desired.disks = vec![data(2)];
    let error = refused(lab, desired.clone(), vm).await;
    assert!(
        error.message.contains("lvextend --size 2147483648b"),
        "{error}"
    );
    let path = lab
        .host
        .virsh(&["vol-path", "--pool", "fast", &format!("{}.vdb.raw", vm.id)]);
    lab.host.inside(&["truncate", "-s", "2G", &path]);
    lab.host.virsh(&["pool-refresh", "fast"]);
    let answer = lab.provider.reconfigure(vm, desired.clone()).await;
    lab.done(answer).await;
    let info = lab
        .provider
        .disk_info(&vm.id, "data", None)
        .await
        .expect("told");
    assert_eq!(info.virtual_size_bytes, 2 << 30);
}

/// The same element is what the provider writes, by a test of its own.
const RBD: &str = include_str!("../../src/domain/rbd-disk.xml");

#[test]
fn libvirt_takes_a_disk_of_ceph() {
    let host = Host::start();
    let file = host.path("ceph.xml");
    let xml = format!(
        "<domain type='qemu'><name>ceph</name><memory unit='MiB'>64</memory><os><type machine='q35'>hvm</type></os><features><acpi/></features><devices>{RBD}</devices></domain>"
    );
    std::fs::write(&file, xml).expect("written");
    host.virsh(&["define", "--validate", &file.display().to_string()]);
    let stored = host.virsh(&["dumpxml", "ceph"]);
    for part in [
        "protocol='rbd' name='vms/disk'",
        "<host name='mon-1' port='6789'/>",
        "<auth username='libvirt'>",
    ] {
        assert!(stored.contains(part), "{part} is not in {stored}");
    }
}

/// A pool on a file server is used as one of files is. The server is only played: what libvirt mounts is memory by its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_lives_on_a_file_server() {
    let lab = Lab::on(Host::with_share()).await;
    let stores = lab.provider.inventory().await.expect("told").datastores;
    let shared = stores.iter().find(|store| store.name == "shared");
    assert_eq!(shared.expect("it is told of").kind, "netfs");
    let mut desired = in_pool(&lab, "remote", "shared");
    let vm = lab.create(&desired).await;
    lab.boot(&vm).await;
    let all = ["documents.json", "root.qcow2", "seed.img", "vdb.qcow2"];
    assert_eq!(parts(&lab, "shared", &vm), all);
    let state = lab.state(&vm).await;
    let root = state.root.expect("told");
    let place = lab.host.path("shared").display().to_string();
    assert!(root.path.starts_with(&place), "{root:?}");
    assert_eq!((root.size_gib, root.format.as_str()), (1, "qcow2"));

    let request = SnapshotRequest {
        name_hint: "kept".to_owned(),
        ..SnapshotRequest::default()
    };
    let taken = lab.provider.snapshot_create(&vm, request).await;
    let taken = taken.expect("taken");
    lab.done(Ok(taken.task)).await;
    let answer = lab.provider.snapshot_delete(&vm, &taken.id).await;
    lab.done(answer).await;
    desired.disks = vec![data(2)];
    let answer = lab.provider.reconfigure(&vm, desired).await;
    lab.done(answer).await;
    let copy = cloned(&lab, &vm, CloneMode::Full).await.expect("copied");
    lab.delete(&vm).await;
    lab.delete(&copy).await;
    for gone in [&vm, &copy] {
        assert!(parts(&lab, "shared", gone).is_empty(), "volumes are left");
    }
}
