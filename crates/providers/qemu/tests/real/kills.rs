//! QEMU is killed, or its VM is deleted, while something is under way. What is told afterwards is true, and nothing is left.
//! No guest boots here.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use polyvirt_contract::model::{
    PowerOp, PowerState, SnapshotContents, SnapshotRequest, VmRef, VmState,
};
use polyvirt_contract::{ErrorKind, Provider as _};
use rustix::process::Signal;

use crate::lab::{Lab, blank_image, desired, runs, signal, stand_in};

/// A stand-in that hangs instead of coming up, as long as the file `hang` lies beside it.
const HANGS: &str = r#"case "$*" in *-uuid*) if test -e "$LOG.hang"; then echo $$ >>"$LOG"; exec sleep 600; fi;; esac; exec qemu-system-x86_64 "$@""#;

async fn lab(max_starts: usize) -> Lab {
    let folder = tempfile::tempdir().expect("a folder");
    let emulator = stand_in(folder.path(), "qemu", HANGS);
    Lab::tuned(folder, |config| {
        config.max_starts = max_starts;
        config.emulator = emulator;
    })
    .await
}

fn hang(lab: &Lab) {
    std::fs::write(lab.folder.path().join("qemu.log.hang"), "").expect("written");
}

fn no_longer_hang(lab: &Lab) {
    std::fs::remove_file(lab.folder.path().join("qemu.log.hang")).expect("there");
}

/// The process of the stand-in that hangs.
async fn hanging(folder: &Path) -> i32 {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = std::fs::read_to_string(folder.join("qemu.log")).expect("there");
        if let Some(pid) = text.lines().last() {
            return pid.parse().expect("a number");
        }
        assert!(Instant::now() < deadline, "QEMU was not started");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn blank(lab: &Lab, name: &str, number: u32) -> VmRef {
    let mut wanted = desired(name, number);
    wanted.class.memory_mib = 16;
    wanted.image = blank_image(lab.folder.path());
    lab.create(&wanted).await
}

fn is_off(state: &VmState) -> bool {
    state.power == PowerState::Off
}

fn request(name: &str) -> SnapshotRequest {
    SnapshotRequest {
        name_hint: name.to_owned(),
        contents: SnapshotContents::DisksAndMemory,
        ..SnapshotRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_qemu_that_is_killed_at_any_stage_leaves_a_true_state() {
    let lab = lab(4).await;
    let vm = blank(&lab, "killed", 300).await;
    killed_while_it_starts(&lab, &vm).await;
    killed_while_it_stops(&lab, &vm).await;
    killed_while_the_guest_is_asked(&lab, &vm).await;
    killed_in_a_snapshot(&lab, &vm).await;
    lab.delete(&vm).await;
}

async fn killed_while_it_starts(lab: &Lab, vm: &VmRef) {
    hang(lab);
    let kill = async {
        let pid = hanging(lab.folder.path()).await;
        signal(pid, Signal::KILL);
        pid
    };
    let (answer, pid) = tokio::join!(lab.provider.power(vm, PowerOp::On.into()), kill);
    let error = answer.expect_err("it did not come up");
    assert!(error.message.contains("signal 9"), "{error}");
    assert!(!runs(pid));
    let state = lab.state(vm).await;
    assert!(
        is_off(&state) && state.fault.contains("signal 9"),
        "{state:?}"
    );
    // The same failure once more is no news.
    let revision = state.revision;
    std::fs::write(lab.folder.path().join("qemu.log"), "").expect("emptied");
    let kill = async { signal(hanging(lab.folder.path()).await, Signal::KILL) };
    let (answer, ()) = tokio::join!(lab.provider.power(vm, PowerOp::On.into()), kill);
    assert!(answer.is_err());
    assert_eq!(lab.state(vm).await.revision, revision);
    no_longer_hang(lab);
    lab.power(vm, PowerOp::On).await;
    let state = lab.state(vm).await;
    assert_eq!((state.power, state.fault.as_str()), (PowerState::On, ""));
}

/// A QEMU that stands still hears nothing; so the kill comes while the end is being asked for.
async fn killed_while_it_stops(lab: &Lab, vm: &VmRef) {
    let pid = lab.pid(vm);
    signal(pid, Signal::STOP);
    let kill = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        signal(pid, Signal::KILL);
    };
    let (answer, ()) = tokio::join!(lab.provider.power(vm, PowerOp::Off.into()), kill);
    lab.done(answer).await;
    let state = lab.state(vm).await;
    assert_eq!((state.power, state.fault.as_str()), (PowerState::Off, ""));
    assert!(!runs(pid));
}

async fn killed_while_the_guest_is_asked(lab: &Lab, vm: &VmRef) {
    lab.power(vm, PowerOp::On).await;
    let pid = lab.pid(vm);
    let shutdown = PowerOp::ShutdownGraceful {
        timeout: Duration::from_secs(120),
    };
    let kill = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        signal(pid, Signal::KILL);
    };
    let (answer, ()) = tokio::join!(lab.provider.power(vm, shutdown.into()), kill);
    lab.done(answer).await;
    let state = lab.until(vm, "the end", is_off).await;
    assert!(state.fault.contains("signal 9"), "{state:?}");
}

async fn killed_in_a_snapshot(lab: &Lab, vm: &VmRef) {
    lab.power(vm, PowerOp::On).await;
    let pid = lab.pid(vm);
    signal(pid, Signal::STOP);
    let kill = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        signal(pid, Signal::KILL);
    };
    let taken = lab.provider.snapshot_create(vm, request("cut"));
    let (answer, ()) = tokio::join!(taken, kill);
    assert_eq!(answer.expect_err("cut short").kind, ErrorKind::Unavailable);
    let state = lab.until(vm, "the end", is_off).await;
    assert!(state.fault.contains("signal 9"), "{state:?}");
    assert!(!state.details.contains_key("snapshots"), "{state:?}");
    let again = lab
        .provider
        .snapshot_create(vm, request("cut"))
        .await
        .expect("taken");
    lab.done(Ok(again.task)).await;
    assert_eq!(lab.state(vm).await.details["snapshots"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_is_deleted_while_something_is_under_way() {
    let lab = lab(1).await;
    let (first, second) = (
        blank(&lab, "first", 310).await,
        blank(&lab, "second", 311).await,
    );
    lab.power(&first, PowerOp::On).await;
    while_it_waits_for_its_start(&lab, &second).await;
    in_a_snapshot(&lab, &first).await;
    let third = blank(&lab, "third", 312).await;
    while_it_starts(&lab, &third).await;
    let vms = std::fs::read_dir(lab.folder.path().join("state/vms")).expect("listed");
    assert_eq!(vms.count(), 0, "nothing is left behind");
}

/// The other one has the only place, and keeps it for a while.
async fn while_it_waits_for_its_start(lab: &Lab, vm: &VmRef) {
    let delete = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        lab.delete(vm).await;
    };
    let (answer, ()) = tokio::join!(lab.provider.power(vm, PowerOp::On.into()), delete);
    let error = answer.expect_err("it is not started any more");
    assert_eq!(error.kind, ErrorKind::Precondition, "{error}");
}

async fn in_a_snapshot(lab: &Lab, vm: &VmRef) {
    let pid = lab.pid(vm);
    signal(pid, Signal::STOP);
    let delete = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let deleting = lab.provider.delete(vm);
        let go_on = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            signal(pid, Signal::CONT);
        };
        let (answer, ()) = tokio::join!(deleting, go_on);
        lab.done(answer).await;
    };
    let (taken, ()) = tokio::join!(lab.provider.snapshot_create(vm, request("last")), delete);
    taken.expect("it was whole before the VM went");
    assert!(!runs(pid), "a process is left behind");
    assert!(!lab.vm_folder(vm).exists());
}

