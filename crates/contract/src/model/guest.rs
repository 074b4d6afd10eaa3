//! Into the guest: commands and consoles.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::Sink;
use futures::stream::BoxStream;

use crate::error::ProviderError;

/// A command to run in the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    /// Program and arguments; no shell in between.
    pub command: Vec<String>,
    /// Given to the program.
    pub stdin: Bytes,
    /// How long it may run.
    pub timeout: Duration,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// The program's exit code; signals as 128 + n.
    pub exit_code: i32,
    /// At most 1 MiB.
    pub stdout: Bytes,
    /// At most 1 MiB.
    pub stderr: Bytes,
}

/// Which console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsoleKind {
    /// The first serial port.
    #[default]
    Serial,
    /// The screen, as RFB.
    Vnc,
}

/// A console attached to: bytes of the guest come out, bytes for the guest go in. Dropping it detaches.
pub struct ConsoleSession {
    /// From the guest. The stream ends when the VM stops.
    pub output: BoxStream<'static, Result<Bytes, ProviderError>>,
    /// To the guest.
    pub input: Pin<Box<dyn Sink<Bytes, Error = ProviderError> + Send>>,
}

impl std::fmt::Debug for ConsoleSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConsoleSession")
    }
}
