//! Streams: changes of VMs, and consoles.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Sink, SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::PollSender;
use tonic::{Request, Streaming};

use crate::error::{ErrorKind, ProviderError};
use crate::model::{ConsoleKind, ConsoleSession, VmRef};
use crate::provider::Result;
use crate::watch::VmEvent;
use crate::wire::ext::{self, console_request::Message};

use super::super::deadline::Call;
use super::super::metadata;
use super::super::status::from_status;
use super::Client;
use super::extensions::required;

/// Keystrokes that may wait for the network.
const CONSOLE_INPUT_QUEUE: usize = 16;

impl Client {
    pub(super) async fn watch_stream(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        let limit = self.deadlines.of(Call::WatchStart);
        let mut client = self.ext.clone();
        let sent = client.watch(Request::new(ext::WatchRequest {}));
        let events = required(self.extended(limit, sent).await?, "watch")?;
        Ok(never_silent(events, self.deadlines.of(Call::WatchSilence)))
    }

    pub(super) async fn console_session(
        &self,
        open: Request<ext::ConsoleOpen>,
    ) -> Result<ConsoleSession> {
        let limit = self.deadlines.of(Call::ConsoleStart);
        let (input, messages) = mpsc::channel(CONSOLE_INPUT_QUEUE);
        let (metadata, extensions, open) = open.into_parts();
        let _ = input.send(message(Message::Open(open))).await;
        let messages = ReceiverStream::new(messages);
        let request = Request::from_parts(metadata, extensions, messages);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.console(request)).await?;
        let output = required(answer, "a console")?
            .map(|part| part.map(|p| p.data).map_err(|s| from_status(&s)));
        Ok(ConsoleSession {
            output: output.boxed(),
            input: keystrokes(input),
        })
    }
}

fn message(message: Message) -> ext::ConsoleRequest {
    ext::ConsoleRequest {
        message: Some(message),
    }
}

fn keystrokes(
    input: mpsc::Sender<ext::ConsoleRequest>,
) -> Pin<Box<dyn Sink<Bytes, Error = ProviderError> + Send>> {
    let sink = PollSender::new(input)
        .sink_map_err(|_| console_closed())
        .with(|data| std::future::ready(Ok(message(Message::Data(data)))));
    Box::pin(sink)
}

/// Without a deadline: a console lasts as long as people look at it.
pub(super) fn console_open(vm: &VmRef, kind: ConsoleKind) -> Request<ext::ConsoleOpen> {
    let mut request = Request::new(ext::ConsoleOpen {
        vm_id: vm.id.to_string(),
        kind: ext::ConsoleKind::from(kind).into(),
    });
    metadata::put_owner(request.metadata_mut(), vm.owner.as_ref());
    request
}

fn console_closed() -> ProviderError {
    ProviderError::new(
        ErrorKind::Unavailable,
        "The console is closed: attach again",
    )
}

/// The events that we know; an error, and then the end, if the peer is silent for longer than it may be.
fn never_silent(
    events: Streaming<ext::VmEvent>,
    silence: Duration,
) -> BoxStream<'static, Result<VmEvent>> {
    let next = move |events: Option<Streaming<ext::VmEvent>>| async move {
        let mut events = events?;
        match tokio::time::timeout(silence, events.message()).await {
            Ok(Ok(event)) => event.map(|e| (Ok(e), Some(events))),
            Ok(Err(status)) => Some((Err(from_status(&status)), None)),
            Err(_) => Some((Err(silent_for(silence)), None)),
        }
    };
    stream::unfold(Some(events), next)
        .filter_map(|event: Result<ext::VmEvent>| async {
            event.map(Option::<VmEvent>::from).transpose()
        })
        .boxed()
}

fn silent_for(silence: Duration) -> ProviderError {
    let text = format!("The provider has sent no event for {silence:?}: watch again");
    ProviderError::new(ErrorKind::Unavailable, text)
}
