//! Guests that go on while they move, and what is left when somebody dies on the way.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    CreateVm, DiskSpec, Firmware, MigrateVm, MigrationMode, MigrationPhase, PowerOp, PowerState,
    SnapshotRequest, VmRef, VmState,
};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Extension, Result};

use polyvirt_provider_lab::Patience as _;
use polyvirt_provider_lab::counting::{self, MARKER, SLOW, count, counts_on, to};

use crate::hosts::{Hosts, on_first};
use crate::lab::{desired, next, signal};

/// On the first host.
pub async fn counting(hosts: &Hosts, name: &str, number: u32) -> VmRef {
    counting::counting(hosts, on_first(desired(name, number))).await
}

async fn told_by_now(stream: &mut BoxStream<'static, Result<VmEvent>>) -> Vec<VmEvent> {
    let mut all = Vec::new();
    let soon = Duration::from_millis(500);
    while let Ok(Some(event)) = tokio::time::timeout(soon, stream.next()).await {
        all.push(event.expect("goes on"));
    }
    all
}

/// Whoever watched has seen one VM, which ran all the time, and in the end another host.
fn moved_once(told: &[VmEvent]) {
    let states: Vec<_> = told
        .iter()
        .filter_map(|event| match event {
            VmEvent::State(state) => Some((state.host.as_str(), state.power)),
            VmEvent::Gone { .. } => panic!("it was never gone: {told:?}"),
            _ => None,
        })
        .collect();
    let ran = states.iter().all(|(_, power)| *power == PowerState::On);
    assert!(ran, "{states:?}");
    assert_eq!(states.last(), Some(&("hv-b", PowerState::On)));
    let once = states.is_sorted_by_key(|(host, _)| *host);
    assert!(once, "it moved once: {states:?}");
    assert!(states.len() <= 8, "no storm: {states:?}");
}

/// Somebody stops it: it goes on where it was.
async fn stops_on_its_way(hosts: &Hosts, vm: &VmRef, before: u64) {
    let slow = MigrateVm {
        bandwidth: Some(SLOW),
        ..to("hv-b", "r5")
    };
    let id = hosts.sends(vm, slow).await;
    let other = hosts.fleet.migrate(vm, to("hv-b", "r6")).await;
    assert_eq!(other.expect_err("one way").kind, ErrorKind::Precondition);
    let off = hosts.fleet.power(vm, PowerOp::Off.into()).await;
    let off = hosts.ended(off).await.expect_err("not now");
    assert_eq!(off.kind, ErrorKind::Precondition, "{off:?}");
    let absent = hosts.fleet.cancel_migration(vm, &"r9".into()).await;
    assert_eq!(absent.expect_err("no such").kind, ErrorKind::NotFound);
    let stopped = hosts.fleet.cancel_migration(vm, &"r5".into()).await;
    stopped.expect("in time");
    let error = hosts.ended(Ok(Some(id))).await.expect_err("stopped");
    assert_eq!(error.kind, ErrorKind::Cancelled, "{error:?}");
    hosts.only_at(vm, "hv-a").await;
    counts_on(hosts, vm, before).await;
}

