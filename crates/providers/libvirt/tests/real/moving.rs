//! Guests that go on while they move, and what is left when somebody dies on the way.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    MigrateVm, MigrationMode, MigrationPhase, PowerOp, PowerState, PreparedImage, VmRef,
};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Extension, Result};
use polyvirt_provider_lab::Patience as _;
use polyvirt_provider_lab::counting::{MARKER, SLOW, count, counting, counts_on, to};

use crate::lab::next;
use crate::pair::{Pair, desired};

/// All states that a stream has told by now.
async fn told_by_now(stream: &mut BoxStream<'static, Result<VmEvent>>) -> Vec<VmEvent> {
    let mut all = Vec::new();
    let soon = Duration::from_millis(500);
    while let Ok(Some(event)) = tokio::time::timeout(soon, stream.next()).await {
        all.push(event.expect("goes on"));
    }
    all
}

/// Somebody stops it: it goes on where it was.
async fn stops_on_its_way(pair: &Pair, vm: &VmRef, before: u64) {
    let slow = MigrateVm {
        bandwidth: Some(SLOW),
        ..to("hv-b", "r5")
    };
    let id = pair.sends(vm, slow).await;
    let other = pair.provider.migrate(vm, to("hv-b", "r6")).await;
    assert_eq!(other.expect_err("one way").kind, ErrorKind::Precondition);
    let absent = pair.provider.cancel_migration(vm, &"r9".into()).await;
    assert_eq!(absent.expect_err("no such").kind, ErrorKind::NotFound);
    let stopped = pair.provider.cancel_migration(vm, &"r5".into()).await;
    stopped.expect("in time");
    let error = pair.ended(Ok(Some(id))).await.expect_err("stopped");
    assert_eq!(error.kind, ErrorKind::Cancelled, "{error:?}");
    pair.only_at(vm, "hv-a");
    counts_on(pair, vm, before).await;
}

