//! The guest's agent: commands, its name, quiet file systems.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use polyvirt_contract::model::{ExecOutput, ExecRequest};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::core::{Core, Vm};
use crate::errors;
use crate::rpc::{Domain, RpcError, Session, code};

/// How long the agent may take to answer, in seconds.
const PATIENCE: i32 = 10;
/// How often a command that runs is looked at: first, and at most.
const LOOK: Duration = Duration::from_millis(50);
const SLOWEST_LOOK: Duration = Duration::from_secs(1);
/// What a command may write.
const MOST_OUTPUT: usize = 1 << 20;

async fn call(
    session: &Session,
    domain: &Domain,
    command: &str,
    arguments: Value,
) -> std::result::Result<Value, RpcError> {
    let line = json!({"execute": command, "arguments": arguments}).to_string();
    let answer = session.agent(domain, &line, PATIENCE).await?;
    let mut answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    Ok(answer["return"].take())
}

/// The guest's name for itself; `None` if it does not tell.
pub(crate) async fn hostname(session: &Session, domain: &Domain) -> Option<String> {
    let answer = call(session, domain, "guest-get-host-name", json!({}))
        .await
        .ok()?;
    answer["host-name"].as_str().map(str::to_owned)
}

/// The VM must run, and its agent listen.
fn must_listen(vm: &Vm) -> Result<()> {
    let Some(live) = vm.live() else {
        return Err(errors::precondition(format!(
            "The VM {} is off; start it",
            vm.uuid
        )));
    };
    if live.agent == Some(true) {
        return Ok(());
    }
    let message = format!(
        "The agent of the VM {} does not listen yet; wait for the guest to boot, or install qemu-guest-agent in it",
        vm.uuid
    );
    Err(errors::precondition(message))
}

/// Runs a command in the guest and waits for its end.
pub(crate) async fn exec(core: &Arc<Core>, vm: &Vm, request: &ExecRequest) -> Result<ExecOutput> {
    must_listen(vm)?;
    let deadline = Instant::now() + request.timeout;
    let Some((program, arguments)) = request.command.split_first() else {
        return Err(ProviderError::invalid("command", "Name a program to run"));
    };
    let command = json!({
        "path": program, "arg": arguments, "capture-output": true,
        "input-data": BASE64.encode(&request.stdin),
    });
    let session = core.session().await?;
    let domain = Domain::of(vm.uuid);
    match call(&session, &domain, "guest-exec", command).await {
        Err(error) if is_refusal(&error) => Ok(not_found(&error)),
        Err(error) => Err(error.into()),
        Ok(answer) => await_exit(&session, &domain, &answer["pid"], deadline).await,
    }
}

/// The agent answered, and said no.
fn is_refusal(error: &RpcError) -> bool {
    const INTERNAL: i32 = 1;
    error.is(code::AGENT_COMMAND_FAILED) || error.is(INTERNAL)
}

async fn await_exit(
    session: &Session,
    domain: &Domain,
    pid: &Value,
    deadline: Instant,
) -> Result<ExecOutput> {
    let mut pause = LOOK;
    loop {
        let status = call(session, domain, "guest-exec-status", json!({"pid": pid})).await?;
        if status["exited"].as_bool() == Some(true) {
            return Ok(output(&status));
        }
        if Instant::now() + pause > deadline {
            let message =
                "The command has not ended in time; allow more time, or look at the guest";
            return Err(ProviderError::new(ErrorKind::Timeout, message));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SLOWEST_LOOK);
    }
}

fn output(status: &Value) -> ExecOutput {
    let text = |key: &str| {
        let encoded = status[key].as_str().unwrap_or_default();
        let mut bytes = BASE64.decode(encoded).unwrap_or_default();
        bytes.truncate(MOST_OUTPUT);
        Bytes::from(bytes)
    };
    let number = |key: &str| status[key].as_i64().and_then(|n| i32::try_from(n).ok());
    let exit_code = number("exitcode").or_else(|| number("signal").map(|signal| 128 + signal));
    ExecOutput {
        exit_code: exit_code.unwrap_or(0),
        stdout: text("out-data"),
        stderr: text("err-data"),
    }
}

/// The guest has no such program: as a shell says it.
fn not_found(error: &RpcError) -> ExecOutput {
    ExecOutput {
        exit_code: 127,
        stdout: Bytes::new(),
        stderr: Bytes::from(format!("{error}\n")),
    }
}

/// Makes the guest's file systems quiet, if its agent can; whether it could.
pub(crate) async fn freeze(session: &Session, vm: &Vm) -> bool {
    must_listen(vm).is_ok() && session.freeze(&Domain::of(vm.uuid)).await.is_ok()
}

/// Lets the guest's file systems go on.
pub(crate) async fn thaw(session: &Session, vm: &Vm) {
    if let Err(error) = session.thaw(&Domain::of(vm.uuid)).await {
        tracing::warn!(vm = %vm.uuid, %error, "The guest's file systems may still be quiet");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_is_read() {
        let ended = output(&json!({"exited": true, "exitcode": 3, "out-data": "aGk="}));
        assert_eq!((ended.exit_code, ended.stdout), (3, Bytes::from("hi")));
        assert_eq!(output(&json!({"exited": true, "signal": 9})).exit_code, 137);
    }
}
