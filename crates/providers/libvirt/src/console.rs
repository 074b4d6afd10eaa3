//! Consoles: the serial port through libvirt, the screen beside it on the same way.

use std::sync::Arc;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use polyvirt_contract::model::{ConsoleKind, ConsoleSession};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::PollSender;

use crate::core::{Core, Vm};
use crate::errors;
use crate::rpc::{Domain, Stream};
use crate::transport::{self, Socket};

/// Pieces that may wait on either side.
const WAITING: usize = 64;

/// Attaches to a console. Whoever was attached to the serial port before loses it: it has one reader.
pub(crate) async fn attach(core: &Arc<Core>, vm: &Vm, kind: ConsoleKind) -> Result<ConsoleSession> {
    let Some(live) = vm.live() else {
        return Err(errors::precondition(format!(
            "The VM {} is off; start it",
            vm.uuid
        )));
    };
    let (to_guest, from_user) = mpsc::channel::<Bytes>(WAITING);
    let (to_user, from_guest) = mpsc::channel::<Result<Bytes>>(WAITING);
    match kind {
        ConsoleKind::Serial => {
            let session = core.session().await?;
            let stream = session.console(&Domain::of(vm.uuid)).await?;
            tokio::spawn(carry_stream(stream, from_user, to_user));
        }
        ConsoleKind::Vnc => {
            let target = live.screen.ok_or_else(|| {
                errors::precondition(format!("The VM {} has no screen for VNC", vm.uuid))
            })?;
            let socket = transport::beside(&core.config, &target).await?;
            let socket = socket.ok_or_else(no_way)?;
            tokio::spawn(carry_socket(socket, from_user, to_user));
        }
    }
    Ok(ConsoleSession {
        output: ReceiverStream::new(from_guest).boxed(),
        input: Box::pin(PollSender::new(to_guest).sink_map_err(|_| ended())),
    })
}

fn no_way() -> ProviderError {
    let message = "The screen is reached through qemu+ssh or on the host itself; TLS and TCP lead to libvirt alone";
    ProviderError::new(ErrorKind::Unsupported, message)
}

fn ended() -> ProviderError {
    errors::precondition("The console has ended")
}

/// Ends when either side does. Dropping the stream tells libvirt.
async fn carry_stream(
    mut stream: Stream,
    mut from_user: mpsc::Receiver<Bytes>,
    to_user: mpsc::Sender<Result<Bytes>>,
) {
    loop {
        tokio::select! {
            () = to_user.closed() => return,
            bytes = from_user.recv() => match bytes {
                Some(bytes) if stream.send(&bytes).await.is_ok() => {}
                _ => return,
            },
            bytes = stream.next() => match bytes {
                Ok(Some(bytes)) => {
                    if to_user.send(Ok(bytes)).await.is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // The VM may have stopped, which ends a console like any other.
                    let _ = to_user.send(Err(error.into())).await;
                    return;
                }
            },
        }
    }
}

async fn carry_socket(
    socket: Socket,
    mut from_user: mpsc::Receiver<Bytes>,
    to_user: mpsc::Sender<Result<Bytes>>,
) {
    let (mut reads, mut writes) = tokio::io::split(socket);
    let mut piece = vec![0; 64 << 10];
    loop {
        tokio::select! {
            () = to_user.closed() => return,
            bytes = from_user.recv() => match bytes {
                Some(bytes) if writes.write_all(&bytes).await.is_ok() => {}
                _ => return,
            },
            count = reads.read(&mut piece) => match count {
                Ok(count) if count > 0 => {
                    let bytes = Bytes::copy_from_slice(&piece[..count]);
                    if to_user.send(Ok(bytes)).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}
