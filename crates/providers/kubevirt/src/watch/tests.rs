//! Streams against an API server that ends them: at a bookmark, and because we fell behind.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use hyper::{Request, Response};
use kube::Client;
use kube::client::Body;
use polyvirt_contract::Provider as _;
use serde_json::{Value, json};

use super::*;
use crate::config::KubevirtConfig;
use crate::provider::Kubevirt;

/// What the server is asked for VirtualMachines, and what it answers to their watches, one after the other.
#[derive(Default)]
struct Server {
    asked: Mutex<Vec<String>>,
    watches: Mutex<VecDeque<Vec<Value>>>,
}

impl Server {
    fn with(watches: Vec<Vec<Value>>) -> Arc<Self> {
        Arc::new(Self {
            watches: Mutex::new(watches.into()),
            ..Self::default()
        })
    }

    fn asked(&self) -> Vec<String> {
        let all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// Lists are empty and of version 10. A watch of which nothing is known stays open and silent.
    async fn answer(&self, query: &str, is_vms: bool) -> String {
        if !query.contains("watch=true") {
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": []});
            return list.to_string();
        }
        let events = self
            .watches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front_if(|_| is_vms);
        match events {
            Some(events) => {
                let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
                lines.join("\n") + "\n"
            }
            None => std::future::pending().await,
        }
    }

    async fn serve(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let (path, query) = (request.uri().path(), request.uri().query());
        let (is_vms, query) = (
            path.ends_with("/virtualmachines"),
            query.unwrap_or_default(),
        );
        if is_vms && !query.contains("limit=1&") && !query.ends_with("limit=1") {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push(query.to_owned());
        }
        let answer = self.answer(query, is_vms).await;
        Response::new(Body::from(answer.into_bytes()))
    }
}

fn provider(server: &Arc<Server>) -> Arc<Kubevirt> {
    let server = server.clone();
    let service = tower::service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.serve(request).await) }
    });
    let config = KubevirtConfig::from_url("kubevirt://kubeconfig").expect("readable");
    Kubevirt::with_client(Client::new(service, "default"), &config)
}

fn event(kind: &str, version: &str, object: Value) -> Value {
    let mut object = object;
    object["apiVersion"] = json!("kubevirt.io/v1");
    object["kind"] = json!("VirtualMachine");
    object["metadata"]["resourceVersion"] = json!(version);
    json!({"type": kind, "object": object})
}

fn vm(version: &str) -> Value {
    let metadata = json!({"name": "web", "namespace": "team", "labels": {IDENTITY: "id-1"}});
    event("ADDED", version, json!({"metadata": metadata}))
}

fn value<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_a_bookmark_says() {
    let bookmark = event("BOOKMARK", "50", json!({"metadata": {}}));
    let server = Server::with(vec![vec![bookmark], vec![vm("60")]]);
    let provider = provider(&server);
    let mut stream = provider.watch().await.expect("a stream");
    let synced = stream.next().await.expect("a word").expect("an event");
    assert_eq!(synced, VmEvent::Synced);
    let told = stream.next().await.expect("a word").expect("an event");
    assert!(
        matches!(&told, VmEvent::State(state) if state.id.as_str() == "team/web"),
        "{told:?}"
    );
    let asked = server.asked();
    let watches: Vec<&String> = asked.iter().filter(|q| q.contains("watch=true")).collect();
    let from = |query: &String| value(query, "resourceVersion").map(str::to_owned);
    assert_eq!(from(watches[0]).as_deref(), Some("10"), "{asked:?}");
    assert_eq!(from(watches[1]).as_deref(), Some("50"), "{asked:?}");
    for query in &asked {
        assert_eq!(
            value(query, "labelSelector"),
            Some("polyvirt.io%2Fidentity")
        );
    }
    let bookmarks = watches
        .iter()
        .all(|query| value(query, "allowWatchBookmarks") == Some("true"));
    assert!(bookmarks, "{asked:?}");
    let lists = asked.len() - watches.len();
    assert_eq!(lists, 1, "it was listed again: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn who_fell_behind_is_told_so_and_lists_anew() {
    let expired = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version: 10 (99)", "reason": "Expired", "code": 410,
    }});
    let server = Server::with(vec![vec![expired], vec![vm("120")]]);
    let provider = provider(&server);
    let mut stream = provider.watch().await.expect("a stream");
    let synced = stream.next().await.expect("a word").expect("an event");
    assert_eq!(synced, VmEvent::Synced);
    let error = stream.next().await.expect("a word").expect_err("the end");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("fell behind"), "{error}");
    assert!(stream.next().await.is_none(), "it ends with the error");

    let mut again = provider.watch().await.expect("a stream");
    let synced = again.next().await.expect("a word").expect("an event");
    assert_eq!(synced, VmEvent::Synced);
    let told = again.next().await.expect("a word").expect("an event");
    assert!(matches!(told, VmEvent::State(_)), "{told:?}");
    let lists = server.asked();
    let lists = lists.iter().filter(|q| !q.contains("watch=true")).count();
    assert_eq!(lists, 2, "each stream lists once");
}
