//! From nothing to nothing: create, boot, a restart of the provider, a crash of QEMU, delete.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use polyvirt_contract::model::{
    ConsoleKind, ConsoleSession, PowerOp, PowerRequest, PowerState, UserData,
};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{Provider as _, RequestId};

use crate::lab::{Lab, desired, next, told};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_lives_and_outlives_its_provider() {
    let mut lab = Lab::new().await;
    let mut wanted = desired("life", 1);
    let script = Bytes::from_static(b"#!/bin/sh\necho first-boot > /run/marker\n");
    wanted.user_data = Some(UserData::CloudInit(script));
    let vm = lab.create(&wanted).await;
    assert_eq!(vm.id.as_str(), "0a1b2c3d-0000-4000-8000-000000000001");
    assert_eq!(lab.create(&wanted).await, vm, "create is find or create");
    assert_eq!(lab.state(&vm).await.power, PowerState::Off);

    let mut stream = lab.watch().await;
    lab.power(&vm, PowerOp::On).await;
    told(&mut stream, |state| state.power == PowerState::On).await;
    let mut console = lab
        .provider
        .console(&vm, ConsoleKind::Serial)
        .await
        .expect("attached");
    read_until(&mut console, "GUEST ready").await;
    let state = lab.up(&vm).await;
    assert_eq!(state.ips, ["10.0.2.15"]);
    assert_eq!(state.details["hostname"], "life");
    assert_eq!(lab.run(&vm, "cat /run/marker").await, "first-boot");

    let mut screen = lab
        .provider
        .console(&vm, ConsoleKind::Vnc)
        .await
        .expect("attached");
    read_until(&mut screen, "RFB 003").await;
    drop(screen);

    survives_a_restart(&mut lab, &vm).await;
    is_reset_once(&lab, &vm).await;
    a_crash_is_told(&lab, &vm).await;

    assert!(!lab.vm_folder(&vm).exists(), "the folder is left behind");
    let gone = lab.provider.delete(&vm).await.expect_err("gone");
    assert_eq!(gone.kind, polyvirt_contract::ErrorKind::NotFound);
}

async fn read_until(console: &mut ConsoleSession, word: &str) {
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains(word) {
        let piece = tokio::time::timeout(Duration::from_secs(120), console.output.next()).await;
        let piece = piece.expect("in time").expect("goes on").expect("bytes");
        said.extend_from_slice(&piece);
    }
}

async fn survives_a_restart(lab: &mut Lab, vm: &polyvirt_contract::model::VmRef) {
    let (pid, before) = (lab.pid(vm), lab.state(vm).await);
    lab.restart().await;
    assert_eq!(lab.pid(vm), pid, "QEMU goes on");
    let after = lab.up(vm).await;
    assert!(after.revision > before.revision);
    assert_eq!(after.owner, before.owner);
    let identity = &vm.owner.as_ref().expect("owned").identity;
    let found = lab
        .provider
        .find(identity)
        .await
        .expect("answers")
        .expect("there");
    assert_eq!(found.id, vm.id);
    // The console of the new life hears the same guest.
    let mut console = lab
        .provider
        .console(vm, ConsoleKind::Serial)
        .await
        .expect("attached");
    // What it said before that is still known.
    read_until(&mut console, "GUEST ready").await;
    console
        .input
        .send(Bytes::from_static(b"echo a-word-$((40+2))\n"))
        .await
        .expect("sent");
    read_until(&mut console, "a-word-42").await;
}

async fn is_reset_once(lab: &Lab, vm: &polyvirt_contract::model::VmRef) {
    let boots = || lab.run(vm, "cat /data/boots");
    let before: u32 = boots().await.parse().expect("a number");
    let reboot = PowerRequest {
        op: PowerOp::Reboot,
        request: Some(RequestId::from("reboot-1")),
    };
    lab.done(lab.provider.power(vm, reboot.clone()).await).await;
    lab.until(vm, "the guest to go down", |state| state.ips.is_empty())
        .await;
    lab.up(vm).await;
    lab.done(lab.provider.power(vm, reboot).await).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(boots().await.parse(), Ok(before + 1));
}

async fn a_crash_is_told(lab: &Lab, vm: &polyvirt_contract::model::VmRef) {
    let mut stream = lab.watch().await;
    let pid = rustix::process::Pid::from_raw(lab.pid(vm)).expect("a process");
    let killed = Instant::now();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    let state = told(&mut stream, |state| state.power == PowerState::Off).await;
    assert!(
        killed.elapsed() < Duration::from_secs(1),
        "{:?}",
        killed.elapsed()
    );
    assert!(state.fault.contains("QEMU ended"), "{}", state.fault);
    lab.power(vm, PowerOp::On).await;
    assert_eq!(
        lab.state(vm).await.fault,
        "",
        "a VM that runs again has no fault"
    );
    let deleting = lab.provider.delete(vm);
    let (deleted, ()) = tokio::join!(deleting, async {
        while !matches!(next(&mut stream).await, VmEvent::Gone { .. }) {}
    });
    lab.done(deleted).await;
}
