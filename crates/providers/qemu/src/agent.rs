//! The guest's agent: addresses, name, commands, quiet file systems.
//!
//! QEMU tells when the agent comes and goes. From then on its addresses are asked for, often until they are known and then
//! once in two minutes, which is all that is asked of a VM at rest.

use std::sync::{Arc, Weak};
use std::time::Duration;

use polyvirt_contract::model::{ExecOutput, ExecRequest};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::guest::{self, Quiet, Told};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::Instant;

use crate::cmdline::AGENT_SOCKET;
use crate::core::Core;
use crate::errors;
use crate::vm::Vm;

/// How long the agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often addresses are asked for: first, at most until they are known, and afterwards.
const FIRST: Duration = Duration::from_millis(300);
const SLOWEST: Duration = Duration::from_secs(10);
const AT_REST: Duration = Duration::from_secs(120);
/// How often a guest is let go on that did not.
const THAW_AGAIN: Duration = Duration::from_secs(5);
/// How often a command that runs is looked at: first, and at most.
const LOOK: Duration = Duration::from_millis(20);
const SLOWEST_LOOK: Duration = Duration::from_millis(500);
/// The byte by which the agent forgets what it has read so far.
const FORGET: u8 = 0xff;

/// The most that is read of what a guest says. One that says more is taken for one that went away.
const MOST_BYTES: u64 = 32 << 20;

/// Whether an answer is waited for: a guest that shuts down may not give one.
enum Answer {
    Wait,
    None,
}

/// Asks the agent for addresses for as long as it is there.
pub(crate) fn follow(core: &Arc<Core>, vm: &Arc<Vm>) {
    let (weak, stop) = (Arc::downgrade(core), core.stop.clone());
    let (vm, coming) = (Arc::downgrade(vm), vm.agent_comes());
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = keep_asking(weak, vm, coming) => {}
        }
    });
}

async fn keep_asking(core: Weak<Core>, vm: Weak<Vm>, coming: u64) {
    let mut pause = FIRST;
    loop {
        let (Some(core), Some(vm)) = (core.upgrade(), vm.upgrade()) else {
            return;
        };
        if !vm.agent_stays(coming) {
            return;
        }
        if vm.is_frozen() {
            thaw_again(&core, &vm).await;
        }
        match look(&vm).await {
            Ok(known) => {
                let has_address = known.addresses.values().any(|list| !list.is_empty());
                let changed = vm.guest(|guest| {
                    guest.hostname = known.hostname;
                    guest.addresses = known.addresses;
                });
                if changed {
                    vm.touch(&core);
                }
                pause = if has_address {
                    AT_REST
                } else {
                    (pause * 2).min(SLOWEST)
                };
            }
            Err(_) => pause = (pause * 2).min(SLOWEST),
        }
        if vm.is_frozen() {
            pause = THAW_AGAIN;
        }
        let freezes = vm.freezes.clone();
        drop((core, vm));
        // A guest that was just left frozen does not wait for its turn.
        let _ = tokio::time::timeout(pause, freezes.notified()).await;
    }
}

async fn look(vm: &Vm) -> Result<Told> {
    let interfaces = call(vm, "guest-network-get-interfaces", json!({})).await?;
    let named = call(vm, "guest-get-host-name", json!({}))
        .await
        .unwrap_or_default();
    Ok(Told {
        hostname: named["host-name"].as_str().unwrap_or_default().to_owned(),
        addresses: guest::addresses(&interfaces),
    })
}

/// Asks the guest to shut down. No answer means yes: the agent goes with the guest.
pub(crate) async fn shut_down(vm: &Vm) -> Result<()> {
    let arguments = json!({"mode": "powerdown"});
    exchange(vm, "guest-shutdown", arguments, Answer::None)
        .await
        .map(drop)
}

/// Makes the guest's file systems quiet while a snapshot is taken. Whatever comes of it, the guest must be woken by [`thaw`].
pub(crate) async fn freeze(vm: &Vm) -> Quiet {
    // One that does not answer this is not asked for more: what it may have heard of it nobody could tell.
    if !vm.agent_is_open() || call(vm, "guest-fsfreeze-status", json!({})).await.is_err() {
        return Quiet::NotAsked;
    }
    after(&call(vm, "guest-fsfreeze-freeze", json!({})).await)
}

