//! The manners in which a guest can be moved: slowed down, fetched afterwards, standing still, with UEFI and a TPM.

use std::time::{Duration, Instant};

use polyvirt_contract::ErrorKind;
use polyvirt_contract::model::{
    Firmware, MigrateVm, MigrationMode, MigrationPhase, PowerOp, PowerState, SecurityProfile, VmRef,
};
use polyvirt_contract::watch::TaskState;
use polyvirt_provider_lab::Patience as _;
use polyvirt_provider_lab::counting::{MARKER, SLOW, count, counter, counting, counts_on, to};

use crate::pair::{Pair, desired};

const PATIENCE: Duration = Duration::from_secs(300);

/// Has the guest write more than can be sent, again and again.
async fn busy(pair: &Pair, vm: &VmRef) {
    let script = "(while :; do dd if=/dev/urandom of=/run/busy bs=1M count=24 conv=notrunc 2>/dev/null; done) </dev/null >/dev/null 2>&1 & echo begun";
    assert_eq!(pair.run(vm, script).await, "begun");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_writes_too_fast_goes_on_and_fetches_the_rest() {
    let pair = Pair::start("").await;
    let vm = counting(&pair, desired("fetcher", 1, "shared")).await;
    busy(&pair, &vm).await;
    let before = count(&pair, &vm).await;
    let request = MigrateVm {
        post_copy: true,
        bandwidth: Some(4 * SLOW),
        ..to("hv-b", "r1")
    };
    let answer = pair.provider.migrate(&vm, request).await;
    let id = answer.expect("accepted").expect("a task");
    let deadline = Instant::now() + PATIENCE;
    let mut fetched = false;
    loop {
        let progress = pair.provider.migration_progress(&id).await.expect("told");
        if progress.phase == MigrationPhase::Fetching && !fetched {
            fetched = true;
            // From here on there is no way back.
            let late = pair.provider.cancel_migration(&vm, &"r1".into()).await;
            assert_eq!(late.expect_err("too late").kind, ErrorKind::Precondition);
        }
        match pair.provider.task_status(&id).await.expect("known") {
            TaskState::Succeeded => break,
            TaskState::Failed(error) => panic!("{error:?}"),
            TaskState::Running { .. } => assert!(Instant::now() < deadline, "{progress:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = pair.b.virsh(&["domjobinfo", vm.id.as_str(), "--completed"]);
    println!("{told}");
    println!("{:?}", pair.provider.migration_progress(&id).await);
    assert!(fetched, "it never fetched");
    pair.runs_only_at(&vm, "hv-b");
    counts_on(&pair, &vm, before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_writes_too_fast_is_slowed_down() {
    let pair = Pair::start("").await;
    let vm = counting(&pair, desired("slowed", 1, "shared")).await;
    busy(&pair, &vm).await;
    let before = count(&pair, &vm).await;
    let request = MigrateVm {
        auto_converge: true,
        bandwidth: Some(2 * SLOW),
        ..to("hv-b", "r1")
    };
    let answer = pair.provider.migrate(&vm, request).await;
    let id = answer.expect("accepted").expect("a task");
    let deadline = Instant::now() + PATIENCE;
    let mut throttle = 0_u32;
    while let TaskState::Running { .. } = pair.provider.task_status(&id).await.expect("known") {
        let told = pair
            .a
            .try_virsh(&["domjobinfo", vm.id.as_str()])
            .unwrap_or_default();
        let line = told
            .lines()
            .find_map(|line| line.strip_prefix("Auto converge throttle:"));
        let now = line.and_then(|line| line.trim().parse().ok()).unwrap_or(0);
        throttle = throttle.max(now);
        assert!(Instant::now() < deadline, "it never arrives: {told}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    pair.ended(Ok(Some(id))).await.expect("moved");
    println!("slowed down by {throttle} %");
    assert!(throttle > 0, "it was not slowed down");
    pair.runs_only_at(&vm, "hv-b");
    counts_on(&pair, &vm, before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uefi_and_a_tpm_go_along_with_a_guest_that_runs() {
    let pair = Pair::start(MARKER).await;
    let mut modern = desired("modern", 1, "default");
    modern.class.firmware = Firmware::Uefi;
    modern.class.security = Some(SecurityProfile {
        tpm: true,
        ..SecurityProfile::default()
    });
    let vm = pair.boots(modern).await;
    assert_eq!(pair.run(&vm, &counter()).await, "begun");
    let variables = "ls /sys/firmware/efi/vars /sys/firmware/efi/efivars 2>/dev/null | wc -l; test -d /sys/firmware/efi && echo efi";
    let told = pair.run(&vm, variables).await;
    let before = count(&pair, &vm).await;
    pair.migrate(&vm, to("hv-b", "r1")).await.expect("moved");
    pair.only_at(&vm, "hv-b");
    let before = counts_on(&pair, &vm, before).await;
    assert_eq!(pair.run(&vm, variables).await, told);
    // It starts again from the variables that came along.
    let again = pair.provider.power(&vm, PowerOp::Reboot.into()).await;
    pair.ended(again).await.expect("reboots");
    pair.until(&vm, "the guest to boot again", |state| state.ips.is_empty())
        .await;
    pair.until(&vm, "the guest to be up", |state| !state.ips.is_empty())
        .await;
    assert_eq!(pair.run(&vm, "cat /data/boots").await, "2");

    // Standing still it goes too, compressed and limited.
    assert_eq!(pair.run(&vm, &counter()).await, "begun");
    let cold = MigrateVm {
        mode: MigrationMode::Cold,
        compression: true,
        bandwidth: Some(4 * SLOW),
        ..to("hv-a", "r2")
    };
    pair.migrate(&vm, cold).await.expect("moved");
    pair.only_at(&vm, "hv-a");
    counts_on(&pair, &vm, 0).await;
    println!("counted before: {before}");

    // Off, what lies outside of all pools would stay behind.
    let off = pair.provider.power(&vm, PowerOp::Off.into()).await;
    pair.ended(off).await.expect("off");
    let cold = MigrateVm {
        mode: MigrationMode::Cold,
        ..to("hv-b", "r3")
    };
    let error = pair.migrate(&vm, cold).await.expect_err("left behind");
    println!("{error}");
    assert_eq!(error.kind, ErrorKind::Precondition);
    assert!(
        error.message.contains("UEFI variables or its TPM"),
        "{error}"
    );
    assert_eq!(pair.state(&vm).await.power, PowerState::Off);
    let gone = pair.provider.delete(&vm).await;
    pair.ended(gone).await.expect("deleted");
}
