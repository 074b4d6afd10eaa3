//! Peers that come, go, hang and change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use polyvirt_contract::grpc::{Call, Deadlines, Server, Target, connect};
use polyvirt_contract::{ErrorKind, Features, Provider};
use tokio_stream::wrappers::TcpListenerStream;

use crate::fixtures;
use crate::recorder::Recorder;
use crate::support::{Running, eventually, loopback, rebind};

fn recorder() -> Arc<Recorder> {
    Arc::new(Recorder::with_vms(vec![fixtures::vm_state()]))
}

#[tokio::test]
async fn a_client_recovers_from_a_restart_by_itself() {
    let server = Running::start(recorder()).await;
    let address = server.address;
    let client = server.client();
    client.validate().await.unwrap();
    server.stop().await;

    let begun = Instant::now();
    let error = client.validate().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "did not fail fast"
    );

    let _server = Running::start_on(rebind(address).await, recorder(), None);
    eventually(|| async { client.validate().await.ok() }).await;
    assert_eq!(client.list_vms().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_learned_of_one_peer_is_not_believed_of_the_next() {
    let server = Running::start(recorder()).await;
    let address = server.address;
    let client = server.client();
    assert_eq!(client.features().await.unwrap(), fixtures::features());
    assert_eq!(
        client
            .describe(&"vm-7".into())
            .await
            .unwrap()
            .unwrap()
            .revision,
        12
    );
    server.stop().await;

    let (basic_only, _) = Server::new(recorder()).into_services();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let incoming = TcpListenerStream::new(rebind(address).await);
    let router = tonic::transport::Server::builder().add_service(basic_only);
    let foreign = tokio::spawn(router.serve_with_incoming_shutdown(incoming, async {
        let _ = stopped.await;
    }));
    let vm = eventually(|| async { client.describe(&"vm-7".into()).await.ok() })
        .await
        .unwrap();
    assert_eq!(vm.revision, 0, "the basic mode counts no revisions");
    assert_eq!(client.features().await.unwrap(), Features::default());
    stop.send(()).unwrap();
    foreign.await.unwrap().unwrap();

    let _server = Running::start_on(rebind(address).await, recorder(), None);
    eventually(|| async {
        let vm = client.describe(&"vm-7".into()).await.ok()??;
        (vm.revision == 12).then_some(())
    })
    .await;
}

#[tokio::test]
async fn nobody_there_is_told_at_once() {
    let listener = loopback().await;
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = connect(Target::new(address.to_string())).unwrap();
    let begun = Instant::now();
    let error = client.describe(&"vm-7".into()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains(&address.to_string()), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn callers_in_a_queue_share_one_failed_attempt() {
    // Accepts connections and never says a word: a handshake with it cannot end.
    let silent = loopback().await;
    let dir = tempfile::tempdir().unwrap();
    crate::tls::Authority::new("a").write(dir.path(), "provider.local");
    let mut target = Target::new(silent.local_addr().unwrap().to_string())
        .with_tls(polyvirt_contract::grpc::TlsFiles::in_directory(dir.path()));
    target.connect_timeout = Duration::from_millis(200);
    let client = connect(target).unwrap();
    let begun = Instant::now();
    let results = join_all((0..50).map(|_| client.validate())).await;
    assert!(
        results
            .iter()
            .all(|r| r.as_ref().is_err_and(|e| e.kind == ErrorKind::Unavailable))
    );
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "took {:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_on_both_sides() {
    let provider = Arc::new(Recorder {
        hang: true,
        ..Recorder::default()
    });
    let server = Running::start(provider.clone()).await;
    let mut target = server.target();
    target.deadlines = Deadlines::default().with(Call::Create, Duration::from_millis(100));
    let client = connect(target).unwrap();
    let error = client.create(fixtures::create()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    eventually(|| async { (provider.open_now() == 0).then_some(()) }).await;
    client.validate().await.unwrap();
}

#[tokio::test]
async fn a_server_stops_though_someone_watches() {
    let provider = recorder();
    let server = Running::start(provider.clone()).await;
    let client = server.client();
    let mut events = client.watch().await.unwrap();
    events.next().await.unwrap().unwrap();
    let begun = Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "waited for the watcher"
    );
    while let Some(event) = events.next().await {
        if event.is_err() {
            break;
        }
    }
    assert_eq!(provider.open_now(), 0);
}

#[tokio::test]
async fn open_calls_may_end_before_a_server_stops() {
    let provider = Arc::new(Recorder {
        hang: true,
        ..Recorder::default()
    });
    let server = Running::start(provider.clone()).await;
    let mut target = server.target();
    target.deadlines = Deadlines::default().with(Call::Create, Duration::from_millis(1500));
    let client = connect(target).unwrap();
    let call = tokio::spawn(async move { client.create(fixtures::create()).await });
    eventually(|| async { (provider.open_now() == 1).then_some(()) }).await;
    server.stop().await;
    assert_eq!(call.await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
}
