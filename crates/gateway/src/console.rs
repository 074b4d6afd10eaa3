//! A websocket on one side, a console on the other.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures::stream::SplitSink;
use futures::{SinkExt, StreamExt};
use polyvirt_contract::ProviderError;
use polyvirt_contract::model::ConsoleSession;

use crate::audit::Session;

/// So often the other side is asked whether it is still there.
const PING: Duration = Duration::from_secs(30);
/// A close frame holds no more.
const LONGEST_REASON: usize = 120;

type Out = SplitSink<WebSocket, Message>;

/// Carries bytes both ways until one side has had enough. The session is on record as long as that.
pub async fn carry(socket: WebSocket, console: ConsoleSession, session: Session) {
    let (mut out, mut incoming) = socket.split();
    let ConsoleSession {
        mut output,
        mut input,
    } = console;
    let mut ping = tokio::time::interval(PING);
    loop {
        let sent = tokio::select! {
            shown = output.next() => match shown {
                Some(Ok(bytes)) => out.send(Message::Binary(bytes)).await,
                Some(Err(error)) => break close(&mut out, &broken(&error), close_code::ERROR).await,
                None => break close(&mut out, "The VM has stopped", close_code::NORMAL).await,
            },
            typed = incoming.next() => match typed.map(|message| message.map(bytes_of)) {
                Some(Ok(Some(bytes))) => match input.send(bytes).await {
                    Ok(()) => Ok(()),
                    Err(error) => break close(&mut out, &broken(&error), close_code::ERROR).await,
                },
                Some(Ok(None)) => Ok(()),
                Some(Err(_)) | None => break,
            },
            _ = ping.tick() => out.send(Message::Ping(Bytes::new())).await,
        };
        if sent.is_err() {
            break;
        }
    }
    drop(session);
}

/// What is for the guest. The library answers pings itself, and a close ends the stream.
fn bytes_of(message: Message) -> Option<Bytes> {
    match message {
        Message::Binary(bytes) => Some(bytes),
        Message::Text(text) => Some(text.into()),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) => None,
    }
}

fn broken(error: &ProviderError) -> String {
    format!("The console is gone: {error}")
}

/// Best effort: the other side may be gone.
async fn close(out: &mut Out, reason: &str, code: u16) {
    let end = reason.floor_char_boundary(LONGEST_REASON);
    let frame = CloseFrame {
        code,
        reason: reason[..end].into(),
    };
    let _ = out.send(Message::Close(Some(frame))).await;
}
