//! Conditions of a VM: one entry a type, and a time that moves only when the truth does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use polyvirt_api::infra::{self, MigrationPhase, OperationKind};
use polyvirt_api::novacron::{VirtualMachine, VirtualMachineStatus, VmCondition};
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::{Truth, kind};

use super::words::in_their_words;
use super::{Facts, Trouble, phase};
use crate::novacron::lower::{Live, MigrationTerms, refusal};

/// The VM is as declared and runs.
pub const READY: &str = "Ready";
/// The VM may move while it runs.
const LIVE_MIGRATABLE: &str = "LiveMigratable";
/// Every field that is set acts.
const FIELDS_HONOURED: &str = "FieldsHonoured";

struct Finding {
    kind: &'static str,
    truth: Truth,
    reason: Reason,
    message: String,
}

/// The condition of a type.
pub(super) fn find<'a>(status: &'a VirtualMachineStatus, kind: &str) -> Option<&'a VmCondition> {
    status.conditions.iter().find(|c| c.type_ == kind)
}

/// Brings the conditions up to date. Those of other types are other people's.
pub(super) fn fill(status: &mut VirtualMachineStatus, facts: &Facts<'_>, phase: &str) {
    let made = facts.made.and_then(|vm| vm.status.as_ref());
    let before = find(status, READY).and_then(|c| Reason::parse(c.reason.as_deref()?));
    set(
        &mut status.conditions,
        ready(facts, made, phase, before),
        facts,
    );
    if let Some(lowered) = facts.lowered {
        set(
            &mut status.conditions,
            migratable(facts.vm, &lowered.migration),
            facts,
        );
    }
    if facts.lowered.is_none() && facts.trouble.is_none() {
        return;
    }
    match honoured(facts, made) {
        Some(finding) => set(&mut status.conditions, finding, facts),
        None => status.conditions.retain(|c| c.type_ != FIELDS_HONOURED),
    }
}

