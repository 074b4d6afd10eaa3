//! What is to be done around start and stop is done then, told, and decides whether the VM goes on.

use std::sync::Arc;

use polyvirt_api::infra::{PowerState, VMSnapshot, VirtualMachine};
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Mock, MockConfig, Rpc};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{Duration, Instant, sleep};

use crate::snapshots::{calls, is_ready, on};
use crate::support::events::Told;
use crate::support::look::runs;
use crate::support::world::{Manifest, PATIENCE};
use crate::support::{World, message, reason, vm};

fn with_hooks(lifecycle: Value) -> Manifest<VirtualMachine> {
    vm("web").spec(json!({ "lifecycle": lifecycle }))
}

fn is_off(vm: &VirtualMachine) -> bool {
    let status = vm.status.clone().unwrap_or_default();
    status.power_state == Some(PowerState::Off) && status.operation.is_none()
}

/// Nothing is written of hooks when all is as declared.
fn at_rest(vm: &VirtualMachine) -> bool {
    runs(vm) && vm.status.as_ref().is_some_and(|s| s.hooks.is_none())
}

async fn world(topic: &str) -> (World, Arc<Mock>) {
    World::furnished(topic, MockConfig::default()).await
}

#[tokio::test]
async fn commands_are_run_after_the_start_and_before_the_stop_and_their_word_is_told() {
    let (mut world, mock) = world("hook-exec").await;
    let hooks = json!({
        "postStart": {"exec": {"command": ["echo", "hello"]}},
        "preStop": {"exec": {"command": ["echo", "good", "bye"]}},
    });
    world.create(with_hooks(hooks)).await;
    world.vm("web", "runs and rests", at_rest).await;
    let told = world.told("web", Reason::HookSucceeded).await;
    assert_eq!(told.note, "spec.lifecycle.postStart: hello");
    assert_eq!(calls(&mock, Rpc::GuestExec), 1);
    world.stop().await;
    world.start().await;
    world
        .edit_spec("web", json!({"resources": {"cpu": 1}}))
        .await;
    world.vm("web", "runs and rests", at_rest).await;
    assert_eq!(
        calls(&mock, Rpc::GuestExec),
        1,
        "once for one start, whatever else happens"
    );
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    world.vm("web", "is off", is_off).await;
    assert_eq!(calls(&mock, Rpc::GuestExec), 2);
    let is_told = |e: &Told| e.note == "spec.lifecycle.preStop: good bye";
    let deadline = Instant::now() + PATIENCE;
    while !world.events("web").await.iter().any(is_told) {
        assert!(Instant::now() < deadline, "its last word is not told");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_stop_is_not_kept_by_a_command_that_fails_unless_it_is_to_be() {
    let (world, mock) = world("hook-fail").await;
    let strict = json!({"preStop": {"exec": {"command": ["false"]}, "failurePolicy": "Fail"}});
    world.create(with_hooks(strict)).await;
    world.vm("web", "runs", runs).await;
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    let kept = |vm: &VirtualMachine| reason(vm) == Reason::HookFailed.as_str();
    let vm = world.vm("web", "is kept", kept).await;
    assert!(
        message(&vm).contains("ended with code 1"),
        "{}",
        message(&vm)
    );
    assert_eq!(calls(&mock, Rpc::GuestExec), 3, "tried three times");
    assert!(!is_off(&vm));
    let lax = json!({"lifecycle": {"preStop": {"failurePolicy": "Ignore"}}});
    world.edit_spec("web", lax).await;
    world.vm("web", "is off", is_off).await;
    assert!(world.told("web", Reason::HookFailed).await.warning);
}

#[tokio::test]
async fn a_vm_that_is_deleted_is_not_kept_by_its_hook() {
    let (world, mock) = world("hook-delete").await;
    let strict = json!({"preStop": {"exec": {"command": ["false"]}, "failurePolicy": "Fail"}});
    world.create(with_hooks(strict)).await;
    world.vm("web", "runs", runs).await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert_eq!((calls(&mock, Rpc::GuestExec), mock.vms().len()), (3, 0));
}

#[tokio::test]
async fn a_command_before_the_start_keeps_the_vm_off_and_says_why() {
    let (world, mock) = world("hook-early").await;
    let early = json!({"preStart": {"exec": {"command": ["true"]}}});
    world.create(with_hooks(early)).await;
    let kept = |vm: &VirtualMachine| reason(vm) == Reason::HookFailed.as_str();
    let vm = world.vm("web", "is kept off", kept).await;
    assert!(
        message(&vm).starts_with("spec.lifecycle.preStart: "),
        "{}",
        message(&vm)
    );
    assert_eq!(calls(&mock, Rpc::Power), 0);
    world
        .edit_spec("web", json!({"lifecycle": {"preStart": null}}))
        .await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_snapshot_is_taken_before_the_vm_stops() {
    let (world, mock) = world("hook-snap").await;
    let hooks = json!({"preStop": {"snapshot": {"name": "last"}}});
    world.create(with_hooks(hooks)).await;
    world.vm("web", "runs", runs).await;
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    world.vm("web", "is off", is_off).await;
    let all: Vec<VMSnapshot> = world.list().await;
    assert_eq!((all.len(), on(&mock).len()), (1, 1));
    let name = all[0].metadata.name.clone().expect("a name");
    assert!(name.starts_with("web-last-"), "{name}");
    assert!(is_ready(&all[0]), "it was whole before the VM was stopped");
    let told = world.told("web", Reason::HookSucceeded).await;
    assert!(told.note.contains(&name), "{}", told.note);
}

#[tokio::test]
async fn a_snapshot_that_failed_is_not_taken_later() {
    let (world, mock) = world("hook-snap-fail").await;
    let hooks = json!({"preStop": {"snapshot": {"name": "last"}, "failurePolicy": "Fail"}});
    world.create(with_hooks(hooks)).await;
    world.vm("web", "runs and rests", at_rest).await;
    mock.faults()
        .parse("fail=SnapshotCreate:Internal")
        .expect("a rule");
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    let kept = |vm: &VirtualMachine| reason(vm) == Reason::HookFailed.as_str();
    world.vm("web", "is kept", kept).await;
    mock.faults().clear();
    let deadline = Instant::now() + PATIENCE;
    while !world.list::<VMSnapshot>().await.is_empty() {
        assert!(Instant::now() < deadline, "it lives on");
        sleep(Duration::from_millis(100)).await;
    }
    assert!(on(&mock).is_empty());
}

/// A web server on this machine that gives these answers in turn and tells who asked for what.
async fn server(answers: &'static [&'static str]) -> (u16, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("a port").port();
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a caller");
            let mut buffer = [0; 2048];
            let read = stream.read(&mut buffer).await.expect("a request");
            let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
            asked.push(text.lines().next().unwrap_or_default().to_owned());
            stream.write_all(answer.as_bytes()).await.expect("sent");
        }
        asked
    });
    (port, asked)
}

