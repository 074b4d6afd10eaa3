//! Consoles, through KubeVirt's websocket.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use hyper::http::{Method, Request, header};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::core::DynamicObject;
use polyvirt_contract::model::{ConsoleKind, ConsoleSession, VmRef};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::errors;
use crate::kinds::{Kind, text};
use crate::subresource;
use crate::vm::Core;

/// The protocol in which KubeVirt speaks: bytes, and nothing around them.
const PLAIN: &str = "plain.kubevirt.io";
const DOING: &str = "Attaching to the console";

/// Attaches to a console of a VM that runs.
pub(crate) async fn attach(core: &Core, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
    let (key, _) = core.allowed(vm).await?;
    let instance = core.cluster.get(Kind::Vmi, &key).await?;
    let runs = |instance: &DynamicObject| text(&instance.data, "/status/phase") == "Running";
    // One that has ended stays for a moment.
    if !instance.as_ref().is_some_and(runs) {
        let message = format!("The VM {key} does not run and has no console");
        return Err(errors::precondition(message));
    }
    let what = match kind {
        ConsoleKind::Serial => "console",
        ConsoleKind::Vnc => "vnc",
    };
    let path = subresource::path("virtualmachineinstances", &key, what);
    let socket = open(core, &path).await?;
    let (out, incoming) = socket.split();
    let output = incoming.filter_map(|message| std::future::ready(read(message)));
    let input = out
        .with(|bytes: Bytes| std::future::ready(Ok::<_, Error>(Message::Binary(bytes))))
        .sink_map_err(|error| broken(&error));
    Ok(ConsoleSession {
        output: output.boxed(),
        input: Box::pin(input),
    })
}

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

async fn open(core: &Core, path: &str) -> Result<Socket> {
    let key = generate_key();
    let request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key)
        .header(header::SEC_WEBSOCKET_PROTOCOL, PLAIN)
        .body(Body::empty())
        .map_err(|error| errors::internal(error.to_string()))?;
    let sent = core.cluster.client().send(request);
    let response = core.cluster.ask(DOING, sent).await?;
    let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    let right = accepted.is_some_and(|told| told == derive_accept_key(key.as_bytes()).as_str());
    match response.status().as_u16() {
        101 if right => {}
        400 | 404 | 409 => {
            return Err(errors::precondition(
                "The VM has no console now; it may be starting or ending",
            ));
        }
        other => {
            let status = kube::core::Status::failure("KubeVirt gave no websocket", "");
            return Err(errors::answered(DOING, &status.with_code(other)));
        }
    }
    let upgraded = hyper::upgrade::on(response)
        .await
        .map_err(|error| broken(&error))?;
    let io = TokioIo::new(upgraded);
    Ok(WebSocketStream::from_raw_socket(io, Role::Client, None).await)
}

/// Bytes of the guest; what belongs to the protocol is passed over.
fn read(message: std::result::Result<Message, Error>) -> Option<Result<Bytes>> {
    match message {
        Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
        Ok(Message::Text(text)) => Some(Ok(text.into())),
        Ok(_) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => None,
        Err(error) => Some(Err(broken(&error))),
    }
}

fn broken(error: &dyn std::error::Error) -> ProviderError {
    ProviderError::new(
        ErrorKind::Unavailable,
        format!("The console broke: {error}"),
    )
}
