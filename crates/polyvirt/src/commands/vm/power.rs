//! `polyvirt vm start`, `stop` and `restart`.

use std::time::{Duration, Instant};

use anyhow::bail;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use polyvirt_api::infra::{PowerState, VMPhase, VirtualMachine};
use polyvirt_api::names::REBOOT_ANNOTATION;
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::kind;
use serde_json::{Value, json};

use super::connect::unreachable;
use super::options::{Change, Stop, Wait};
use super::{Cluster, is_off, print, say};
use crate::exit::Failure;

const POLL: Duration = Duration::from_millis(300);
/// How long it may take until the status shows that the agent of a guest that restarts has gone.
const AGENT_GOES: Duration = Duration::from_secs(5);
/// How long the manager may take to note what somebody else has done.
const NOTED: Duration = Duration::from_secs(20);

/// Switches a VM on.
pub async fn start(cluster: &Cluster, change: &Change) -> anyhow::Result<()> {
    set(cluster, &change.name, PowerState::On, &change.wait).await
}

/// Shuts a VM down.
pub async fn stop(cluster: &Cluster, stop: &Stop) -> anyhow::Result<()> {
    let wanted = if stop.force {
        PowerState::Off
    } else {
        PowerState::OffGraceful
    };
    set(cluster, &stop.name, wanted, &stop.wait).await
}

async fn set(cluster: &Cluster, name: &str, wanted: PowerState, wait: &Wait) -> anyhow::Result<()> {
    if let Some(is) = undone_by_others(&cluster.vm(name).await?, wanted) {
        take_over(cluster, name, is).await?;
    }
    let vm = patch(cluster, name, json!({"spec": {"powerState": wanted}})).await?;
    let generation = vm.metadata.generation;
    let verb = if wanted == PowerState::On {
        "start"
    } else {
        "stop"
    };
    if !wait.wait {
        print(&format!("virtualmachine/{name}: asked to {verb}\n"));
        return Ok(());
    }
    until(cluster, name, verb, wait.timeout, |vm| {
        match refusal(vm, generation) {
            Some(why) => bail!("{name} does not {verb}: {why}"),
            None => Ok(reached(vm, generation, wanted)),
        }
    })
    .await
}

/// Why the change is not carried out until somebody changes something; `None` while it may yet be.
fn refusal(vm: &VirtualMachine, generation: Option<i64>) -> Option<String> {
    let conditions = &vm.status.as_ref()?.conditions;
    let ready = conditions.iter().find(|c| c.type_ == kind::READY)?;
    let of_this = ready.observed_generation >= generation && ready.status == "False";
    let reason = Reason::parse(&ready.reason).filter(|_| of_this)?;
    let is_final = matches!(
        reason,
        Reason::HookFailed
            | Reason::InvalidSpec
            | Reason::InvalidRequest
            | Reason::UnsupportedByProvider
            | Reason::IdentityConflict
            | Reason::VmMissing
    );
    is_final.then(|| ready.message.clone())
}

/// What the VM is, where it is declared as it is wanted and somebody has changed that on the hypervisor: to declare the same again
/// would change nothing.
fn undone_by_others(vm: &VirtualMachine, wanted: PowerState) -> Option<PowerState> {
    let declared = vm.spec.power_state.unwrap_or_default();
    let status = vm.status.as_ref()?;
    let seen = status.observed_generation >= vm.metadata.generation && status.operation.is_none();
    let differs = is_up(declared) == is_up(wanted) && !is(status.power_state, wanted);
    status
        .power_state
        .filter(|_| seen && differs)
        .and_then(declarable)
}

/// The same as a spec may declare it; `None` where nothing is known.
const fn declarable(power: PowerState) -> Option<PowerState> {
    match power {
        PowerState::Suspended => Some(PowerState::Paused),
        PowerState::Unknown => None,
        other => Some(other),
    }
}