async fn while_it_starts(lab: &Lab, vm: &VmRef) {
    hang(lab);
    let delete = async {
        let pid = hanging(lab.folder.path()).await;
        let deleting = lab.provider.delete(vm);
        let end = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            signal(pid, Signal::KILL);
        };
        let (answer, ()) = tokio::join!(deleting, end);
        lab.done(answer).await;
        pid
    };
    let (answer, pid) = tokio::join!(lab.provider.power(vm, PowerOp::On.into()), delete);
    answer.expect_err("it did not come up");
    assert!(!runs(pid), "a process is left behind");
    assert!(!lab.vm_folder(vm).exists());
    no_longer_hang(lab);
}

/// A QEMU of the VM that has come as far as its pid file, as one whose provider died at that moment.
async fn stray(lab: &Lab, vm: &VmRef) -> std::process::Child {
    let file = lab.vm_folder(vm).join("run/qemu.pid");
    let child = std::process::Command::new("qemu-system-x86_64")
        .args(["-machine", "none", "-nodefaults", "-display", "none", "-S"])
        .args(["-uuid", vm.id.as_str()])
        .arg("-pidfile")
        .arg(&file)
        .spawn()
        .expect("started");
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(&file)
        .unwrap_or_default()
        .is_empty()
    {
        assert!(Instant::now() < deadline, "it does not come up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // QEMU may run as another user than the test.
    std::fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("ours");
    child
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_qemu_of_a_dead_provider_that_had_not_come_up_is_ended_by_the_next_start() {
    let lab = lab(2).await;
    let vm = blank(&lab, "stray", 90).await;
    let mut stray = stray(&lab, &vm).await;
    lab.power(&vm, PowerOp::On).await;
    let state = lab.state(&vm).await;
    assert_eq!((state.power, state.fault.as_str()), (PowerState::On, ""));
    assert!(!stray.wait().expect("ended").success(), "it was killed");
    lab.delete(&vm).await;
}