/// Off, it goes as it is, and stays off; then it is deleted, and nothing is left.
async fn stays_off(hosts: &Hosts, vm: &VmRef) {
    let off = hosts.fleet.power(vm, PowerOp::Off.into()).await;
    hosts.ended(off).await.expect("off");
    let live = hosts.migrate(vm, to("hv-b", "live")).await;
    assert_eq!(live.expect_err("off").kind, ErrorKind::Precondition);
    let cold = MigrateVm {
        mode: MigrationMode::Cold,
        ..to("hv-b", "r7")
    };
    hosts.migrate(vm, cold).await.expect("moved");
    let state = hosts.state(vm).await;
    assert_eq!(
        (state.host.as_str(), state.power),
        ("hv-b", PowerState::Off)
    );
    assert!(!hosts.a.vm_folder(vm).exists());
    let on = hosts.fleet.power(vm, PowerOp::On.into()).await;
    hosts.ended(on).await.expect("on");
    hosts
        .until(vm, "the guest to be up", |state| !state.ips.is_empty())
        .await;
    let gone = hosts.fleet.delete(vm).await;
    hosts.ended(gone).await.expect("deleted");
    assert!(!hosts.b.vm_folder(vm).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_goes_on_while_it_moves() {
    let hosts = Hosts::start(MARKER).await;
    let features = hosts.fleet.features().await.expect("told");
    assert!(features.has(Extension::Migrate));
    let vm = counting(&hosts, "mover", 1).await;
    let before = count(&hosts, &vm).await;
    let ips = hosts.state(&vm).await.ips;
    let mut stream = hosts.fleet.watch().await.expect("watched");
    while next(&mut stream).await != VmEvent::Synced {}

    // In clear, with its disk.
    let begun = Instant::now();
    hosts.migrate(&vm, to("hv-b", "r1")).await.expect("moved");
    println!("moved in {:?}", begun.elapsed());
    hosts.only_at(&vm, "hv-b").await;
    let state = hosts.state(&vm).await;
    assert_eq!((state.host.as_str(), state.power), ("hv-b", PowerState::On));
    assert_eq!(state.last_request, Some("r1".into()));
    assert_eq!(state.ips, ips, "where the guest is, is not forgotten");
    let before = counts_on(&hosts, &vm, before).await;
    let (plain, clear) = hosts.to_b.asked();
    assert!(plain > 20 << 20, "its memory went by the wire: {plain}");
    assert!(clear, "the marker goes in clear");
    moved_once(&told_by_now(&mut stream).await);
    // The same request again does nothing, and neither does one to where it is.
    let again = hosts.fleet.migrate(&vm, to("hv-b", "r1")).await;
    assert_eq!(again, Ok(None));
    let there = hosts.fleet.migrate(&vm, to("hv-b", "r2")).await;
    assert_eq!(there, Ok(None));

    // Encrypted, and to whatever other host there is.
    let encrypted = MigrateVm {
        encrypted: true,
        ..to("", "r3")
    };
    hosts.migrate(&vm, encrypted).await.expect("moved");
    hosts.only_at(&vm, "hv-a").await;
    let (bytes, clear) = hosts.to_a.asked();
    assert!(bytes > 20 << 20, "its memory went by the wire: {bytes}");
    assert!(!clear, "neither memory nor disks pass in clear");
    let before = counts_on(&hosts, &vm, before).await;

    // Compressed.
    hosts.to_b.asked();
    let compressed = MigrateVm {
        compression: true,
        ..to("hv-b", "smaller")
    };
    hosts.migrate(&vm, compressed).await.expect("moved");
    hosts.only_at(&vm, "hv-b").await;
    let (bytes, _) = hosts.to_b.asked();
    println!("{bytes} bytes instead of {plain}");
    assert!(bytes < plain * 4 / 5, "{bytes} instead of {plain}");
    hosts.to_a.asked();

    // No faster than allowed, and told how far it is.
    let limited = MigrateVm {
        bandwidth: Some(SLOW),
        ..to("hv-a", "r4")
    };
    let id = hosts.sends(&vm, limited).await;
    let progress = hosts.fleet.migration_progress(&id).await.expect("told");
    println!("on its way: {progress:?}");
    assert_eq!(progress.source_host, "hv-b");
    assert_eq!(progress.target_host, "hv-a");
    assert_eq!(progress.phase, MigrationPhase::Copying);
    hosts.ended(Ok(Some(id.clone()))).await.expect("moved");
    let fastest = hosts.to_a.fastest();
    println!("at most {} KiB/s on the wire", fastest >> 10);
    assert!(fastest < SLOW * 3 / 2, "{fastest} bytes a second");
    let progress = hosts.fleet.migration_progress(&id).await.expect("told");
    println!("arrived: {progress:?}");
    assert_eq!(progress.remaining_bytes, Some(0));
    assert!(progress.downtime.is_some_and(|time| !time.is_zero()));
    hosts.only_at(&vm, "hv-a").await;
    let before = counts_on(&hosts, &vm, before).await;

    stops_on_its_way(&hosts, &vm, before).await;
    stays_off(&hosts, &vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_on_the_way_leaves_one_guest() {
    let mut hosts = Hosts::start(MARKER).await;
    let vm = counting(&hosts, "tough", 1).await;
    let slow = |request: &str| MigrateVm {
        bandwidth: Some(SLOW),
        ..to("hv-b", request)
    };

    // The wire is cut, that of the commands too: the source helps itself.
    let before = count(&hosts, &vm).await;
    let id = hosts.sends(&vm, slow("cut")).await;
    hosts.wire.link("down");
    tokio::time::sleep(Duration::from_secs(10)).await;
    hosts.wire.link("up");
    let error = hosts.ended(Ok(Some(id))).await.expect_err("cut");
    println!("link cut: {error}");
    hosts.only_at(&vm, "hv-a").await;
    let before = counts_on(&hosts, &vm, before).await;

    // QEMU at the target dies.
    let id = hosts.sends(&vm, slow("qemu")).await;
    signal(hosts.b.pid(&vm), rustix::process::Signal::KILL);
    let error = hosts.ended(Ok(Some(id))).await.expect_err("lost");
    println!("QEMU at the target died: {error}");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
    hosts.only_at(&vm, "hv-a").await;
    let before = counts_on(&hosts, &vm, before).await;

    // The target's provider dies. The guest goes on at once, not when that is back.
    let id = hosts.sends(&vm, slow("target")).await;
    hosts.b.kill();
    let before = counts_on(&hosts, &vm, before).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    hosts.b.run();
    let error = hosts.ended(Ok(Some(id))).await.expect_err("lost");
    println!("target died: {error}");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
    hosts.only_at(&vm, "hv-a").await;
    let before = counts_on(&hosts, &vm, before).await;

    // The source's provider dies.
    let id = hosts.sends(&vm, slow("source")).await;
    hosts.a.kill();
    hosts.a.run();
    let error = hosts.ended(Ok(Some(id))).await.expect_err("lost");
    println!("source died: {error}");
    hosts.only_at(&vm, "hv-a").await;
    let before = counts_on(&hosts, &vm, before).await;

    // The fleet dies.
    hosts.sends(&vm, slow("fleet")).await;
    hosts.restart_fleet();
    hosts.answers().await;
    hosts.only_at(&vm, "hv-a").await;
    let before = counts_on(&hosts, &vm, before).await;

    // After all that it can still be moved.
    hosts
        .migrate(&vm, to("hv-b", "at last"))
        .await
        .expect("moved");
    hosts.only_at(&vm, "hv-b").await;
    counts_on(&hosts, &vm, before).await;

    // QEMU at the source dies, and its guest with it. The VM is where it was, off, and says why.
    let back = MigrateVm {
        bandwidth: Some(SLOW),
        ..to("hv-a", "last")
    };
    let id = hosts.sends(&vm, back).await;
    signal(hosts.b.pid(&vm), rustix::process::Signal::KILL);
    hosts.ended(Ok(Some(id))).await.expect_err("lost");
    let dead = |state: &VmState| state.power == PowerState::Off && !state.fault.is_empty();
    let state = hosts.until(&vm, "its end to be told", dead).await;
    assert_eq!(state.host, "hv-b");
    let on = hosts.fleet.power(&vm, PowerOp::On.into()).await;
    hosts.ended(on).await.expect("on");
    hosts.only_at(&vm, "hv-b").await;
}

/// A guest that starts by UEFI, with a disk beyond the first.
fn with_much_luggage() -> CreateVm {
    let mut wanted = desired("traveller", 1);
    wanted.class.firmware = Firmware::Uefi;
    wanted.disks = vec![DiskSpec {
        name: "data".to_owned(),
        size_gib: 1,
        ..DiskSpec::default()
    }];
    wanted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_and_variables_come_along_and_snapshots_are_not_lost() {
    let hosts = Hosts::start(MARKER).await;
    let vm = hosts.boots(on_first(with_much_luggage())).await;
    hosts.run(&vm, "test -d /sys/firmware/efi").await;
    hosts.run(&vm, "echo before > /dev/vdb; sync").await;
    // What is inside the disks would be lost, and is not.
    let taken = hosts
        .fleet
        .snapshot_create(&vm, SnapshotRequest::default())
        .await
        .expect("accepted");
    hosts.ended(Ok(taken.task)).await.expect("taken");
    let refused = hosts.migrate(&vm, to("hv-b", "r1")).await;
    let refused = refused.expect_err("it would be lost");
    assert_eq!(refused.kind, ErrorKind::Precondition, "{refused:?}");
    assert!(refused.message.contains("snapshots"), "{refused:?}");
    hosts.only_at(&vm, "hv-a").await;
    let deleted = hosts.fleet.snapshot_delete(&vm, &taken.id).await;
    hosts.ended(deleted).await.expect("deleted");

    let encrypted = MigrateVm {
        encrypted: true,
        ..to("hv-b", "r2")
    };
    hosts.migrate(&vm, encrypted).await.expect("moved");
    hosts.only_at(&vm, "hv-b").await;
    assert_eq!(hosts.run(&vm, "head -n 1 /dev/vdb").await, "before");
    hosts.run(&vm, "echo after > /dev/vdb; sync").await;
    // It starts from what has come along.
    let off = hosts.fleet.power(&vm, PowerOp::Off.into()).await;
    hosts.ended(off).await.expect("off");
    let on = hosts.fleet.power(&vm, PowerOp::On.into()).await;
    hosts.ended(on).await.expect("on");
    hosts
        .until(&vm, "the guest to be up", |state| !state.ips.is_empty())
        .await;
    hosts.run(&vm, "test -d /sys/firmware/efi").await;
    assert_eq!(hosts.run(&vm, "head -n 1 /dev/vdb").await, "after");
}