const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const BUSY: &str =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_server_is_called_before_the_start_and_again_until_it_says_yes() {
    let mut world = World::empty("hook-http").await;
    let mock = world.furnish(MockConfig::default()).await;
    world.may_call("127.0.0.1");
    world.start().await;
    let (port, asked) = server(&[BUSY, FINE]).await;
    let gate = json!({"host": "127.0.0.1", "port": port, "path": "/gate?vm=web"});
    let hooks = json!({"preStart": {"httpGet": gate}});
    world.create(with_hooks(hooks)).await;
    let failed = world.told("web", Reason::HookFailed).await;
    let address = format!("spec.lifecycle.preStart: http://127.0.0.1:{port}/gate answered");
    assert_eq!(failed.note, format!("{address} 503"));
    assert_eq!(calls(&mock, Rpc::Power), 0, "it waits for the gate");
    let vm = world.vm("web", "runs", runs).await;
    let ignored = serde_json::to_string(&vm.status).expect("a status");
    assert!(!ignored.contains("httpGet"), "it is honoured: {ignored}");
    let told = world.told("web", Reason::HookSucceeded).await;
    assert_eq!(told.note, format!("{address} 200"));
    let asked = asked.await.expect("asked");
    assert_eq!(asked, ["GET /gate?vm=web HTTP/1.1"; 2]);
}

