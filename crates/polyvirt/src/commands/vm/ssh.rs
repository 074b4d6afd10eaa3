//! `polyvirt vm ssh`.

use std::process::ExitStatus;

use anyhow::{Context, bail};
use polyvirt_api::infra::PowerState;
use tokio::process::Command;

use super::options::Ssh;
use super::{Cluster, is_off, say};
use crate::exit::Failure;

/// The options of ssh that have a value.
const WITH_VALUE: &str = "BbcDEeFIiJLlmOopQRSWw";
/// How ssh ends if the fault is its own or the network's.
const CANNOT_CONNECT: i32 = 255;

/// Runs ssh to the guest's first address, and ends with its exit code.
pub async fn run(cluster: &Cluster, options: &Ssh) -> anyhow::Result<()> {
    let vm = cluster.vm(&options.name).await?;
    let status = vm.status.unwrap_or_default();
    if status.power_state == Some(PowerState::Off) {
        bail!(is_off(&options.name));
    }
    let ips = status.ips;
    let Some(ip) = ips.first() else {
        bail!(
            "{} has told no address yet: `polyvirt vm describe {}` shows what it waits for",
            options.name,
            options.name
        );
    };
    let status = Command::new("ssh")
        .args(arguments(ip, options))
        .status()
        .await;
    let status = status.context("ssh cannot be started: install openssh-client")?;
    if status.code() == Some(CANNOT_CONNECT) {
        say(&format!(
            "ssh failed. An address of a network inside QEMU is not reachable from here: `polyvirt vm exec {name} -- COMMAND` and `polyvirt vm console {name}` always are",
            name = options.name
        ));
    }
    ended(status)
}

/// Options first, then the address, then the command, as ssh wants them.
fn arguments(ip: &str, options: &Ssh) -> Vec<String> {
    let address = match &options.user {
        Some(user) => format!("{user}@{ip}"),
        None => ip.to_owned(),
    };
    let mut words = options.arguments.clone();
    words.insert(options_end(&words), address);
    words
}

/// Where the options end. Some have their value in the next word.
fn options_end(words: &[String]) -> usize {
    let mut at = 0;
    while let Some(letters) = words.get(at).and_then(|word| word.strip_prefix('-')) {
        let with_value = letters.find(|letter| WITH_VALUE.contains(letter));
        let value_follows = with_value.is_some_and(|found| found + 1 == letters.len());
        at += if value_follows { 2 } else { 1 };
    }
    at.min(words.len())
}

fn ended(status: ExitStatus) -> anyhow::Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Program(u8::try_from(code).unwrap_or(u8::MAX)).into()),
        None => bail!("ssh was stopped by a signal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_stands_between_options_and_command() {
        let ssh = |user: Option<&str>, words: &[&str]| Ssh {
            name: "web".to_owned(),
            user: user.map(str::to_owned),
            arguments: words.iter().map(|&word| word.to_owned()).collect(),
        };
        assert_eq!(arguments("10.0.0.1", &ssh(None, &[])), ["10.0.0.1"]);
        assert_eq!(
            arguments("10.0.0.1", &ssh(Some("ada"), &["-v", "uptime", "-p"])),
            ["-v", "ada@10.0.0.1", "uptime", "-p"]
        );
        assert_eq!(
            arguments(
                "10.0.0.1",
                &ssh(None, &["-vp", "2222", "-oBatchMode=yes", "-i", "key", "id"])
            ),
            [
                "-vp",
                "2222",
                "-oBatchMode=yes",
                "-i",
                "key",
                "10.0.0.1",
                "id"
            ]
        );
        assert_eq!(
            arguments("10.0.0.1", &ssh(None, &["-i"])),
            ["-i", "10.0.0.1"]
        );
    }
}