fn set(list: &mut Vec<VmCondition>, finding: Finding, facts: &Facts<'_>) {
    let mut condition = VmCondition {
        type_: finding.kind.to_owned(),
        status: finding.truth.as_str().to_owned(),
        reason: Some(finding.reason.as_str().to_owned()),
        message: Some(finding.message),
        last_probe_time: None,
        last_transition_time: Some(Time(facts.now)),
    };
    match list.iter_mut().find(|c| c.type_ == finding.kind) {
        Some(old) => {
            if old.status == condition.status {
                condition.last_transition_time = old.last_transition_time.take();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}

/// What stands in the way goes before what the VM says.
fn ready(
    facts: &Facts<'_>,
    made: Option<&infra::VirtualMachineStatus>,
    phase: &str,
    before: Option<Reason>,
) -> Finding {
    if facts.vm.metadata.deletion_timestamp.is_some() {
        let message = said(made).unwrap_or_else(|| "The VM is being deleted".to_owned());
        return finding(Truth::False, Reason::Deleting, message);
    }
    if let Some(trouble) = facts.trouble {
        let message = told(facts, trouble);
        return finding(Truth::False, trouble.reason(), message);
    }
    let Some(made) = made else {
        let message = "The VM is being made".to_owned();
        return finding(Truth::False, Reason::Creating, message);
    };
    let (truth, reason) = of_phase(made, phase, before);
    if let (Truth::True, phase::RUNNING, Some(why)) = (truth, phase, not_moved(facts)) {
        return finding(truth, Reason::MigrationFailed, why);
    }
    let message = said(Some(made)).unwrap_or_default();
    let at_rest = made
        .conditions
        .iter()
        .any(|c| c.type_ == kind::READY && c.status == "True");
    match reason {
        // What it says is from before it was asked for.
        Reason::Starting if at_rest => finding(truth, reason, "The VM is to be started".to_owned()),
        _ => finding(truth, reason, message),
    }
}

/// With the way to all that is known of it.
fn told(facts: &Facts<'_>, trouble: &Trouble) -> String {
    let name = facts.vm.metadata.name.as_deref().unwrap_or_default();
    match trouble {
        Trouble::Place(why) if !why.obstacles().is_empty() => {
            format!("{trouble}. `polyvirt vm explain {name}` tells it of each host")
        }
        _ => trouble.to_string(),
    }
}

/// It runs, though not where it was to run.
fn not_moved(facts: &Facts<'_>) -> Option<String> {
    let status = facts.migration?.status.as_ref()?;
    let failed = status.phase == Some(MigrationPhase::Failed);
    failed.then(|| in_their_words(status.message.as_deref().unwrap_or_default()))
}

const fn finding(truth: Truth, reason: Reason, message: String) -> Finding {
    Finding {
        kind: READY,
        truth,
        reason,
        message,
    }
}

fn said(made: Option<&infra::VirtualMachineStatus>) -> Option<String> {
    let made = made?;
    let own = made.conditions.iter().find(|c| c.type_ == kind::READY);
    let own = own.map(|c| c.message.clone()).filter(|m| !m.is_empty());
    let told = own.or_else(|| made.message.clone())?;
    Some(in_their_words(&told))
}

fn of_phase(
    made: &infra::VirtualMachineStatus,
    phase: &str,
    before: Option<Reason>,
) -> (Truth, Reason) {
    let ready = made.conditions.iter().find(|c| c.type_ == kind::READY);
    let why = ready.and_then(|c| Reason::parse(&c.reason));
    let exists = made.id.as_ref().is_some_and(|id| !id.is_empty());
    match phase {
        phase::RUNNING => running(made, ready, before),
        phase::MIGRATING => (Truth::True, Reason::Migrating),
        phase::STOPPED => (Truth::False, Reason::Stopped),
        phase::FAILED if exists => (Truth::False, Reason::Failed),
        phase::FAILED => (Truth::False, Reason::CreateFailed),
        _ if why == Some(Reason::Recreating) => (Truth::False, Reason::Recovering),
        _ if why == Some(Reason::Unschedulable) => (Truth::False, Reason::NodeSelectionFailed),
        _ if exists => (Truth::False, Reason::Starting),
        _ => (Truth::False, Reason::Creating),
    }
}

/// Once something was wrong, the word for its end is kept: what rests does not change its word.
fn running(
    made: &infra::VirtualMachineStatus,
    ready: Option<&Condition>,
    before: Option<Reason>,
) -> (Truth, Reason) {
    let recovered = matches!(before, Some(Reason::Unhealthy | Reason::Healthy));
    let work = work(made, ready);
    match ready.map(|c| c.status.as_str()) {
        _ if work == Some(Reason::ShuttingDown) => (Truth::False, Reason::ShuttingDown),
        Some("True") if recovered => (Truth::True, Reason::Healthy),
        Some("True") => (Truth::True, Reason::Running),
        Some("False") if work.is_some() => (Truth::False, Reason::Reconfiguring),
        Some("False") => (Truth::False, Reason::Unhealthy),
        _ => (Truth::Unknown, Reason::Unhealthy),
    }
}

/// What is being done to a VM that runs. A provider that does it at once has no operation to show, only the word for it.
fn work(made: &infra::VirtualMachineStatus, ready: Option<&Condition>) -> Option<Reason> {
    let operation = made.operation.as_ref().map(|o| o.kind);
    let why = ready.and_then(|c| Reason::parse(&c.reason));
    match (operation, why) {
        (Some(OperationKind::PowerOff | OperationKind::GracefulStop), _)
        // The hook of a VM that runs is the one before it stops.
        | (None, Some(Reason::PoweringOff | Reason::ShuttingDown | Reason::HookRunning)) => {
            Some(Reason::ShuttingDown)
        }
        (Some(_), _)
        | (None, Some(Reason::Reconfiguring | Reason::Rebooting | Reason::Reverting)) => {
            Some(Reason::Reconfiguring)
        }
        _ => None,
    }
}

fn migratable(vm: &VirtualMachine, terms: &MigrationTerms) -> Finding {
    let limit = terms.bytes_per_second;
    let limit = limit.map(|rate| format!(", at up to {rate} bytes a second"));
    let (truth, reason, message) = match terms.live {
        Live::Allowed => {
            let message = format!("The VM may move while it runs{}", limit.unwrap_or_default());
            (Truth::True, Reason::MigrationEnabled, message)
        }
        Live::Forbidden => {
            let message = "spec.migrationPolicy.allowLiveMigration is not set".to_owned();
            let message = refusal(vm, terms).unwrap_or(message);
            (Truth::False, Reason::MigrationDisabled, message)
        }
    };
    Finding {
        kind: LIVE_MIGRATABLE,
        truth,
        reason,
        message,
    }
}

/// What nobody does yet, and what the provider leaves undone.
fn honoured(facts: &Facts<'_>, made: Option<&infra::VirtualMachineStatus>) -> Option<Finding> {
    let ours = facts.lowered.map(|l| l.ignored.join(", "));
    let ours = ours.filter(|text| !text.is_empty());
    let ours = ours.map(|text| format!("These fields are set but have no effect: {text}"));
    let theirs = made.into_iter().flat_map(|m| &m.conditions);
    let mut theirs = theirs.filter(|c| c.type_ == kind::FIELDS_HONOURED && c.status == "False");
    let theirs = theirs.next().map(|c| in_their_words(&c.message));
    let message: Vec<_> = ours.into_iter().chain(theirs).collect();
    (!message.is_empty()).then(|| Finding {
        kind: FIELDS_HONOURED,
        truth: Truth::False,
        reason: Reason::FieldsIgnored,
        message: message.join(". "),
    })
}