/// An agent that says no has let go on what it had begun with. One whose answer is lost may have done it.
fn after<T>(freeze: &Result<T>) -> Quiet {
    match freeze {
        Ok(_) => Quiet::Yes,
        Err(error) if error.kind == ErrorKind::Internal => Quiet::NotAsked,
        Err(_) => Quiet::Perhaps,
    }
}

/// Lets the guest's file systems go on. That this failed is a fault of the VM, until it is mended by whoever follows the agent.
pub(crate) async fn thaw(vm: &Vm, quiet: Quiet) {
    if quiet == Quiet::NotAsked {
        return;
    }
    if let Err(error) = call(vm, "guest-fsfreeze-thaw", json!({})).await {
        tracing::warn!(vm = %vm.uuid(), %error, "The guest's file systems may still be frozen");
        vm.stays_frozen(guest::still_quiet(&error));
    }
}

async fn thaw_again(core: &Core, vm: &Vm) {
    let frozen = match call(vm, "guest-fsfreeze-thaw", json!({})).await {
        Ok(_) => String::new(),
        Err(error) => guest::still_quiet(&error),
    };
    if vm.guest(|guest| guest.frozen = frozen) {
        vm.touch(core);
    }
}

/// Wakes a guest that an earlier life of the provider left quiet.
pub(crate) async fn wake(vm: &Vm) {
    let status = call(vm, "guest-fsfreeze-status", json!({})).await;
    if status.is_ok_and(|status| status == "frozen") {
        thaw(vm, Quiet::Yes).await;
    }
}

/// Runs a command in the guest and waits for its end.
pub(crate) async fn exec(vm: &Vm, request: &ExecRequest) -> Result<ExecOutput> {
    vm.must_live()?;
    if !vm.agent_is_open() {
        let message = format!(
            "The agent of the VM {} does not listen yet; wait for the guest to boot, or install qemu-guest-agent in it",
            vm.uuid()
        );
        return Err(errors::precondition(message));
    }
    let deadline = Instant::now() + request.timeout;
    let command = guest::exec_arguments(request)?;
    let answer = match call(vm, "guest-exec", command).await {
        Err(error) if error.kind == ErrorKind::Internal => {
            return Ok(guest::no_program(&error.message));
        }
        answer => answer?,
    };
    await_exit(vm, &answer["pid"], deadline).await
}

async fn await_exit(vm: &Vm, pid: &Value, deadline: Instant) -> Result<ExecOutput> {
    let mut pause = LOOK;
    loop {
        let status = call(vm, "guest-exec-status", json!({"pid": pid})).await?;
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

async fn call(vm: &Vm, command: &str, arguments: Value) -> Result<Value> {
    exchange(vm, command, arguments, Answer::Wait).await
}

/// One command on a connection of its own: what an earlier one left unread cannot be mistaken for the answer.
async fn exchange(vm: &Vm, command: &str, arguments: Value, answer: Answer) -> Result<Value> {
    let _alone = vm.agent.lock().await;
    let talk = talk(vm, command, arguments, answer);
    let silent = || {
        ProviderError::new(
            ErrorKind::Timeout,
            format!("The guest's agent has not answered {command} in time"),
        )
    };
    tokio::time::timeout(PATIENCE, talk)
        .await
        .unwrap_or_else(|_| Err(silent()))
}

async fn talk(vm: &Vm, command: &str, arguments: Value, answer: Answer) -> Result<Value> {
    let folder = vm.dir.open_run()?;
    let said = match UnixStream::connect(folder.join(AGENT_SOCKET)).await {
        Ok(stream) => converse(stream, command, arguments, answer).await,
        Err(error) => Err(error),
    };
    understood(command, said)
}

/// What an agent has said, if anything was to be said.
fn understood(command: &str, said: std::io::Result<Option<String>>) -> Result<Value> {
    match said {
        Ok(Some(line)) => read_answer(command, &line),
        Ok(None) => Ok(Value::Null),
        Err(error) => {
            let message = format!("The guest's agent cannot be reached: {error}");
            Err(ProviderError::new(ErrorKind::Unavailable, message))
        }
    }
}

async fn converse(
    stream: UnixStream,
    command: &str,
    arguments: Value,
    answer: Answer,
) -> std::io::Result<Option<String>> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader.take(MOST_BYTES));
    let id = command.len() as u64 ^ 0x5eed_0000;
    let sync = json!({"execute": "guest-sync-delimited", "arguments": {"id": id}});
    let mut greeting = vec![FORGET];
    greeting.extend(format!("{sync}\n").into_bytes());
    writer.write_all(&greeting).await?;
    read_sync(&mut reader, id).await?;
    let line = format!("{}\n", json!({"execute": command, "arguments": arguments}));
    writer.write_all(line.as_bytes()).await?;
    if matches!(answer, Answer::None) {
        writer.flush().await?;
        return Ok(None);
    }
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    Ok(Some(line))
}

