//! A serial console: the lines of a boot, then a shell that knows a handful of commands.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::stream::{self, AbortHandle, StreamExt as _, abortable};
use futures::{SinkExt as _, Stream};
use polyvirt_contract::model::ConsoleSession;
use polyvirt_contract::{ErrorKind, ProviderError, Result};

use crate::guest::{self, Ran};
use crate::state::{Change, State, Vm, VmKey};

/// Bytes that may wait for the guest.
const WAITING: usize = 64;

/// The sessions that are attached, to be ended with their VM.
#[derive(Debug, Default)]
pub(crate) struct Consoles(BTreeMap<VmKey, Vec<AbortHandle>>);

impl Consoles {
    /// Attaches to the VM.
    pub(crate) fn attach(&mut self, vm: &Vm) -> ConsoleSession {
        let (input, typed) = mpsc::channel::<Bytes>(WAITING);
        let boot = stream::iter([Ok(boot_lines(vm))]);
        let (output, handle) = abortable(boot.chain(shell(vm.clone(), typed)));
        let sessions = self.0.entry(vm.key).or_default();
        sessions.retain(|session| !session.is_aborted());
        sessions.push(handle);
        ConsoleSession {
            output: output.boxed(),
            input: Box::pin(input.sink_map_err(|_| detached())),
        }
    }

    /// Ends the sessions of a VM that stopped or went.
    pub(crate) fn follow(&mut self, state: &State, change: &Change) {
        if self.0.is_empty() {
            return;
        }
        match change {
            Change::Vm(key) if !state.get(*key).is_some_and(Vm::runs) => self.end(*key),
            Change::Gone(key, ..) => self.end(*key),
            _ => {}
        }
    }

    fn end(&mut self, key: VmKey) {
        let sessions = self.0.remove(&key);
        sessions
            .into_iter()
            .flatten()
            .for_each(|session| session.abort());
    }

    pub(crate) fn end_all(&mut self) {
        let sessions = std::mem::take(&mut self.0);
        sessions
            .into_values()
            .flatten()
            .for_each(|session| session.abort());
    }
}

fn boot_lines(vm: &Vm) -> Bytes {
    let firmware = if vm.uefi { "UEFI" } else { "BIOS" };
    let (cpu, memory) = (vm.hardware.cpu, vm.hardware.memory_mib);
    let name = guest::hostname(vm);
    let id = vm.key.id();
    Bytes::from(format!(
        "[mock] {firmware}: {id}, {cpu} CPUs, {memory} MiB\r\n[mock] boot {} of {name}\r\n{name}# ",
        vm.boots
    ))
}

/// Echoes what is typed, and at each end of a line what the command says.
fn shell(vm: Vm, typed: mpsc::Receiver<Bytes>) -> impl Stream<Item = Result<Bytes>> + Send {
    let mut line = Vec::new();
    typed.map(move |bytes| {
        let mut shown = Vec::with_capacity(bytes.len());
        for &byte in &bytes {
            if matches!(byte, b'\r' | b'\n') {
                shown.extend_from_slice(b"\r\n");
                shown.extend(answer(&vm, &std::mem::take(&mut line)));
            } else {
                shown.push(byte);
                line.push(byte);
            }
        }
        Ok(Bytes::from(shown))
    })
}

fn answer(vm: &Vm, line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut said = Vec::new();
    if !words.is_empty()
        && let Ran::Ended(output) = guest::run(vm, &words, &Bytes::new())
    {
        let whole = [output.stdout, output.stderr].concat();
        said.extend(
            String::from_utf8_lossy(&whole)
                .replace('\n', "\r\n")
                .into_bytes(),
        );
    }
    said.extend(format!("{}# ", guest::hostname(vm)).into_bytes());
    said
}

fn detached() -> ProviderError {
    ProviderError::new(
        ErrorKind::Unavailable,
        "The console is closed; attach again",
    )
}
