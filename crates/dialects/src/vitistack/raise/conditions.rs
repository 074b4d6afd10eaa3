//! Conditions of a Machine: one entry a type, and a time that moves only when the truth does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use polyvirt_api::infra::VirtualMachineStatus;
use polyvirt_api::vitistack::{MachineCondition, MachineStatus, POWER_STATE_ANNOTATION};
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::{Truth, kind};

use super::words::in_their_words;
use super::{Facts, phase};

/// The Machine is as declared.
const READY: &str = "Ready";
/// Its VM exists.
const VM_READY: &str = "VirtualMachineReady";
/// Its disks are there.
pub const STORAGE_READY: &str = "StorageReady";
/// Its networks are known.
const NETWORK_READY: &str = "NetworkReady";
/// Its VM exists, in the word of cluster managers.
const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
/// Something of it takes effect at the next restart.
const RESTART_REQUIRED: &str = "RestartRequired";
/// Every field that is set acts.
const FIELDS_HONOURED: &str = "FieldsHonoured";

struct Finding {
    kind: &'static str,
    truth: Truth,
    reason: Reason,
    message: String,
}

/// Whether the hypervisor has the VM.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    There,
    Absent,
}

impl Presence {
    fn of(vm: Option<&VirtualMachineStatus>) -> Self {
        match vm.and_then(|vm| vm.id.as_ref()) {
            Some(_) => Self::There,
            None => Self::Absent,
        }
    }
}

/// Whether the list says that a condition holds.
pub fn is_true(status: &MachineStatus, kind: &str) -> bool {
    let mut all = status.conditions.iter();
    all.any(|c| c.type_ == kind && c.status == "True")
}

/// Brings the conditions up to date. Those of other types are other people's.
pub(super) fn fill(status: &mut MachineStatus, facts: &Facts<'_>, phase: &str) {
    let vm = facts.vm.and_then(|vm| vm.status.as_ref());
    let there = Presence::of(vm);
    let findings = [
        ready(status, facts, vm),
        virtual_machine(status, there, phase),
        storage(status, there, phase),
        infrastructure(there),
    ];
    let networks = network(status, facts);
    for finding in findings.into_iter().chain(networks) {
        set(&mut status.conditions, finding, facts);
    }
    let passing = [
        (FIELDS_HONOURED, honoured(facts, vm)),
        (RESTART_REQUIRED, restart(facts, vm)),
    ];
    for (kind, finding) in passing {
        match finding {
            Some(finding) => set(&mut status.conditions, finding, facts),
            None => status.conditions.retain(|c| c.type_ != kind),
        }
    }
}

fn set(list: &mut Vec<MachineCondition>, finding: Finding, facts: &Facts<'_>) {
    let mut condition = MachineCondition {
        type_: finding.kind.to_owned(),
        status: finding.truth.as_str().to_owned(),
        reason: finding.reason.as_str().to_owned(),
        message: finding.message,
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

fn find<'a>(vm: Option<&'a VirtualMachineStatus>, kind: &str) -> Option<&'a Condition> {
    vm?.conditions.iter().find(|c| c.type_ == kind)
}

fn truth(word: &str) -> Truth {
    match word {
        "True" => Truth::True,
        "False" => Truth::False,
        _ => Truth::Unknown,
    }
}

/// What stands in the way goes before what the VM says.
fn ready(status: &MachineStatus, facts: &Facts<'_>, vm: Option<&VirtualMachineStatus>) -> Finding {
    let said = find(vm, kind::READY).filter(|_| facts.trouble.is_none());
    let failure = status.failure_reason.as_deref().and_then(Reason::parse);
    let (truth, reason) = match said {
        Some(c) => (truth(&c.status), Reason::parse(&c.reason)),
        None => (Truth::False, None),
    };
    Finding {
        kind: READY,
        truth,
        reason: failure.or(reason).unwrap_or(Reason::VMCreating),
        message: status.message.clone().unwrap_or_default(),
    }
}

fn virtual_machine(status: &MachineStatus, there: Presence, phase: &str) -> Finding {
    let message = status.message.clone().unwrap_or_default();
    let (truth, reason) = match (there, phase) {
        (_, phase::FAILED) => (Truth::False, Reason::VMFailed),
        (Presence::There, _) => (Truth::True, Reason::VMCreated),
        (Presence::Absent, _) => (Truth::False, Reason::VMCreating),
    };
    Finding {
        kind: VM_READY,
        truth,
        reason,
        message: match truth {
            Truth::True => "The VirtualMachine exists".to_owned(),
            _ => message,
        },
    }
}

