//! Consoles through the API server: a websocket on the kubeconfig's own connection.

use anyhow::{Context, bail};
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{Request, Response, StatusCode};
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use polyvirt_gateway::CONSOLE_PROTOCOL;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::Cluster;
use crate::exit::Failure;

/// A console, attached to.
pub struct Socket(WebSocketStream<TokioIo<Upgraded>>);

/// What the other side did.
pub enum Heard {
    /// It sent bytes of the guest.
    Bytes(Bytes),
    /// It went, and perhaps said why.
    Gone(String),
}

impl Socket {
    /// Attaches to a part of a VM: `console` or `vnc`.
    pub async fn open(cluster: &Cluster, name: &str, part: &str) -> anyhow::Result<Self> {
        let request = Request::get(polyvirt_gateway::path(&cluster.namespace, name, part))
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, generate_key())
            .header(SEC_WEBSOCKET_PROTOCOL, CONSOLE_PROTOCOL)
            .body(Body::empty())?;
        let response = cluster.client.send(request).await;
        let response = response.context("The API server cannot be reached")?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refusal(response).await);
        }
        let upgraded = hyper::upgrade::on(response).await;
        let upgraded = upgraded.context("The connection cannot become a console")?;
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await;
        Ok(Self(socket))
    }

    /// Waits for bytes of the guest.
    pub async fn next(&mut self) -> anyhow::Result<Heard> {
        while let Some(message) = self.0.next().await {
            match message.context("The console is gone")? {
                Message::Binary(bytes) => return Ok(Heard::Bytes(bytes)),
                Message::Text(text) => return Ok(Heard::Bytes(text.into())),
                Message::Close(frame) => {
                    let reason = frame.map(|frame| frame.reason.to_string());
                    return Ok(Heard::Gone(reason.unwrap_or_default()));
                }
                _ => {}
            }
        }
        Ok(Heard::Gone(String::new()))
    }

    /// Sends bytes to the guest.
    pub async fn send(&mut self, bytes: Bytes) -> anyhow::Result<()> {
        let sent = self.0.send(Message::Binary(bytes)).await;
        sent.context("The console is gone")
    }

    /// Leaves. Best effort.
    pub async fn close(mut self) {
        let _ = self.0.close(None).await;
    }
}

/// What the API server, or the gateway behind it, said.
async fn refusal(response: Response<Body>) -> anyhow::Error {
    let code = response.status();
    let body = response.into_body().collect_bytes().await;
    let body = body.unwrap_or_default();
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    explained(code, status["message"].as_str().unwrap_or_default())
}

/// An error of the gateway, with what to do where it does not say so itself.
pub fn explained(code: StatusCode, message: &str) -> anyhow::Error {
    match code {
        StatusCode::NOT_FOUND if message.starts_with("There is no VirtualMachine") => {
            Failure::NotFound(message.to_owned()).into()
        }
        StatusCode::NOT_FOUND => anyhow::anyhow!(
            "This cluster serves no consoles ({message}): start the manager with --gateway-bind-address"
        ),
        StatusCode::GATEWAY_TIMEOUT => Failure::TimedOut(message.to_owned()).into(),
        code if message.is_empty() => anyhow::anyhow!("The API server answers {code}"),
        _ => anyhow::anyhow!("{message}"),
    }
}

/// A plain request to a part of a VM.
pub async fn request(cluster: &Cluster, request: Request<Vec<u8>>) -> anyhow::Result<String> {
    match cluster.client.request_text(request).await {
        Ok(text) => Ok(text),
        Err(kube::Error::Api(status)) => {
            let code = StatusCode::from_u16(status.code).unwrap_or_default();
            Err(explained(code, &status.message))
        }
        Err(error) => bail!("The API server cannot be reached: {error}"),
    }
}
