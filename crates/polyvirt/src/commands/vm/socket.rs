//! Consoles through the API server: a websocket on the kubeconfig's own connection.

use anyhow::Context;
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{Request, Response, StatusCode};
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use polyvirt_api::infra::{PowerState, VirtualMachine};
use polyvirt_gateway::CONSOLE_PROTOCOL;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::connect::unreachable;
use super::{Cluster, is_off};
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
        let response =
            response.map_err(|e| unreachable(cluster, e, "The console cannot be had"))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let (code, message) = refusal(response).await;
            return Err(explained(cluster, name, code, &message).await);
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
async fn refusal(response: Response<Body>) -> (StatusCode, String) {
    let code = response.status();
    let body = response.into_body().collect_bytes().await;
    let body = body.unwrap_or_default();
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default();
    (code, message.to_owned())
}

/// A plain request to a part of a VM.
pub async fn request(
    cluster: &Cluster,
    name: &str,
    request: Request<Vec<u8>>,
) -> anyhow::Result<String> {
    match cluster.client.request_text(request).await {
        Ok(text) => Ok(text),
        Err(kube::Error::Api(status)) => {
            let code = StatusCode::from_u16(status.code).unwrap_or_default();
            Err(explained(cluster, name, code, &status.message).await)
        }
        Err(error) => Err(unreachable(cluster, error, "The guest cannot be reached")),
    }
}

/// An error of the way to a guest, with what to do about it.
async fn explained(
    cluster: &Cluster,
    name: &str,
    code: StatusCode,
    message: &str,
) -> anyhow::Error {
    match cluster.vm(name).await {
        Ok(vm) if power(&vm) == Some(PowerState::Off) => anyhow::anyhow!(is_off(name)),
        Ok(_) => in_words(code, message),
        Err(missing) => missing,
    }
}

fn power(vm: &VirtualMachine) -> Option<PowerState> {
    vm.status.as_ref()?.power_state
}

/// The gateway says itself what to do; what the API server says before it is reached needs more words.
fn in_words(code: StatusCode, message: &str) -> anyhow::Error {
    let by_gateway = message.starts_with(char::is_uppercase) && message.contains(' ');
    match code {
        StatusCode::NOT_FOUND => anyhow::anyhow!(
            "This cluster serves no consoles ({message}): start the manager with --gateway-bind-address"
        ),
        StatusCode::GATEWAY_TIMEOUT => Failure::TimedOut(message.to_owned()).into(),
        StatusCode::SERVICE_UNAVAILABLE if !by_gateway => anyhow::anyhow!(
            "The API server does not reach the manager, which serves consoles and commands in guests: see that the manager runs (`polyvirt status`, `kubectl get apiservice v1.subresources.polyvirt.io`)"
        ),
        StatusCode::FORBIDDEN if !by_gateway => anyhow::anyhow!(
            "{message}: ask for a role such as polyvirt-guests of config/rbac/guests.yaml"
        ),
        code if message.is_empty() => anyhow::anyhow!("The API server answers {code}"),
        _ => anyhow::anyhow!("{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let words = |code, message| in_words(code, message).to_string();
        let silent = words(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
        assert!(silent.contains("polyvirt status"), "{silent}");
        let provider = "Provider default/local does not answer; its status says why";
        assert_eq!(words(StatusCode::SERVICE_UNAVAILABLE, provider), provider);
        let forbidden = words(StatusCode::FORBIDDEN, "virtualmachines is forbidden");
        assert!(forbidden.contains("guests.yaml"), "{forbidden}");
        let none = words(StatusCode::NOT_FOUND, "404 page not found");
        assert!(none.contains("--gateway-bind-address"), "{none}");
    }
}
