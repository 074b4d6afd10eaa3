//! A command in the guest.

use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::ByteString;
use polyvirt_contract::model::{ExecOutput, ExecRequest};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

const DEFAULT_TIMEOUT: u64 = 30;
const LONGEST: u64 = 600;

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecBody {
    /// The program and its arguments; no shell in between.
    pub command: Vec<String>,
    /// Given to the program, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<ByteString>,
    /// How long it may run; 30 s if absent, at most 600 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecAnswer {
    /// The program's exit code; signals as 128 + n.
    pub exit_code: i32,
    /// What it wrote, in base64.
    pub stdout: ByteString,
    /// What it complained about, in base64.
    pub stderr: ByteString,
}

impl ExecBody {
    /// Fails if there is nothing to run.
    pub fn request(self) -> Result<ExecRequest, Refusal> {
        let seconds = self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT);
        if self.command.first().is_none_or(String::is_empty) {
            let text = "Give a command: {\"command\": [\"program\", \"argument\"]}";
            return Err(Refusal::Invalid(text.to_owned()));
        }
        if !(1..=LONGEST).contains(&seconds) {
            let text = format!("timeoutSeconds is {seconds}: choose 1 to {LONGEST}");
            return Err(Refusal::Invalid(text));
        }
        Ok(ExecRequest {
            command: self.command,
            stdin: self.stdin.map(|b| Bytes::from(b.0)).unwrap_or_default(),
            timeout: Duration::from_secs(seconds),
        })
    }
}

impl From<ExecOutput> for ExecAnswer {
    fn from(output: ExecOutput) -> Self {
        Self {
            exit_code: output.exit_code,
            stdout: ByteString(output.stdout.to_vec()),
            stderr: ByteString(output.stderr.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_needed_and_times_have_bounds() {
        let body = |command: &[&str], timeout_seconds| ExecBody {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            stdin: None,
            timeout_seconds,
        };
        let request = body(&["true"], None).request().unwrap();
        assert_eq!(request.timeout, Duration::from_secs(30));
        for refused in [body(&[], None), body(&[""], None), body(&["true"], Some(0))] {
            assert!(matches!(refused.request(), Err(Refusal::Invalid(_))));
        }
    }
}
