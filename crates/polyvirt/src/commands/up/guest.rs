//! Waits until the first VM has booted.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::{Api, Client};
use polyvirt_api::infra::{PowerState, VMPhase, VirtualMachine, VirtualMachineStatus};

use super::first_look::FirstLook;
use super::progress::{Done, Progress};

const POLL: Duration = Duration::from_millis(300);
/// A failure that lasts this long will not go away by itself.
const FAILED_FOR_GOOD: Duration = Duration::from_secs(20);

/// How far a VM is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// It runs and has told its addresses.
    Booted(String),
    /// Its user wants it off.
    WantedOff,
    /// Something is wrong.
    Failed(String),
    /// Not there yet.
    Under(String),
}

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The guest runs and has an address.
    Booted,
    /// Its user wants it off.
    WantedOff,
}

/// Returns when the guest runs and has an address, or its user wants it off. Shows each change.
pub async fn until_booted(
    progress: &Progress,
    client: &Client,
    name: &str,
    mut look: FirstLook,
    limit: Duration,
) -> anyhow::Result<(Outcome, Done)> {
    let api: Api<VirtualMachine> = Api::namespaced(client.clone(), "default");
    let begin = Instant::now();
    let mut failed_since = None;
    let mut told = String::new();
    loop {
        // In this order: a word that is read after the look is of now.
        look.refresh().await;
        let vm = api.get(name).await.context("The VirtualMachine is gone")?;
        match stage(&vm, look) {
            Stage::Booted(ips) => return Ok((Outcome::Booted, Done::new("Running", ips))),
            Stage::WantedOff => {
                let done = Done::new("off", "as its spec.powerState says");
                return Ok((Outcome::WantedOff, done));
            }
            Stage::Failed(why) => {
                let since = *failed_since.get_or_insert_with(Instant::now);
                if since.elapsed() > FAILED_FOR_GOOD {
                    bail!("VirtualMachine {name} does not start: {why}");
                }
            }
            Stage::Under(text) => {
                failed_since = None;
                let seconds = begin.elapsed().as_secs();
                progress.under_way(&format!("VM {name}"), &format!("{seconds} s, {text}"));
                if text != told {
                    progress.note(&format!("{seconds:>4} s  {text}"));
                    told = text;
                }
            }
        }
        if begin.elapsed() > limit {
            bail!("{}", too_late(name, &vm, limit));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn stage(vm: &VirtualMachine, look: FirstLook) -> Stage {
    if !matches!(vm.spec.power_state, None | Some(PowerState::On)) {
        return Stage::WantedOff;
    }
    let Some(status) = &vm.status else {
        return Stage::Under("waits for the manager".to_owned());
    };
    let phase = status.phase.unwrap_or_default();
    match phase {
        VMPhase::Running if look != FirstLook::Done => {
            Stage::Under("the manager looks at it".to_owned())
        }
        VMPhase::Running if !status.ips.is_empty() => Stage::Booted(status.ips.join(", ")),
        VMPhase::Running => Stage::Under("runs, no address yet".to_owned()),
        VMPhase::Failed => Stage::Failed(message(status)),
        _ => Stage::Under(format!("{phase:?}: {}", message(status))),
    }
}

fn message(status: &VirtualMachineStatus) -> String {
    let said = status.message.clone().filter(|text| !text.is_empty());
    said.unwrap_or_else(|| "nothing is said about it".to_owned())
}

fn too_late(name: &str, vm: &VirtualMachine, limit: Duration) -> String {
    let phase = vm.status.as_ref().and_then(|s| s.phase).unwrap_or_default();
    let said = vm.status.as_ref().map(message).unwrap_or_default();
    format!(
        "VirtualMachine {name} has not booted within {} s; it is {phase:?}: {said}. Look at `kubectl describe vm {name}`, or give it more time with --timeout",
        limit.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(phase: VMPhase, ips: &[&str]) -> VirtualMachine {
        let mut vm =
            VirtualMachine::new("demo", polyvirt_api::infra::VirtualMachineSpec::default());
        vm.status = Some(VirtualMachineStatus {
            phase: Some(phase),
            ips: ips.iter().map(|&ip| ip.to_owned()).collect(),
            message: Some("why".to_owned()),
            ..VirtualMachineStatus::default()
        });
        vm
    }

    #[test]
    fn a_guest_has_booted_when_it_runs_and_has_an_address() {
        let booted = Stage::Booted("10.0.2.15".to_owned());
        let stage = |vm: &VirtualMachine| stage(vm, FirstLook::Done);
        assert_eq!(stage(&vm(VMPhase::Running, &["10.0.2.15"])), booted);
        assert!(matches!(stage(&vm(VMPhase::Running, &[])), Stage::Under(_)));
        assert_eq!(
            stage(&vm(VMPhase::Failed, &[])),
            Stage::Failed("why".to_owned())
        );
        let mut off = vm(VMPhase::Stopped, &[]);
        off.spec.power_state = Some(PowerState::Off);
        assert_eq!(stage(&off), Stage::WantedOff);
    }

    #[test]
    fn what_the_last_manager_said_does_not_count() {
        let running = vm(VMPhase::Running, &["10.0.2.15"]);
        let stage = stage(&running, FirstLook::Awaited(1));
        assert!(matches!(stage, Stage::Under(_)), "{stage:?}");
    }
}
