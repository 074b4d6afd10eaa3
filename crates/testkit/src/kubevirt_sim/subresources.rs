//! What KubeVirt does beside its objects: stop, start, restart, pause, and consoles. An API server of its own on loopback, to
//! which the real one hands requests on, as it does to virt-api; nobody else gets in ([`callers`]).

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use k8s_openapi::ByteString;
use kube::core::{DynamicObject, Request};
use kube::{Api, ResourceExt as _};
use polyvirt_listener::{Settings, TlsListener};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::cluster::{HotPlug, Kind, World};
use super::machine::list;
use super::{callers, hot, metrics};
use crate::Error;
use crate::error::Doing as _;

pub(super) const GROUP: &str = "subresources.kubevirt.io";
pub(super) const ROOT: &str = "/apis/subresources.kubevirt.io/v1";
const NAMESPACE: &str = "kubevirt";
const SERVICE: &str = "virt-api";
/// How long the API server may take to find us.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// What a screen says first.
const VNC: &str = "RFB 003.008\n";
/// What a guest says first.
const GREETING: &str = "Simulated Linux on ttyS0\r\n\r\nlogin: ";
/// The condition of a machine that stands still.
const PAUSED: &str = "Paused";
/// The protocol of consoles: bytes, and nothing around them.
const PLAIN: &str = "plain.kubevirt.io";

/// The server, with its place in the cluster.
pub(super) struct Server {
    world: Arc<World>,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
}

impl Server {
    /// Listens, and tells the API server so.
    pub(super) async fn register(world: Arc<World>) -> Result<Self, Error> {
        let place = std::path::Path::new("127.0.0.1");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.doing("listen on", place)?;
        let port = listener.local_addr().doing("listen on", place)?.port();
        let name = format!("{SERVICE}.{NAMESPACE}.svc");
        let made = rcgen::generate_simple_self_signed([name])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = ServerConfig::builder()
            .with_client_cert_verifier(callers::verifier(&world).await?)
            .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::from(key))?;
        world.announce(port, made.cert.pem()).await?;
        Ok(Self {
            world,
            listener,
            tls: Arc::new(tls),
        })
    }

    pub(super) async fn serve(self) {
        let settings = Settings::new(self.tls);
        let stop = CancellationToken::new();
        let incoming = TlsListener::<()>::new(self.listener, settings, stop);
        if let Err(error) = axum::serve(incoming, routes(self.world)).await {
            tracing::error!(%error, "subresources of the KubeVirt simulator are no longer served");
        }
    }
}

impl World {
    async fn announce(&self, port: u16, authority: String) -> kube::Result<()> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
        });
        self.put(["", "v1", "Namespace"], &namespace).await?;
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": NAMESPACE},
            "spec": {
                "type": "ExternalName",
                "externalName": "localhost",
                "ports": [{"name": "https", "port": port}],
            },
        });
        self.put(["", "v1", "Service"], &service).await?;
        self.register(GROUP, "v1", port, &authority).await?;
        self.register(metrics::GROUP, metrics::VERSION, port, &authority)
            .await
    }

    async fn register(
        &self,
        group: &str,
        version: &str,
        port: u16,
        authority: &str,
    ) -> kube::Result<()> {
        let api = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
                "caBundle": ByteString(authority.as_bytes().to_vec()),
                "service": {"namespace": NAMESPACE, "name": SERVICE, "port": port},
            },
        });
        self.put(["apiregistration.k8s.io", "v1", "APIService"], &api)
            .await
    }

    /// Waits until the API server hands requests on to us.
    pub(super) async fn until_served(&self) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            let group = Request::new(format!("/apis/{GROUP}"));
            let request = group.get("v1", &kube::api::GetParams::default());
            let request = request.map_err(kube::Error::BuildRequest)?;
            match self.client.request_text(request).await {
                Ok(_) => return Ok(()),
                Err(error) if begin.elapsed() > PATIENCE => return Err(error.into()),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

fn routes(world: Arc<World>) -> Router {
    let of = |kind: &str| format!("{ROOT}/namespaces/{{namespace}}/{kind}/{{name}}");
    let (vm, vmi) = (of("virtualmachines"), of("virtualmachineinstances"));
    Router::new()
        .route(ROOT, get(discovery))
        .route(&format!("{ROOT}/"), get(discovery))
        .route(&format!("{vm}/stop"), put(stop))
        .route(&format!("{vm}/start"), put(start))
        .route(&format!("{vm}/restart"), put(restart))
        .route(&format!("{vmi}/addvolume"), put(add_volume))
        .route(&format!("{vmi}/removevolume"), put(remove_volume))
        .route(metrics::ROOT, get(metrics::discovery))
        .route(&format!("{}/pods", metrics::ROOT), get(metrics::pods))
        .route(&format!("{vmi}/pause"), put(pause))
        .route(&format!("{vmi}/unpause"), put(unpause))
        .route(&format!("{vmi}/console"), get(console))
        .route(&format!("{vmi}/vnc"), get(screen))
        .layer(from_fn_with_state(world.clone(), callers::admit))
        .with_state(world)
}

type Named = Path<(String, String)>;
type Shared = State<Arc<World>>;

async fn discovery() -> Json<Value> {
    Json(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/v1"),
        "resources": [],
    }))
}

