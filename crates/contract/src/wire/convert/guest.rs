//! Into the guest.

use std::time::Duration;

use crate::error::ProviderError;
use crate::ids::VmId;
use crate::model::{ConsoleKind, ExecOutput, ExecRequest};
use crate::wire::ext;

impl ext::GuestExecRequest {
    /// The command for one VM.
    pub(crate) fn new(id: &VmId, request: ExecRequest) -> Self {
        Self {
            vm_id: id.to_string(),
            command: request.command,
            stdin: request.stdin,
            timeout_ms: u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl From<ext::GuestExecRequest> for ExecRequest {
    fn from(request: ext::GuestExecRequest) -> Self {
        Self {
            command: request.command,
            stdin: request.stdin,
            timeout: Duration::from_millis(request.timeout_ms),
        }
    }
}

impl From<ExecOutput> for ext::GuestExecResponse {
    fn from(output: ExecOutput) -> Self {
        Self {
            exit_code: output.exit_code,
            stdout: output.stdout,
            stderr: output.stderr,
        }
    }
}

impl From<ext::GuestExecResponse> for ExecOutput {
    fn from(response: ext::GuestExecResponse) -> Self {
        Self {
            exit_code: response.exit_code,
            stdout: response.stdout,
            stderr: response.stderr,
        }
    }
}

impl From<ConsoleKind> for ext::ConsoleKind {
    fn from(kind: ConsoleKind) -> Self {
        match kind {
            ConsoleKind::Serial => Self::Serial,
            ConsoleKind::Vnc => Self::Vnc,
        }
    }
}

impl ext::ConsoleOpen {
    /// Which console is asked for.
    pub(crate) fn console_kind(&self) -> Result<ConsoleKind, ProviderError> {
        match ext::ConsoleKind::try_from(self.kind) {
            Ok(ext::ConsoleKind::Unspecified | ext::ConsoleKind::Serial) => Ok(ConsoleKind::Serial),
            Ok(ext::ConsoleKind::Vnc) => Ok(ConsoleKind::Vnc),
            Err(_) => Err(ProviderError::invalid(
                "kind",
                format!("Console kind {} is not known to this provider", self.kind),
            )),
        }
    }
}
