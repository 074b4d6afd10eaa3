//! The guest that is not there: a handful of commands.

use std::time::Duration;

use bytes::Bytes;
use polyvirt_contract::model::{ExecOutput, ExecRequest, VmRef};
use polyvirt_contract::{ErrorKind, ProviderError, Result};

use crate::state::{Power, State, Vm};

/// Where a guest finds what it was given at first boot.
const SEED: &str = "/var/lib/cloud/seed/nocloud/";
const COMMANDS: &str = "cat, echo, env, false, hostname, sleep, true, uname";

/// What a command does to the clock and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It ended.
    Ended(ExecOutput),
    /// It takes this long and then says nothing.
    Sleeps(Duration),
    /// It never answers.
    Hangs,
}

impl State {
    /// Runs a command in the guest of a VM.
    pub(crate) fn exec(&self, vm: &VmRef, request: &ExecRequest) -> Result<Ran> {
        let key = self.reachable_guest(vm)?;
        if key.volatile.hung {
            return Ok(Ran::Hangs);
        }
        let words: Vec<&str> = request.command.iter().map(String::as_str).collect();
        Ok(run(key, &words, &request.stdin))
    }
}

/// What the guest says to a command.
pub(crate) fn run(vm: &Vm, words: &[&str], stdin: &Bytes) -> Ran {
    let ended = |output: Bytes| Ran::Ended(said(0, output));
    match words {
        ["true"] => ended(Bytes::new()),
        ["false"] => Ran::Ended(said(1, Bytes::new())),
        ["echo", words @ ..] => ended(line(&words.join(" "))),
        ["hostname"] => ended(line(hostname(vm))),
        ["uname", ..] => ended(line("Mock")),
        ["env"] => ended(line(&format!("HOSTNAME={}", hostname(vm)))),
        ["cat"] => ended(stdin.clone()),
        ["cat", path] => Ran::Ended(cat(vm, path)),
        ["sleep", seconds] => match seconds.parse().map(Duration::try_from_secs_f64) {
            Ok(Ok(time)) => Ran::Sleeps(time),
            _ => Ran::Ended(failed(1, &format!("sleep: {seconds} is no time"))),
        },
        [] => Ran::Ended(failed(127, "No command was given")),
        [other, ..] => {
            let message = format!("{other}: not found; the guest of the mock has {COMMANDS}");
            Ran::Ended(failed(127, &message))
        }
    }
}

/// The name that the guest was given, or the VM's.
pub(crate) fn hostname(vm: &Vm) -> &str {
    let given = vm.seed.as_ref().map_or("", |seed| &seed.hostname);
    if given.is_empty() { &vm.name } else { given }
}

fn cat(vm: &Vm, path: &str) -> ExecOutput {
    let seed = vm.seed.as_ref();
    let file = path.strip_prefix(SEED).and_then(|file| match file {
        "user-data" => seed.map(|seed| &seed.user_data),
        "meta-data" => seed.map(|seed| &seed.meta_data),
        "network-config" => seed.map(|seed| &seed.network_data),
        _ => None,
    });
    match file.filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => said(0, Bytes::copy_from_slice(bytes)),
        None if path == "/etc/hostname" => said(0, line(hostname(vm))),
        None => failed(
            1,
            &format!("cat: {path}: no such file; try {SEED}user-data"),
        ),
    }
}

fn line(text: &str) -> Bytes {
    Bytes::from(format!("{text}\n"))
}

const fn said(exit_code: i32, stdout: Bytes) -> ExecOutput {
    ExecOutput {
        exit_code,
        stdout,
        stderr: Bytes::new(),
    }
}

fn failed(exit_code: i32, message: &str) -> ExecOutput {
    ExecOutput {
        exit_code,
        stdout: Bytes::new(),
        stderr: line(message),
    }
}

impl State {
    /// The VM, if its guest is up.
    fn reachable_guest(&self, vm: &VmRef) -> Result<&Vm> {
        let vm = self.powered(vm)?;
        if vm.power == Power::On {
            return Ok(vm);
        }
        let message = format!(
            "The guest of the VM {} boots or is paused; wait for its address",
            vm.key.id()
        );
        Err(ProviderError::new(ErrorKind::Precondition, message))
    }

    /// The VM, if it runs, whether its guest is up or not.
    pub(crate) fn powered(&self, vm: &VmRef) -> Result<&Vm> {
        let vm = self.allowed(vm)?;
        if vm.runs() {
            return Ok(vm);
        }
        let message = format!("The VM {} is off; start it", vm.key.id());
        Err(ProviderError::new(ErrorKind::Precondition, message))
    }
}
