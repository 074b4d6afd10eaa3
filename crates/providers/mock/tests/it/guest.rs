use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use polyvirt_contract::model::{
    ConsoleKind, CreateVm, ExecOutput, ExecRequest, PowerOp, UserData, VmRef,
};
use polyvirt_contract::{ErrorKind, Provider, Result};
use polyvirt_provider_mock::Mock;

use crate::common::{SECOND, created, created_as, for_another, manual, now, power, request, with};

fn command(words: &[&str]) -> ExecRequest {
    ExecRequest {
        command: words.iter().map(ToString::to_string).collect(),
        stdin: Bytes::from("from stdin"),
        timeout: 10 * SECOND,
    }
}

fn exec(mock: &Mock, vm: &VmRef, words: &[&str]) -> Result<ExecOutput> {
    now(mock.guest_exec(vm, command(words)))
}

fn running() -> (Arc<Mock>, VmRef) {
    let mock = manual();
    let vm = created_as(
        &mock,
        CreateVm {
            user_data: Some(UserData::CloudInit("#cloud-config\n".into())),
            meta_data: "local-hostname: web-1\n".into(),
            ..request("a")
        },
    );
    power(&mock, &vm, PowerOp::On).expect("started");
    (mock, vm)
}

#[test]
fn a_guest_knows_a_handful_of_commands() {
    let (mock, vm) = running();
    for (words, code, output) in [
        (&["echo", "a", "b"][..], 0, "a b\n"),
        (&["hostname"], 0, "web-1\n"),
        (&["cat"], 0, "from stdin"),
        (&["cat", "/etc/hostname"], 0, "web-1\n"),
        (
            &["cat", "/var/lib/cloud/seed/nocloud/user-data"],
            0,
            "#cloud-config\n",
        ),
        (
            &["cat", "/var/lib/cloud/seed/nocloud/network-config"],
            1,
            "",
        ),
        (&["true"], 0, ""),
        (&["false"], 1, ""),
    ] {
        let found = exec(&mock, &vm, words).expect("ran");
        assert_eq!(
            (found.exit_code, &found.stdout[..]),
            (code, output.as_bytes()),
            "{words:?}"
        );
    }
    let unknown = exec(&mock, &vm, &["systemctl"]).expect("ran");
    assert_eq!(unknown.exit_code, 127);
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("hostname"),
        "tells what there is"
    );
}

#[test]
fn only_a_guest_that_is_up_and_ours_runs_commands() {
    let (mock, vm) = running();
    let error = exec(&mock, &for_another(&vm), &["true"]).expect_err("not ours");
    assert_eq!(error.kind, ErrorKind::IdentityConflict);
    power(&mock, &vm, PowerOp::Off).expect("stopped");
    let error = exec(&mock, &vm, &["true"]).expect_err("off");
    assert_eq!(error.kind, ErrorKind::Precondition);
}

#[test]
fn a_command_may_take_its_time_but_not_more() {
    let (mock, vm) = running();
    let mut short = mock.guest_exec(&vm, command(&["sleep", "5"]));
    let mut long = mock.guest_exec(&vm, command(&["sleep", "50"]));
    assert!((&mut short).now_or_never().is_none());
    assert!((&mut long).now_or_never().is_none());
    mock.advance(5 * SECOND);
    assert_eq!(now(short), Ok(ExecOutput::default()));
    mock.advance(5 * SECOND);
    assert_eq!(now(long).expect_err("too long").kind, ErrorKind::Timeout);
    mock.faults().hang_guest(&vm.id).expect("there");
    let mut hung = mock.guest_exec(&vm, command(&["true"]));
    assert!((&mut hung).now_or_never().is_none());
    mock.advance(10 * SECOND);
    assert_eq!(now(hung).expect_err("hangs").kind, ErrorKind::Timeout);
}

#[test]
fn the_console_shows_the_boot_echoes_and_ends_with_the_vm() {
    let (mock, vm) = running();
    let mut session = now(mock.console(&vm, ConsoleKind::Serial)).expect("attached");
    let boot = now(session.output.next()).expect("a line").expect("bytes");
    assert!(String::from_utf8_lossy(&boot).contains("boot 1 of web-1"));
    now(session.input.send(Bytes::from("hostname\r"))).expect("typed");
    let shown = now(session.output.next()).expect("a line").expect("bytes");
    assert_eq!(
        String::from_utf8_lossy(&shown),
        "hostname\r\nweb-1\r\nweb-1# "
    );
    assert!(session.output.next().now_or_never().is_none());
    power(&mock, &vm, PowerOp::Off).expect("stopped");
    assert!(now(session.output.next()).is_none());
}

#[test]
fn the_console_shows_also_a_guest_that_boots() {
    let mock = with(|config| config.times.boot = SECOND);
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("started");
    assert_eq!(
        exec(&mock, &vm, &["true"]).expect_err("boots").kind,
        ErrorKind::Precondition
    );
    let mut session = now(mock.console(&vm, ConsoleKind::Serial)).expect("attached");
    assert!(now(session.output.next()).is_some());
}

#[test]
fn there_is_no_screen_and_no_console_of_a_stopped_vm() {
    let mock = manual();
    let vm = created(&mock, "a");
    let error = now(mock.console(&vm, ConsoleKind::Serial)).expect_err("off");
    assert_eq!(error.kind, ErrorKind::Precondition);
    let error = now(mock.console(&vm, ConsoleKind::Vnc)).expect_err("none");
    assert_eq!(error.kind, ErrorKind::Unsupported);
}
