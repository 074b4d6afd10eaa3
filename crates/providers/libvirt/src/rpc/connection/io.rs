//! The two ends of the socket, and what notices that nobody is at the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use super::{OnEvent, PING, PING_EVERY, PINGS, Shared};
use crate::rpc::frame;

pub(super) async fn write_all(
    shared: Arc<Shared>,
    mut to: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Bytes>,
) {
    let writes = async {
        while let Some(message) = messages.recv().await {
            to.write_all(&message).await?;
            to.flush().await?;
        }
        Ok::<_, std::io::Error>(())
    };
    tokio::select! {
        () = shared.over.cancelled() => {}
        written = writes => {
            let why = written.map_or_else(|error| error.to_string(), |()| "it was closed".to_owned());
            shared.end(&why);
        }
    }
    // The other side may be gone already.
    let _ = to.shutdown().await;
}

pub(super) async fn read_all(shared: Arc<Shared>, from: impl AsyncRead + Unpin, on_event: OnEvent) {
    let mut from = BufReader::with_capacity(64 << 10, from);
    loop {
        let next = tokio::select! {
            () = shared.over.cancelled() => return,
            next = frame::next(&mut from) => next,
        };
        match next {
            Ok((header, body)) => shared.take_in(header, body, &on_event),
            Err(frame::FrameError::Broken(error))
                if error.kind() == std::io::ErrorKind::UnexpectedEof =>
            {
                return shared.end("libvirt closed the connection");
            }
            Err(error) => return shared.end(&error.to_string()),
        }
    }
}

pub(super) async fn ping(shared: Arc<Shared>) {
    let mut silent = 0;
    let mut heard = shared.heard.load(Ordering::Relaxed);
    loop {
        tokio::select! {
            () = shared.over.cancelled() => return,
            () = tokio::time::sleep(PING_EVERY) => {}
        }
        let now = shared.heard.load(Ordering::Relaxed);
        silent = if now == heard { silent + 1 } else { 0 };
        heard = now;
        if silent > PINGS {
            return shared.end("libvirt gives no sign of life");
        }
        shared.sign(PING);
    }
}