/// Off, it goes as it is, and stays off; then it is deleted, and nothing is left.
async fn stays_off(pair: &Pair, vm: &VmRef) {
    let off = pair.provider.power(vm, PowerOp::Off.into()).await;
    pair.ended(off).await.expect("off");
    let cold = MigrateVm {
        mode: MigrationMode::Cold,
        ..to("hv-b", "r7")
    };
    pair.migrate(vm, cold).await.expect("moved");
    let state = pair.state(vm).await;
    assert_eq!(
        (state.host.as_str(), state.power),
        ("hv-b", PowerState::Off)
    );
    assert_eq!(pair.a.virsh(&["list", "--all", "--uuid"]), "");
    let gone = pair.provider.delete(vm).await;
    pair.ended(gone).await.expect("deleted");
    for host in [&pair.a, &pair.b] {
        let left = host.volumes("default");
        assert!(left.iter().all(|name| name.starts_with("img-")), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_goes_on_while_it_moves() {
    let pair = Pair::start(MARKER).await;
    let features = pair.provider.features().await.expect("told");
    assert!(features.has(Extension::Migrate));
    let vm = counting(&pair, desired("mover", 1, "default")).await;
    let before = count(&pair, &vm).await;
    let ips = pair.state(&vm).await.ips;
    let mut stream = pair.provider.watch().await.expect("watched");
    while next(&mut stream).await != VmEvent::Synced {}

    // In clear, with its disk.
    let begun = Instant::now();
    pair.migrate(&vm, to("hv-b", "r1")).await.expect("moved");
    println!("moved in {:?}", begun.elapsed());
    pair.only_at(&vm, "hv-b");
    let state = pair.state(&vm).await;
    assert_eq!((state.host.as_str(), state.power), ("hv-b", PowerState::On));
    assert_eq!(state.last_request, Some("r1".into()));
    // The guest may find itself more of them at any time.
    let known = ips.iter().all(|ip| state.ips.contains(ip));
    assert!(known, "where the guest is, is not forgotten: {state:?}");
    let before = counts_on(&pair, &vm, before).await;
    let (bytes, clear) = pair.to_b.asked();
    assert!(bytes > 20 << 20, "its memory went by the wire: {bytes}");
    assert!(clear, "the marker goes in clear");
    let told = told_by_now(&mut stream).await;
    let states: Vec<_> = told
        .iter()
        .filter_map(|event| match event {
            VmEvent::State(state) => Some((state.host.as_str(), state.power)),
            VmEvent::Gone { .. } => panic!("it was never gone: {told:?}"),
            _ => None,
        })
        .collect();
    assert!(
        states.iter().all(|(_, power)| *power == PowerState::On),
        "{states:?}"
    );
    assert_eq!(states.last(), Some(&("hv-b", PowerState::On)));
    assert!(
        states.is_sorted_by_key(|(host, _)| *host),
        "it moved once: {states:?}"
    );
    assert!(states.len() <= 6, "no storm: {states:?}");
    // The same request again does nothing, and neither does one to where it is.
    assert_eq!(pair.provider.migrate(&vm, to("hv-b", "r1")).await, Ok(None));
    assert_eq!(pair.provider.migrate(&vm, to("hv-b", "r2")).await, Ok(None));
    assert_eq!(pair.state(&vm).await.last_request, Some("r2".into()));

    // Encrypted, and to whatever other host there is.
    let encrypted = MigrateVm {
        encrypted: true,
        ..to("", "r3")
    };
    pair.migrate(&vm, encrypted).await.expect("moved");
    pair.only_at(&vm, "hv-a");
    let (bytes, clear) = pair.to_a.asked();
    assert!(bytes > 20 << 20, "its memory went by the wire: {bytes}");
    assert!(!clear, "no guest memory passes in clear");
    let before = counts_on(&pair, &vm, before).await;

    // Compressed.
    let plain = bytes;
    pair.to_b.asked();
    let compressed = MigrateVm {
        compression: true,
        ..to("hv-b", "smaller")
    };
    pair.migrate(&vm, compressed).await.expect("moved");
    pair.only_at(&vm, "hv-b");
    let (bytes, _) = pair.to_b.asked();
    println!("{bytes} bytes instead of {plain}");
    assert!(bytes < plain * 4 / 5, "{bytes} instead of {plain}");
    pair.to_a.asked();

    // No faster than allowed, and told how far it is.
    let limited = MigrateVm {
        bandwidth: Some(SLOW),
        ..to("hv-a", "r4")
    };
    let id = pair.sends(&vm, limited).await;
    let progress = pair.provider.migration_progress(&id).await.expect("told");
    println!("on its way: {progress:?}");
    assert_eq!(progress.source_host, "hv-b");
    assert_eq!(progress.target_host, "hv-a");
    assert!(matches!(
        progress.phase,
        MigrationPhase::Copying | MigrationPhase::Preparing
    ));
    pair.ended(Ok(Some(id.clone()))).await.expect("moved");
    let fastest = pair.to_a.fastest();
    println!("at most {} KiB/s on the wire", fastest >> 10);
    assert!(fastest < SLOW * 3 / 2, "{fastest} bytes a second");
    let progress = pair.provider.migration_progress(&id).await.expect("told");
    println!("arrived: {progress:?}");
    assert_eq!(progress.remaining_bytes, Some(0));
    assert!(progress.downtime.is_some_and(|time| !time.is_zero()));
    pair.only_at(&vm, "hv-a");
    let before = counts_on(&pair, &vm, before).await;

    stops_on_its_way(&pair, &vm, before).await;
    stays_off(&pair, &vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_on_the_way_leaves_one_guest() {
    let mut pair = Pair::start(MARKER).await;
    let vm = counting(&pair, desired("tough", 1, "default")).await;
    let slow = |request: &str| MigrateVm {
        bandwidth: Some(SLOW),
        ..to("hv-b", request)
    };

    // The wire is cut.
    let before = count(&pair, &vm).await;
    let id = pair.sends(&vm, slow("cut")).await;
    pair.wire.link("down");
    tokio::time::sleep(Duration::from_secs(8)).await;
    // Where a disk is being copied, libvirt holds the domain until TCP gives up or the link is back. The guest goes on.
    let runs = pair.a.virsh(&["list", "--state-running", "--uuid"]);
    assert!(runs.contains(vm.id.as_str()), "{runs}");
    pair.wire.link("up");
    let error = pair.ended(Ok(Some(id))).await.expect_err("cut");
    println!("link cut: {error}");
    assert_eq!(error.kind, ErrorKind::Timeout, "{error:?}");
    pair.only_at(&vm, "hv-a");
    let before = counts_on(&pair, &vm, before).await;

    // The target's daemon dies.
    let id = pair.sends(&vm, slow("target")).await;
    pair.b.kill();
    pair.until(&vm, "the guest to go on", |s| s.power == PowerState::On)
        .await;
    let before = counts_on(&pair, &vm, before).await;
    pair.b.run();
    let error = pair.ended(Ok(Some(id))).await.expect_err("lost");
    println!("target died: {error}");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
    pair.only_at(&vm, "hv-a");

    // The source's daemon dies.
    let id = pair.sends(&vm, slow("source")).await;
    pair.a.kill();
    pair.a.run();
    let error = pair.ended(Ok(Some(id))).await.expect_err("lost");
    println!("source died: {error}");
    pair.until(&vm, "the guest to go on", |s| s.power == PowerState::On)
        .await;
    pair.only_at(&vm, "hv-a");
    let before = counts_on(&pair, &vm, before).await;

    // The provider dies.
    pair.sends(&vm, slow("provider")).await;
    pair.restart().await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while pair
        .a
        .virsh(&["dumpxml", "--inactive", "tough"])
        .contains("polyvirt:move")
    {
        assert!(Instant::now() < deadline, "it is never settled");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    pair.only_at(&vm, "hv-a");
    let before = counts_on(&pair, &vm, before).await;

    // After all that it can still be moved.
    pair.migrate(&vm, to("hv-b", "at last"))
        .await
        .expect("moved");
    pair.only_at(&vm, "hv-b");
    counts_on(&pair, &vm, before).await;
}

/// A VM on the storage that both hosts have, which is off.
async fn shared_and_off(pair: &Pair, name: &str, number: u32) -> VmRef {
    let desired = crate::pair::desired(name, number, "shared");
    let created = pair.provider.create(desired.clone()).await;
    let created = created.expect("accepted");
    pair.ended(Ok(created.task)).await.expect("made");
    VmRef {
        id: created.id,
        owner: desired.owner,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_is_kept_as_long_as_any_host_needs_it() {
    let pair = Pair::start("").await;
    let vm = shared_and_off(&pair, "needs", 1).await;
    let image = PreparedImage {
        id: pair.state(&vm).await.details["image"].as_str().into(),
        ..PreparedImage::default()
    };
    let cold = MigrateVm {
        mode: MigrationMode::Cold,
        ..to("hv-b", "r1")
    };
    pair.migrate(&vm, cold).await.expect("moved");
    assert_eq!(pair.state(&vm).await.host, "hv-b");
    let error = pair.provider.image_delete(&image).await;
    let error = error.expect_err("its disk is above the image");
    assert_eq!(error.kind, ErrorKind::Precondition, "{error:?}");
    let on = pair.provider.power(&vm, PowerOp::On.into()).await;
    pair.ended(on).await.expect("the image is there");
    let gone = pair.provider.delete(&vm).await;
    pair.ended(gone).await.expect("deleted");
    pair.provider.image_delete(&image).await.expect("unused");
    let left = std::fs::read_dir(pair.shared.path())
        .expect("there")
        .count();
    assert_eq!(left, 0, "nothing is left on the storage");
}

/// As a provider leaves a VM that dies in mid-move.
fn on_its_way(pair: &Pair, vm: &VmRef, host: &str) {
    let uri = "https://polyvirt.io/schema/libvirt/1";
    let id = vm.id.as_str();
    let text = pair.a.virsh(&["metadata", "--config", id, uri]);
    let moving = format!("<move to=\"{host}\" was=\"on\"/></vm>");
    let marked = text.replace("</vm>", &moving);
    assert_ne!(marked, text, "the marks have another form now");
    let set = [
        "metadata", "--config", id, uri, "--key", "polyvirt", "--set", &marked,
    ];
    pair.a.virsh(&set);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_on_its_way_to_a_host_that_was_taken_out_says_what_to_do() {
    let mut pair = Pair::start("").await;
    let runs = shared_and_off(&pair, "runs", 1).await;
    let waits = shared_and_off(&pair, "waits", 2).await;
    for vm in [&runs, &waits] {
        let on = pair.provider.power(vm, PowerOp::On.into()).await;
        pair.ended(on).await.expect("on");
        on_its_way(&pair, vm, "hv-c");
    }
    pair.a.virsh(&["suspend", waits.id.as_str()]);

    // One that runs here runs nowhere else; one that stands still may.
    pair.restart_with("").await;
    pair.until(&runs, "it to be settled", |_| !marked(&pair, &runs))
        .await;
    let state = pair
        .until(&waits, "its trouble", |state| !state.fault.is_empty())
        .await;
    println!("{}", state.fault);
    assert!(state.fault.contains("lostHosts=hv-c"), "{}", state.fault);
    assert!(marked(&pair, &waits));

    // Somebody says that the other host is lost.
    pair.restart_with("&lostHosts=hv-c").await;
    let state = pair
        .until(&waits, "it to go on", |_| !marked(&pair, &waits))
        .await;
    assert_eq!((state.power, state.fault.as_str()), (PowerState::On, ""));
    let running = pair.a.virsh(&["list", "--state-running", "--uuid"]);
    assert!(running.contains(waits.id.as_str()), "{running}");
}

fn marked(pair: &Pair, vm: &VmRef) -> bool {
    let xml = pair.a.virsh(&["dumpxml", "--inactive", vm.id.as_str()]);
    xml.contains("polyvirt:move")
}
