//! Watches and consoles.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use polyvirt_contract::grpc::{Call, Deadlines, Server, Target, connect};
use polyvirt_contract::model::ConsoleKind;
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Provider};
use tokio_stream::wrappers::TcpListenerStream;

use crate::fixtures;
use crate::recorder::{Recorder, Seen};
use crate::support::{Running, eventually, loopback};

fn recorder() -> Arc<Recorder> {
    Arc::new(Recorder::with_vms(vec![fixtures::vm_state()]))
}

#[tokio::test]
async fn a_watch_begins_with_all_states_then_synced() {
    let server = Running::start(recorder()).await;
    let events = server.client().watch().await.unwrap();
    let first: Vec<_> = events.take(2).map(Result::unwrap).collect().await;
    assert_eq!(
        first,
        [VmEvent::State(fixtures::vm_state()), VmEvent::Synced]
    );
}

#[tokio::test]
async fn a_watcher_that_goes_away_is_noticed() {
    let provider = recorder();
    let server = Running::start(provider.clone()).await;
    let client = server.client();
    let mut one = client.watch().await.unwrap();
    let mut two = client.watch().await.unwrap();
    one.next().await.unwrap().unwrap();
    two.next().await.unwrap().unwrap();
    assert_eq!(provider.open_now(), 2);
    drop(one);
    eventually(|| async { (provider.open_now() == 1).then_some(()) }).await;
    drop((two, client));
    eventually(|| async { (provider.open_now() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn a_slow_watcher_slows_the_provider_and_nobody_else() {
    let vms = vec![fixtures::vm_state()];
    let provider = Arc::new(Recorder {
        endless: true,
        ..Recorder::with_vms(vms)
    });
    let server = Running::start(provider.clone()).await;
    let client = server.client();
    let mut events = client.watch().await.unwrap();
    events.next().await.unwrap().unwrap();
    let pulled = || provider.pulled.load(Ordering::SeqCst);
    let mut before = 0;
    eventually(|| {
        let now = pulled();
        let still = now == std::mem::replace(&mut before, now);
        async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            still.then_some(())
        }
    })
    .await;
    let at_rest = pulled();
    client.validate().await.unwrap();
    assert_eq!(client.list_vms().await.unwrap().len(), 1);
    assert_eq!(pulled(), at_rest, "events were pulled that nobody read");
    for _ in 0..at_rest {
        events.next().await.unwrap().unwrap();
    }
    assert!(pulled() > at_rest, "the stream did not go on");
}

#[tokio::test]
async fn heartbeats_break_the_silence() {
    let (basic, extensions) = Server::new(recorder())
        .with_heartbeat(Duration::from_millis(50))
        .into_services();
    let listener = loopback().await;
    let target = Target::new(listener.local_addr().unwrap().to_string());
    let router = tonic::transport::Server::builder()
        .add_service(basic)
        .add_service(extensions);
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    let client = connect(target).unwrap();
    let mut events = client.watch().await.unwrap().skip(2);
    assert_eq!(events.next().await.unwrap().unwrap(), VmEvent::Heartbeat);
    assert_eq!(events.next().await.unwrap().unwrap(), VmEvent::Heartbeat);
}

#[tokio::test]
async fn a_provider_that_falls_silent_is_an_error() {
    let server = Running::start(recorder()).await;
    let mut target = server.target();
    target.deadlines = Deadlines::default().with(Call::WatchSilence, Duration::from_secs(1));
    let client = connect(target).unwrap();
    let mut events = client.watch().await.unwrap().skip(2);
    let error = events.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(
        events.next().await.is_none(),
        "the stream ends after its error"
    );
}

#[tokio::test]
async fn a_console_carries_bytes_both_ways() {
    let provider = recorder();
    let server = Running::start(provider.clone()).await;
    let client = server.client();
    let vm = fixtures::vm_ref();
    let mut console = client.console(&vm, ConsoleKind::Vnc).await.unwrap();
    assert_eq!(provider.seen(), [Seen::Console(vm, ConsoleKind::Vnc)]);
    for line in ["root", "ls -l", "\u{0}\u{7f}"] {
        console.input.send(line.into()).await.unwrap();
        let answer = console.output.next().await.unwrap().unwrap();
        assert_eq!(answer, line.to_ascii_uppercase());
    }
    console.input.send("off".into()).await.unwrap();
    assert!(console.output.next().await.is_none(), "the VM stopped");
    eventually(|| async { (provider.open_now() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn a_viewer_that_goes_away_detaches() {
    let provider = recorder();
    let server = Running::start(provider.clone()).await;
    let client = server.client();
    let console = client
        .console(&fixtures::vm_ref(), ConsoleKind::Serial)
        .await
        .unwrap();
    assert_eq!(provider.open_now(), 1);
    drop(console);
    eventually(|| async { (provider.open_now() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn an_error_of_the_input_ends_the_output_with_it() {
    let server = Running::start(recorder()).await;
    let client = server.client();
    let mut console = client
        .console(&fixtures::vm_ref(), ConsoleKind::Serial)
        .await
        .unwrap();
    console.input.send("break".into()).await.unwrap();
    let error = console.output.next().await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::Precondition, "The port is broken")
    );
    assert!(console.output.next().await.is_none());
}