/// What only the manager sees is not called: its own machine, its cloud, the Services of the cluster. Nobody tries again.
#[tokio::test]
async fn a_hook_is_no_way_into_the_cluster() {
    let (mut world, mock) = world("hook-ssrf").await;
    let (port, asked) = server(&[FINE]).await;
    // The test's API server gives its Services 10.96.0.0/16, and the manager has asked it.
    for (index, host) in ["127.0.0.1", "localhost", "169.254.169.254", "10.96.0.1"]
        .iter()
        .enumerate()
    {
        let get = json!({"host": host, "port": port});
        let name = format!("web{index}");
        let manifest = vm(&name).spec(json!({"lifecycle": {"preStart": {"httpGet": get}}}));
        world.create(manifest).await;
        let kept = |vm: &VirtualMachine| reason(vm) == Reason::HookFailed.as_str();
        let vm = world.vm(&name, "is kept off", kept).await;
        assert!(
            message(&vm).contains("is not called"),
            "{host}: {}",
            message(&vm)
        );
    }
    assert_eq!(calls(&mock, Rpc::Power), 0);
    assert!(!asked.is_finished(), "nobody was asked");
    asked.abort();
    world.stop().await;
}

#[tokio::test]
async fn without_a_host_there_is_nobody_to_call_before_the_start() {
    let (world, _mock) = world("hook-hostless").await;
    let hooks = json!({"preStart": {"httpGet": {"port": 80}}});
    world.create(with_hooks(hooks)).await;
    let kept = |vm: &VirtualMachine| reason(vm) == Reason::HookFailed.as_str();
    let vm = world.vm("web", "is kept off", kept).await;
    assert!(
        message(&vm).contains("give httpGet.host"),
        "{}",
        message(&vm)
    );
}

#[tokio::test]
async fn without_a_host_the_guest_is_called_when_it_has_an_address() {
    let mut world = World::empty("hook-guest").await;
    world.furnish(MockConfig::default()).await;
    world.may_call("127.0.0.1");
    world.start().await;
    let (port, asked) = server(&[FINE]).await;
    let card = json!({"name": "lan", "ipAddress": "127.0.0.1", "prefix": 8});
    let get = json!({"port": port, "path": "/ready"});
    let spec = json!({"networks": [card], "lifecycle": {"postStart": {"httpGet": get}}});
    world.create(vm("web").spec(spec)).await;
    let told = world.told("web", Reason::HookSucceeded).await;
    let address = format!("http://127.0.0.1:{port}/ready");
    let expected = format!("spec.lifecycle.postStart: {address} answered 200");
    assert_eq!(told.note, expected);
    assert_eq!(asked.await.expect("asked"), ["GET /ready HTTP/1.1"]);
}

/// A command and a server that never end are waited for as long as they may take, and no longer.
#[tokio::test]
async fn what_takes_too_long_has_failed() {
    let mut world = World::empty("hook-late").await;
    world.furnish(MockConfig::default()).await;
    world.may_call("127.0.0.1");
    world.start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("a port").port();
    let silent = json!({"host": "127.0.0.1", "port": port});
    let slow = json!({"command": ["sleep", "600"]});
    let hooks = json!({
        "preStart": {"httpGet": silent, "timeoutSeconds": 1, "failurePolicy": "Ignore"},
        "preStop": {"exec": slow, "timeoutSeconds": 1},
    });
    let begin = Instant::now();
    world.create(with_hooks(hooks)).await;
    world.vm("web", "runs", runs).await;
    let told = world.told("web", Reason::HookFailed).await;
    let address = format!("spec.lifecycle.preStart: http://127.0.0.1:{port}/");
    assert!(told.note.starts_with(&address), "{}", told.note);
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    world.vm("web", "is off", is_off).await;
    let late = |e: &Told| e.warning && e.note.starts_with("spec.lifecycle.preStop: ");
    let deadline = Instant::now() + PATIENCE;
    while !world.events("web").await.iter().any(late) {
        assert!(Instant::now() < deadline, "it is not told");
        sleep(Duration::from_millis(100)).await;
    }
    assert!(
        begin.elapsed() < Duration::from_secs(120),
        "three tries each"
    );
}