/// Declares what is, and waits until the manager has noted it: from then on another declaration is a change.
async fn take_over(cluster: &Cluster, name: &str, is: PowerState) -> anyhow::Result<()> {
    say(&format!(
        "{name} is {is:?} although it is declared otherwise; that is taken over first"
    ));
    let vm = patch(cluster, name, json!({"spec": {"powerState": is}})).await?;
    let begin = Instant::now();
    while begin.elapsed() < NOTED {
        let status = cluster.vm(name).await?.status.unwrap_or_default();
        if status.observed_generation >= vm.metadata.generation && status.operation.is_none() {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    let text = format!(
        "The manager has not seen within {} s that {name} was changed; see whether it runs (polyvirt status)",
        NOTED.as_secs()
    );
    Err(Failure::TimedOut(text).into())
}

/// Reboots a VM.
pub async fn restart(cluster: &Cluster, change: &Change) -> anyhow::Result<()> {
    let name = &change.name;
    let vm = cluster.vm(name).await?;
    let power = vm.status.as_ref().and_then(|status| status.power_state);
    if power.is_some_and(|power| power != PowerState::On) {
        bail!(is_off(name));
    }
    let request = Timestamp::now().to_string();
    let annotations = json!({REBOOT_ANNOTATION: request});
    patch(
        cluster,
        name,
        json!({"metadata": {"annotations": annotations}}),
    )
    .await?;
    if !change.wait.wait {
        print(&format!("virtualmachine/{name}: asked to restart\n"));
        return Ok(());
    }
    let mut agent = Agent::of(&vm);
    until(cluster, name, "restart", change.wait.timeout, |vm| {
        let status = vm.status.as_ref();
        let restarted = status.is_some_and(|status| {
            status.reboot_handled.as_ref() == Some(&request) && status.operation.is_none()
        });
        Ok(restarted && agent.is_back(vm, Instant::now()))
    })
    .await
}

/// Follows the guest agent over a restart: a guest that had one can be used when it answers again.
enum Agent {
    /// The guest had none.
    Unknown,
    /// It was connected before the restart; the status may still say so.
    Before(Option<Instant>),
    /// Its end was seen.
    Gone,
}

impl Agent {
    fn of(vm: &VirtualMachine) -> Self {
        if is_connected(vm) {
            Self::Before(None)
        } else {
            Self::Unknown
        }
    }

    /// Whether the agent answers after the restart, or was not there before. Must be asked from the restart on.
    fn is_back(&mut self, vm: &VirtualMachine, now: Instant) -> bool {
        let connected = is_connected(vm);
        match self {
            Self::Unknown => true,
            Self::Gone => connected,
            Self::Before(_) if !connected => {
                *self = Self::Gone;
                false
            }
            Self::Before(since) => now.duration_since(*since.get_or_insert(now)) >= AGENT_GOES,
        }
    }
}

fn is_connected(vm: &VirtualMachine) -> bool {
    let said = vm
        .status
        .as_ref()
        .and_then(|s| s.provider.get("guestAgent"));
    said.is_some_and(|word| word == "connected")
}

pub(super) async fn patch(
    cluster: &Cluster,
    name: &str,
    change: Value,
) -> anyhow::Result<VirtualMachine> {
    let params = PatchParams::default();
    match cluster
        .vms()
        .patch(name, &params, &Patch::Merge(change))
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Err(cluster.missing(name).into()),
        other => other.map_err(|e| unreachable(cluster, e, &format!("{name} cannot be changed"))),
    }
}

/// Whether the manager has seen the change and the hypervisor says that it is done.
fn reached(vm: &VirtualMachine, generation: Option<i64>, wanted: PowerState) -> bool {
    let Some(status) = &vm.status else {
        return false;
    };
    let seen = status.observed_generation >= generation;
    seen && status.operation.is_none() && is(status.power_state, wanted)
}

const fn is_up(power: PowerState) -> bool {
    matches!(
        power,
        PowerState::On | PowerState::Paused | PowerState::Suspended
    )
}

fn is(power: Option<PowerState>, wanted: PowerState) -> bool {
    if is_up(wanted) {
        return power == Some(wanted);
    }
    !power.is_some_and(is_up)
}

pub(super) async fn until(
    cluster: &Cluster,
    name: &str,
    verb: &str,
    limit: Duration,
    mut done: impl FnMut(&VirtualMachine) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut last = String::new();
    loop {
        let vm = cluster.vm(name).await?;
        if done(&vm)? {
            let seconds = begin.elapsed().as_secs_f64();
            print(&format!(
                "virtualmachine/{name}: {verb} done in {seconds:.1} s\n"
            ));
            return Ok(());
        }
        let now = words(&vm);
        if begin.elapsed() > limit {
            let seconds = limit.as_secs();
            let text = format!("{name} did not {verb} within {seconds} s. It is {now}");
            return Err(Failure::TimedOut(text).into());
        }
        if now != last {
            say(&format!("{:>6.1} s  {now}", begin.elapsed().as_secs_f64()));
            last = now;
        }
        tokio::time::sleep(POLL).await;
    }
}

fn words(vm: &VirtualMachine) -> String {
    let status = vm.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or(VMPhase::Pending);
    let message = status.message.unwrap_or_default();
    format!("{phase:?}: {message}")
        .trim_end_matches([' ', ':'])
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_undone_is_seen() {
        let vm = |declared: &str, power: &str| -> VirtualMachine {
            serde_json::from_value(json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine", "metadata": {"generation": 1},
                "spec": {"providerRef": {"name": "p"}, "powerState": declared},
                "status": {"observedGeneration": 1, "powerState": power},
            }))
            .expect("a VM")
        };
        let undone = |declared, power, wanted| undone_by_others(&vm(declared, power), wanted);
        assert_eq!(undone("On", "Off", PowerState::On), Some(PowerState::Off));
        assert_eq!(
            undone("Off", "On", PowerState::OffGraceful),
            Some(PowerState::On)
        );
        assert_eq!(undone("On", "On", PowerState::On), None, "as it should be");
        assert_eq!(undone("Off", "Off", PowerState::On), None, "a change");
    }

    fn vm_with(status: &Value) -> VirtualMachine {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine", "metadata": {"generation": 2},
            "spec": {"providerRef": {"name": "p"}}, "status": status,
        }))
        .expect("a VM")
    }

    #[test]
    fn a_hook_that_failed_ends_the_wait_with_its_message() {
        let vm = |generation: i64, reason: &str| {
            vm_with(&json!({"conditions": [{
                "type": "Ready", "status": "False", "reason": reason, "message": "spec.lifecycle.preStop: No",
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]}))
        };
        let why = Some("spec.lifecycle.preStop: No".to_owned());
        assert_eq!(refusal(&vm(2, "HookFailed"), Some(2)), why);
        assert_eq!(refusal(&vm(1, "HookFailed"), Some(2)), None, "an old word");
        assert_eq!(refusal(&vm(2, "ShuttingDown"), Some(2)), None);
    }

    #[test]
    fn a_restart_is_over_when_the_agent_that_was_there_is_back() {
        let vm = |agent: &str| vm_with(&json!({"provider": {"guestAgent": agent}}));
        let begin = Instant::now();
        let mut agent = Agent::of(&vm("connected"));
        assert!(!agent.is_back(&vm("connected"), begin), "from before");
        assert!(!agent.is_back(&vm("absent"), begin));
        assert!(agent.is_back(&vm("connected"), begin));
        let mut quick = Agent::of(&vm("connected"));
        assert!(!quick.is_back(&vm("connected"), begin));
        assert!(quick.is_back(&vm("connected"), begin + AGENT_GOES));
        assert!(Agent::of(&vm("absent")).is_back(&vm("absent"), begin));
    }

    #[test]
    fn a_change_is_done_when_it_was_seen_and_reached() {
        let vm = |generation: i64, power: &str| -> VirtualMachine {
            serde_json::from_value(json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine", "metadata": {},
                "spec": {"providerRef": {"name": "p"}},
                "status": {"observedGeneration": generation, "powerState": power},
            }))
            .expect("a VM")
        };
        assert!(reached(&vm(2, "On"), Some(2), PowerState::On));
        assert!(
            !reached(&vm(1, "On"), Some(2), PowerState::On),
            "an old word"
        );
        assert!(!reached(&vm(2, "On"), Some(2), PowerState::OffGraceful));
        assert!(reached(&vm(3, "Off"), Some(2), PowerState::OffGraceful));
    }
}