/// Passes over everything before the answer to our greeting.
async fn read_sync<R: tokio::io::AsyncBufRead + Unpin>(
    reader: &mut R,
    id: u64,
) -> std::io::Result<()> {
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let start = line
            .iter()
            .rposition(|byte| *byte == FORGET)
            .map_or(0, |place| place + 1);
        let answer: Value = serde_json::from_slice(&line[start..]).unwrap_or_default();
        if answer["return"].as_u64() == Some(id) {
            return Ok(());
        }
    }
}

fn read_answer(command: &str, line: &str) -> Result<Value> {
    let mut answer: Value = serde_json::from_str(line).unwrap_or_default();
    if let Some(reason) = answer["error"]["desc"].as_str() {
        return Err(errors::internal(format!(
            "The guest's agent refused {command}: {reason}"
        )));
    }
    match answer.get_mut("return") {
        Some(value) => Ok(value.take()),
        None => Err(ProviderError::new(
            ErrorKind::Unavailable,
            "The guest's agent went away",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freeze_whose_answer_is_lost_may_have_been_done() {
        assert_eq!(after(&Ok(())), Quiet::Yes);
        let refused = read_answer("freeze", r#"{"error": {"desc": "disabled"}}"#);
        assert_eq!(after(&refused), Quiet::NotAsked);
        assert_eq!(after(&read_answer("freeze", "")), Quiet::Perhaps);
    }

    /// Says that and no end of line, for as long as somebody listens. Gives how many bytes it got rid of.
    async fn chatter(stream: UnixStream, first: &str) -> u64 {
        let (mut reader, mut writer) = stream.into_split();
        let deaf = tokio::spawn(async move {
            let mut heard = Vec::new();
            reader.read_to_end(&mut heard).await
        });
        let mut said = 0;
        let mut piece = first.as_bytes().to_vec();
        while writer.write_all(&piece).await.is_ok() {
            said += piece.len() as u64;
            piece = vec![b'x'; 1 << 20];
        }
        deaf.abort();
        said
    }

    #[tokio::test]
    async fn a_guest_that_never_ends_its_line_is_not_listened_to_for_ever() {
        let id = "guest-info".len() as u64 ^ 0x5eed_0000;
        let in_step = format!("{{\"return\": {id}}}\n{{\"return\": \"");
        for first in ["{\"return\": \"", &in_step] {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let talk = converse(ours, "guest-info", json!({}), Answer::Wait);
            let (answer, said) = tokio::join!(talk, chatter(theirs, first));
            let error = understood("guest-info", answer).expect_err("no answer");
            assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
            assert!(said < 2 * MOST_BYTES, "{said} bytes were taken");
        }
    }

    #[tokio::test]
    async fn what_was_left_unread_is_passed_over() {
        let bytes = b"{\"return\": {}}\n\xff{\"return\": 7}\n".to_vec();
        read_sync(&mut BufReader::new(bytes.as_slice()), 7)
            .await
            .expect("found");
    }
}
