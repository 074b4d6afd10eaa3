//! A whole manager tells a collector what it did: a span for each pass, and below it one for each call to a provider.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use polyvirt_testkit::{install_crds, namespace, shared};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_polyvirt");
const PATIENCE: Duration = Duration::from_secs(90);

/// The token of a request, and its body.
type Heard = (Option<String>, Value);

/// What a collector has heard.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Heard>>>);

impl Collector {
    async fn start(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let take = async |State(all): State<Self>, headers: HeaderMap, body: String| {
            let token = headers.get("authorization");
            let token = token.map(|t| t.to_str().unwrap().to_owned());
            let body = serde_json::from_str(&body).unwrap();
            all.0.lock().unwrap().push((token, body));
            "{}"
        };
        let app = Router::new().route("/v1/traces", post(take));
        let app = app.with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        address
    }

    fn spans(&self) -> Vec<Value> {
        let heard = self.0.lock().unwrap();
        let spans = heard.iter().flat_map(|(token, body)| {
            assert_eq!(token.as_deref(), Some("Bearer t0ken"));
            let resource = &body["resourceSpans"][0];
            let service = &resource["resource"]["attributes"][0]["value"]["stringValue"];
            assert_eq!(service, "lab-manager");
            resource["scopeSpans"][0]["spans"]
                .as_array()
                .unwrap()
                .clone()
        });
        spans.collect()
    }
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |found| &found["value"]["stringValue"])
}

/// The pass under which the provider was called so.
fn pass_of<'a>(spans: &'a [Value], method: &str, object: &str) -> Option<(&'a Value, &'a Value)> {
    let calls = spans.iter().filter(|span| span["name"] == "provider call");
    let mut pairs = calls
        .filter(|call| attribute(call, "method") == method)
        .filter_map(|call| {
            let above = |span: &&Value| span["spanId"] == call["parentSpanId"];
            Some((call, spans.iter().find(above)?))
        });
    pairs.find(|(_, pass)| attribute(pass, "object") == object)
}

struct Manager(Child);

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn manager(kubeconfig: &Path, namespace: &str, collector: SocketAddr) -> Manager {
    let child = Command::new(PROGRAM)
        .args(["manager", "--metrics-bind-address=0"])
        .args(["--health-probe-bind-address=0", "--namespaces", namespace])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer t0ken")
        .env("OTEL_SERVICE_NAME", "lab-manager")
        .stdin(Stdio::null())
        .spawn();
    Manager(child.unwrap())
}

async fn apply(client: &Client, namespace: &str, kind: &str, name: &str, spec: Value) {
    let gvk = GroupVersionKind::gvk("infra.virtrigaud.io", "v1beta1", kind);
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&gvk));
    let object = json!({
        "apiVersion": gvk.api_version(), "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    let params = PatchParams::apply("test").force();
    api.patch(name, &params, &Patch::Apply(object))
        .await
        .unwrap();
}

async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// With a provider in a process of its own, which is called over the wire.
async fn furnish(client: &Client, ns: &str, folder: &Path) {
    let provider = json!({
        "type": "mock",
        "endpoint": format!("mock://{}", folder.display()),
        "runtime": {"mode": "Process"},
    });
    apply(client, ns, "Provider", "lab", provider).await;
    let vm = json!({
        "providerRef": {"name": "lab"},
        "class": {"cpu": 1, "memory": "512Mi"},
        "image": {"http": {"url": "http://images.test/a.qcow2"}},
        "powerState": "On",
    });
    apply(client, ns, "VirtualMachine", "web", vm).await;
}

fn begins_and_ends_within(inner: &Value, outer: &Value) -> bool {
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    let begin = |span| time(span, "startTimeUnixNano");
    let end = |span| time(span, "endTimeUnixNano");
    begin(outer) <= begin(inner) && begin(inner) <= end(inner) && end(inner) <= end(outer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_tells_of_its_passes_and_calls() {
    let plane = shared().await.unwrap();
    let client = plane.client().unwrap();
    install_crds(&client, &polyvirt_api::crds()).await.unwrap();
    let ns = namespace(&client, "traces").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::default();
    let address = collector.start().await;
    furnish(&client, &ns, folder.path()).await;
    let mut boss = manager(&plane.kubeconfig_path(), &ns, address);
    let web = format!("{ns}/web");

    let trace = until("the VM is seen to be made and started", || {
        let spans = collector.spans();
        pass_of(&spans, "Power", &web)?;
        let (call, pass) = pass_of(&spans, "Create", &web)?;
        assert_eq!(pass["name"], "reconcile");
        assert_eq!(attribute(pass, "kind"), "VirtualMachine");
        assert_eq!(attribute(call, "provider"), format!("{ns}/lab").as_str());
        assert_eq!(call["traceId"], pass["traceId"]);
        assert!(pass["parentSpanId"].is_null(), "a pass begins a trace");
        assert!(begins_and_ends_within(call, pass), "{call} {pass}");
        assert!(call["status"].is_null(), "it went well: {call}");
        Some(call["traceId"].clone())
    });
    let trace = trace.await;
    let spans = collector.spans();
    let others = spans.iter().filter(|span| span["name"] == "reconcile");
    let others = others.filter(|span| attribute(span, "kind") == "Provider");
    assert!(others.into_iter().all(|span| span["traceId"] != trace));

    // What it heard last is told when it ends, and it does not end late for that.
    let before = collector.spans().len();
    apply(
        &client,
        &ns,
        "VMClass",
        "late",
        json!({"cpu": 1, "memory": "1Gi"}),
    )
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let pid = rustix::process::Pid::from_child(&boss.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = until("the manager ends", || boss.0.try_wait().unwrap()).await;
    assert!(ended.success(), "{ended}");
    let late = format!("{ns}/late");
    let told = collector.spans();
    let last = told.iter().skip(before.saturating_sub(1));
    let mut last = last.filter(|span| attribute(span, "object") == late.as_str());
    assert!(last.next().is_some(), "the pass over {late} was told");
}
