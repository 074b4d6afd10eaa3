//! A collector gets the spans, with their parents, and nothing that was not made for it.
#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use polyvirt_otlp::{Settings, traces};
use serde_json::Value;
use tokio::sync::mpsc;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

const TARGET: &str = "told";

type Heard = (HeaderMap, Value);

async fn collector() -> (String, mpsc::UnboundedReceiver<Heard>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let take = move |headers: HeaderMap, body: Bytes| async move {
        let body = serde_json::from_slice(&body).expect("JSON");
        sender.send((headers, body)).expect("heard");
        "{}"
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let app = Router::new().route("/v1/traces", post(take));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (format!("http://{address}/"), receiver)
}

#[tokio::test]
async fn spans_arrive_with_their_parents() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (endpoint, mut heard) = collector().await;
    let (layer, exporter) = traces(Settings {
        endpoint,
        headers: "authorization=Bearer t0ken".to_owned(),
        service: "test".to_owned(),
        version: "1",
    })
    .expect("traces");
    let running = tokio::spawn(exporter.run(std::future::pending()));
    let only_ours = Targets::new().with_target(TARGET, tracing::Level::TRACE);
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(only_ours));
    tracing::subscriber::with_default(subscriber, || {
        let pass = tracing::info_span!(target: TARGET, "reconcile", vm = "web", error = tracing::field::Empty);
        let _other = tracing::info_span!("not for the collector").entered();
        pass.in_scope(|| drop(tracing::info_span!(target: TARGET, "call", attempt = 2)));
        pass.record("error", "it is gone");
    });
    let wait = tokio::time::timeout(Duration::from_secs(30), heard.recv());
    let (headers, body) = wait.await.expect("in time").expect("a request");
    assert_eq!(headers["authorization"], "Bearer t0ken");
    let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert_eq!(spans.as_array().expect("spans").len(), 2);
    let (call, pass) = (&spans[0], &spans[1]);
    assert_eq!(
        (&call["name"], &pass["name"]),
        (&"call".into(), &"reconcile".into())
    );
    assert_eq!(call["parentSpanId"], pass["spanId"]);
    assert_eq!(call["traceId"], pass["traceId"]);
    assert_eq!(pass["status"]["code"], 2);
    running.await.expect("ends with its layer");
}