async fn stop(State(world): Shared, Path(place): Named) -> Response {
    run(&world, &place, "Halted").await
}

async fn start(State(world): Shared, Path(place): Named) -> Response {
    run(&world, &place, "Always").await
}

async fn run(world: &World, place: &(String, String), strategy: &str) -> Response {
    let change = json!({"spec": {"runStrategy": strategy}});
    changed(world, Kind::Vm, place, &change).await
}

async fn restart(State(world): Shared, Path(place): Named) -> Response {
    match found(&world, Kind::Vmi, &place).await {
        Some(instance) => match world.delete(Kind::Vmi, &instance).await {
            Ok(()) => StatusCode::ACCEPTED.into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        },
        None => StatusCode::CONFLICT.into_response(),
    }
}

async fn pause(State(world): Shared, Path(place): Named) -> Response {
    let Some(instance) = found(&world, Kind::Vmi, &place).await else {
        return refused(StatusCode::NOT_FOUND, "not found", &place);
    };
    if is_paused(&instance) {
        return refused(StatusCode::CONFLICT, "VMI is already paused", &place);
    }
    let change = json!({"status": {"conditions": hot::with(&instance.data, PAUSED)}});
    changed(&world, Kind::Vmi, &place, &change).await
}

async fn unpause(State(world): Shared, Path(place): Named) -> Response {
    let Some(instance) = found(&world, Kind::Vmi, &place).await else {
        return refused(StatusCode::NOT_FOUND, "not found", &place);
    };
    if !is_paused(&instance) {
        return refused(StatusCode::CONFLICT, "VMI is not paused", &place);
    }
    let change = json!({"status": {"conditions": hot::without(&instance.data, PAUSED)}});
    changed(&world, Kind::Vmi, &place, &change).await
}

fn is_paused(instance: &DynamicObject) -> bool {
    let all = list(&instance.data, "/status/conditions");
    all.iter().any(|condition| condition["type"] == PAUSED)
}

async fn add_volume(
    State(world): Shared,
    Path(place): Named,
    Json(request): Json<Value>,
) -> Response {
    let (instance, mut volumes) = match plugged(&world, &place).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    let name = &request["name"];
    if volumes.iter().any(|volume| volume["name"] == *name) {
        let why =
            format!("Unable to add volume [{name}] because volume with that name already exists");
        return refused(StatusCode::CONFLICT, &why, &place);
    }
    let mut volume = request["volumeSource"].clone();
    for kind in ["persistentVolumeClaim", "dataVolume"] {
        if let Some(source) = volume.get_mut(kind) {
            source["hotpluggable"] = json!(true);
        }
    }
    volume["name"] = name.clone();
    volumes.push(volume);
    let mut disks = list(&instance.data, hot::DISKS);
    let mut disk = request["disk"].clone();
    disk["name"] = name.clone();
    disks.push(disk);
    plug(&world, &instance, &request, (&volumes, &disks)).await
}