/// A VM that ran, or was off, has its disks.
fn storage(status: &MachineStatus, there: Presence, phase: &str) -> Finding {
    let whole = matches!(phase, phase::RUNNING | phase::STOPPED | phase::STOPPING);
    let before = is_true(status, STORAGE_READY);
    let bound = there == Presence::There && (whole || before);
    let class = status.failure_reason.as_deref() == Some(Reason::StorageClassNotFound.as_str());
    let (truth, reason, message) = if bound {
        (Truth::True, Reason::PVCBound, "All disks are there")
    } else if class {
        let reason = Reason::StorageClassNotFound;
        (Truth::False, reason, "There is no such StorageClass")
    } else {
        let reason = Reason::PVCPending;
        (Truth::False, reason, "The disks are not there yet")
    };
    Finding {
        kind: STORAGE_READY,
        truth,
        reason,
        message: message.to_owned(),
    }
}

/// `None` if nothing new is known: what stands in the way of an edit is no news of networks that are there.
fn network(status: &MachineStatus, facts: &Facts<'_>) -> Option<Finding> {
    let about_network = facts.trouble.filter(|t| t.network().is_some());
    let (truth, reason, message) = match (about_network, facts.lowered) {
        (Some(trouble), _) => {
            let message = format!("{}: {trouble}", trouble.reason());
            (Truth::False, Reason::NetworkFailed, message)
        }
        (None, Some(lowered)) => {
            let message = format!("{} network interfaces", lowered.nics.len());
            (Truth::True, Reason::NetworkConfigured, message)
        }
        (None, None) if status.conditions.iter().any(|c| c.type_ == NETWORK_READY) => return None,
        (None, None) => {
            let message = "The networks were not looked at yet".to_owned();
            (Truth::Unknown, Reason::VMCreating, message)
        }
    };
    Some(Finding {
        kind: NETWORK_READY,
        truth,
        reason,
        message,
    })
}

fn infrastructure(there: Presence) -> Finding {
    let (truth, reason, message) = match there {
        Presence::There => (Truth::True, Reason::VMCreated, "The VM exists"),
        Presence::Absent => (Truth::False, Reason::VMCreating, "There is no VM yet"),
    };
    Finding {
        kind: INFRASTRUCTURE_READY,
        truth,
        reason,
        message: message.to_owned(),
    }
}

/// What does nothing on KubeVirt, and what its provider leaves undone.
fn honoured(facts: &Facts<'_>, vm: Option<&VirtualMachineStatus>) -> Option<Finding> {
    let ours = facts.lowered.map(|l| l.ignored.join(", "));
    let ours = ours.filter(|text| !text.is_empty());
    let ours = ours.map(|text| format!("These fields are set but do nothing on KubeVirt: {text}"));
    let theirs = find(vm, kind::FIELDS_HONOURED).filter(|c| c.status == "False");
    let theirs = theirs.map(|c| in_their_words(facts, &c.message));
    let message: Vec<_> = ours.into_iter().chain(theirs).collect();
    (!message.is_empty()).then(|| Finding {
        kind: FIELDS_HONOURED,
        truth: Truth::False,
        reason: Reason::FieldsIgnored,
        message: message.join(". "),
    })
}

/// What waits for a restart, in the VM's words, and how a Machine is restarted.
fn restart(facts: &Facts<'_>, vm: Option<&VirtualMachineStatus>) -> Option<Finding> {
    let told = find(vm, kind::RESTART_REQUIRED).filter(|c| c.status == "True")?;
    let what = told.message.split(". ").next().unwrap_or_default();
    let what = in_their_words(facts, what);
    let name = facts.machine.metadata.name.as_deref().unwrap_or_default();
    let how = format!(
        "polyvirt vm restart {name}, or the annotation {POWER_STATE_ANNOTATION} Off and then On"
    );
    Some(Finding {
        kind: RESTART_REQUIRED,
        truth: Truth::True,
        reason: Reason::RestartRequired,
        message: format!("{what}. Restart it: {how}"),
    })
}
