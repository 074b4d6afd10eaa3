//! The guest's agent: commands, and its name. Quiet file systems are in [`crate::frozen`].

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::Result;
use polyvirt_contract::model::{ExecOutput, ExecRequest};
use polyvirt_provider_kit::guest::{self, Told};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::core::{Core, Vm};
use crate::errors;
use crate::rpc::{Domain, RpcError, Session, code};

/// How long the agent may take to answer, in seconds.
const PATIENCE: i32 = 5;
/// How often a command that runs is looked at: first, and at most.
const LOOK: Duration = Duration::from_millis(50);
const SLOWEST_LOOK: Duration = Duration::from_secs(1);

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

/// Where the guest is and what it calls itself; `None` if its agent does not tell.
pub(crate) async fn told(session: &Session, domain: &Domain) -> Option<Told> {
    let ask = |command| call(session, domain, command, json!({}));
    let interfaces = ask("guest-network-get-interfaces").await.ok()?;
    let named = ask("guest-get-host-name").await.unwrap_or_default();
    Some(Told {
        addresses: guest::addresses(&interfaces),
        hostname: named["host-name"].as_str().unwrap_or_default().to_owned(),
    })
}

/// The VM must run, and its agent listen.
pub(crate) fn must_listen(vm: &Vm) -> Result<()> {
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
    let command = guest::exec_arguments(request)?;
    let session = core.session().await?;
    let domain = Domain::of(vm.uuid);
    match call(&session, &domain, "guest-exec", command).await {
        Err(error) if is_refusal(&error) => Ok(guest::no_program(&error.to_string())),
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
        if let Some(output) = guest::exec_output(&status) {
            return Ok(output);
        }
        if Instant::now() + pause > deadline {
            return Err(guest::exec_too_slow());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SLOWEST_LOOK);
    }
}