async fn remove_volume(
    State(world): Shared,
    Path(place): Named,
    Json(request): Json<Value>,
) -> Response {
    let (instance, mut volumes) = match plugged(&world, &place).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    let name = &request["name"];
    let is_hot = |volume: &Value| volume["name"] == *name && hot::is_hot(volume);
    if !volumes.iter().any(is_hot) {
        let why = format!("Unable to remove volume [{name}] because it is not hotpluggable");
        return refused(StatusCode::CONFLICT, &why, &place);
    }
    volumes.retain(|volume| volume["name"] != *name);
    let mut disks = list(&instance.data, hot::DISKS);
    disks.retain(|disk| disk["name"] != *name);
    plug(&world, &instance, &request, (&volumes, &disks)).await
}

/// The machine and its disks, if KubeVirt is told to take requests for them.
async fn plugged(
    world: &World,
    place: &(String, String),
) -> Result<(DynamicObject, Vec<Value>), Response> {
    let instance = found(world, Kind::Vmi, place).await;
    let hot_plug = world.hot_plug().await.unwrap_or(HotPlug::Never);
    let why = match (hot_plug, &instance) {
        (HotPlug::Never, _) => {
            "Enable DeclarativeHotplugVolumes or HotplugVolumes feature gate to use this API."
        }
        (_, None) => return Err(refused(StatusCode::NOT_FOUND, "not found", place)),
        (HotPlug::Declared, _) => &format!("VMI {}/{} is owned by a VM", place.0, place.1),
        (HotPlug::Asked, Some(instance)) => {
            let volumes = list(&instance.data, "/spec/volumes");
            return Ok((instance.clone(), volumes));
        }
    };
    Err(refused(StatusCode::BAD_REQUEST, why, place))
}

async fn plug(
    world: &World,
    instance: &DynamicObject,
    request: &Value,
    (volumes, disks): (&[Value], &[Value]),
) -> Response {
    let change = json!({"spec": {
        "volumes": volumes,
        "domain": {"devices": {"disks": disks}},
    }});
    if request.get("dryRun").is_some() {
        return StatusCode::ACCEPTED.into_response();
    }
    match world.change(Kind::Vmi, instance, &change).await {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A refusal in the form of Kubernetes.
fn refused(code: StatusCode, why: &str, place: &(String, String)) -> Response {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": why,
        "reason": code.canonical_reason(),
        "details": {"name": place.1, "group": "kubevirt.io", "kind": "virtualmachineinstance"},
        "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}

async fn changed(world: &World, kind: Kind, place: &(String, String), change: &Value) -> Response {
    let Some(object) = found(world, kind, place).await else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match world.change(kind, &object, change).await {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn found(world: &World, kind: Kind, place: &(String, String)) -> Option<DynamicObject> {
    let (namespace, name) = place;
    let client = world.client.clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &kind.resource());
    api.get_opt(name).await.ok().flatten()
}

async fn console(State(world): Shared, Path(place): Named, upgrade: WebSocketUpgrade) -> Response {
    attach(&world, &place, upgrade, |name| {
        format!("{name}: {GREETING}")
    })
    .await
}

async fn screen(State(world): Shared, Path(place): Named, upgrade: WebSocketUpgrade) -> Response {
    attach(&world, &place, upgrade, |_| VNC.to_owned()).await
}

async fn attach(
    world: &World,
    place: &(String, String),
    upgrade: WebSocketUpgrade,
    greeting: impl Fn(&str) -> String,
) -> Response {
    match found(world, Kind::Vmi, place).await {
        Some(instance) if instance.data.pointer("/status/phase") != Some(&json!("Running")) => {
            refused(StatusCode::BAD_REQUEST, "VMI is not running", place)
        }
        Some(instance) => {
            let greeting = greeting(&instance.name_any());
            upgrade
                .protocols([PLAIN])
                .on_upgrade(move |socket| guest(socket, greeting))
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A guest that says its greeting, and repeats what it is told.
async fn guest(mut socket: WebSocket, greeting: String) {
    let mut next = Message::Binary(greeting.into_bytes().into());
    while socket.send(next).await.is_ok() {
        next = loop {
            match socket.recv().await {
                Some(Ok(Message::Binary(bytes))) => break Message::Binary(bytes),
                Some(Ok(Message::Text(text))) => break Message::Text(text),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
        };
    }
}
