//! `polyvirt vm console`.

use std::time::Duration;

use tokio::time::sleep;

use super::socket::{Heard, Socket};
use super::terminal::{RawMode, before_escape, typed};
use super::{Cluster, print_bytes, say};
use crate::commands::stop_signal;

/// After the end of a piped input, silence of this length means that the guest has nothing more to say.
const SILENCE: Duration = Duration::from_secs(1);

/// Attaches this terminal to the serial console.
pub async fn run(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let socket = Socket::open(cluster, name, "console").await?;
    say(&format!(
        "Attached to the console of {name}. Ctrl-] leaves it."
    ));
    let terminal = RawMode::enter()?;
    let outcome = carry(socket, &terminal).await;
    drop(terminal);
    let reason = outcome?;
    say("");
    if !reason.is_empty() {
        say(&reason);
    }
    Ok(())
}

/// Carries bytes both ways. The answer is why it ended, if the other side said so.
async fn carry(mut socket: Socket, terminal: &RawMode) -> anyhow::Result<String> {
    let mut keys = typed();
    let mut input_ended = false;
    let stop = stop_signal();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            heard = socket.next() => match heard? {
                Heard::Bytes(bytes) => print_bytes(&bytes),
                Heard::Gone(reason) => return Ok(reason),
            },
            key = keys.recv(), if !input_ended => {
                let Some(bytes) = key else {
                    input_ended = true;
                    continue;
                };
                // Only a person has an escape key; a file may hold any byte.
                let (bytes, leave) = if terminal.is_terminal() { before_escape(&bytes) } else { (&bytes[..], false) };
                if !bytes.is_empty() {
                    socket.send(bytes.to_vec().into()).await?;
                }
                if leave {
                    break;
                }
            }
            () = sleep(SILENCE), if input_ended => break,
            () = &mut stop => break,
        }
    }
    socket.close().await;
    Ok(String::new())
}
