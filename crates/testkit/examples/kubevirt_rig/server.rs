//! What virt-handler does when virt-api asks it: pause, freeze, and consoles.

use std::net::Ipv4Addr;
use std::path::Path as File;
use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use kube::core::DynamicObject;
use polyvirt_listener::{Settings, TlsListener};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::guests::{with, without};
use crate::world::{GUEST, World};

type Shared = State<Arc<World>>;
type Named = Path<(String, String)>;
/// What a screen says first.
const VNC: &str = "RFB 003.008\n";
/// As in the simulator.
const GREETING: &str = "Simulated Linux on ttyS0\r\n\r\nlogin: ";

/// Listens on a port of loopback that nobody has, with the certificates of that folder.
pub async fn bind(folder: &File) -> Result<(TcpListener, Settings), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(folder.join("ca.crt"))? {
        roots.add(authority?)?;
    }
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(folder.join("virt-handler.crt"))?.collect();
    let key = PrivateKeyDer::from_pem_file(folder.join("virt-handler.key"))?;
    let tls = ServerConfig::builder()
        .with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build()?)
        .with_single_cert(chain?, key)?;
    Ok((listener, Settings::new(Arc::new(tls))))
}

pub async fn serve(world: Arc<World>, listener: TcpListener, settings: Settings) {
    let incoming = TlsListener::<()>::new(listener, settings, CancellationToken::new());
    if let Err(error) = axum::serve(incoming, routes(world)).await {
        tracing::error!(%error, "virt-handler is no longer there");
    }
}

fn routes(world: Arc<World>) -> Router {
    let of = |word: &str| {
        format!("/v1/namespaces/{{namespace}}/virtualmachineinstances/{{name}}/{word}")
    };
    let nothing = || async { StatusCode::ACCEPTED };
    Router::new()
        .route(&of("pause"), put(pause))
        .route(&of("unpause"), put(unpause))
        .route(&of("freeze"), put(freeze))
        .route(&of("unfreeze"), put(unfreeze))
        .route(&of("softreboot"), put(nothing))
        .route(&of("reset"), put(nothing))
        .route(&of("console"), get(console))
        .route(&of("vnc"), get(screen))
        .route(
            &of("guestosinfo"),
            get(|| async { Json(json!({"os": {"name": "Played"}})) }),
        )
        .with_state(world)
}

async fn pause(State(world): Shared, Path(place): Named) -> Response {
    changed(&world, &place, |guest| {
        let mut conditions = with(guest, &["Paused"]);
        if let Some(paused) = conditions.last_mut() {
            paused["reason"] = json!("PausedByUser");
            paused["message"] = json!("VMI was paused by user");
        }
        json!({"conditions": conditions})
    })
    .await
}

async fn unpause(State(world): Shared, Path(place): Named) -> Response {
    changed(
        &world,
        &place,
        |guest| json!({"conditions": without(guest, &["Paused"])}),
    )
    .await
}

async fn freeze(State(world): Shared, Path(place): Named) -> Response {
    changed(&world, &place, |_| json!({"fsFreezeStatus": "frozen"})).await
}

async fn unfreeze(State(world): Shared, Path(place): Named) -> Response {
    changed(&world, &place, |_| json!({"fsFreezeStatus": null})).await
}

/// Tells the new state of a guest, as often as somebody else writes in between.
async fn changed(
    world: &World,
    (namespace, name): &(String, String),
    status: impl Fn(&DynamicObject) -> Value,
) -> Response {
    for _ in 0..20 {
        let found = world.within(GUEST, namespace).get_opt(name).await;
        let Ok(Some(guest)) = found else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let change = json!({"status": status(&guest)});
        match world.change(GUEST, &guest, change).await {
            Ok(()) => return StatusCode::ACCEPTED.into_response(),
            Err(error) => tracing::debug!(%error, name, "again"),
        }
    }
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

async fn console(Path(place): Named, upgrade: WebSocketUpgrade) -> Response {
    let greeting = format!("{}: {GREETING}", place.1);
    upgrade.on_upgrade(move |socket| guest(socket, greeting))
}

async fn screen(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(move |socket| guest(socket, VNC.to_owned()))
}

/// A guest that says its greeting, and repeats what it is told.
async fn guest(mut socket: WebSocket, greeting: String) {
    let mut next = Message::Binary(greeting.into_bytes().into());
    while socket.send(next).await.is_ok() {
        next = loop {
            match socket.recv().await {
                Some(Ok(Message::Binary(bytes))) => break Message::Binary(bytes),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
        };
    }
}
