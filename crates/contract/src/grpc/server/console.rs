//! A console between the provider and one client. Two pumps in one task, which ends with either side.

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Sink, SinkExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::error::ProviderError;
use crate::model::ConsoleSession;
use crate::provider;
use crate::wire::ext::console_request::Message;
use crate::wire::ext::{ConsoleOpen, ConsoleRequest, ConsoleResponse};

use super::super::status::to_status;

/// Parts that may wait for a slow client; then the guest waits.
const OUTPUT_QUEUE: usize = 16;

type Output = mpsc::Sender<Result<ConsoleResponse, Status>>;

/// The message that says which console.
pub(super) async fn first(messages: &mut Streaming<ConsoleRequest>) -> Result<ConsoleOpen, Status> {
    match messages.message().await?.and_then(|m| m.message) {
        Some(Message::Open(open)) => Ok(open),
        _ => Err(to_status(ProviderError::invalid(
            "open",
            "The first message must say which console to open",
        ))),
    }
}

/// What the client reads. The session ends when the client goes or the VM stops.
pub(super) fn run(
    session: ConsoleSession,
    messages: Streaming<ConsoleRequest>,
) -> impl Stream<Item = Result<ConsoleResponse, Status>> + Send + 'static {
    let (output, parts) = mpsc::channel(OUTPUT_QUEUE);
    tokio::spawn(async move {
        let ConsoleSession {
            output: from_guest,
            input: to_guest,
        } = session;
        tokio::select! {
            () = pump_output(from_guest, &output) => {}
            error = pump_input(messages, to_guest) => {
                let _ = output.send(Err(to_status(error))).await;
            }
            () = output.closed() => {}
        }
    });
    ReceiverStream::new(parts)
}

async fn pump_output(mut from_guest: BoxStream<'static, provider::Result<Bytes>>, client: &Output) {
    while let Some(part) = from_guest.next().await {
        let part = part.map(|data| ConsoleResponse { data }).map_err(to_status);
        if client.send(part).await.is_err() {
            return;
        }
    }
}

/// Ends only with an error of the guest's side: a client that has nothing more to say may still listen.
async fn pump_input(
    mut messages: Streaming<ConsoleRequest>,
    mut to_guest: impl Sink<Bytes, Error = ProviderError> + Unpin,
) -> ProviderError {
    while let Ok(Some(message)) = messages.message().await {
        let Some(Message::Data(data)) = message.message else {
            continue;
        };
        if let Err(error) = to_guest.send(data).await {
            return error;
        }
    }
    match to_guest.close().await {
        Ok(()) => std::future::pending().await,
        Err(error) => error,
    }
}
