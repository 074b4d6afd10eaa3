//! Progress of a creation that need not be written. The reasons are in docs/adr/0012-writes-of-a-create.md.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use polyvirt_api::infra::{VMPhase, VirtualMachineStatus};

use super::Outcome;
use crate::conditions::kind;
use crate::virtual_machine::next::remaining;
use crate::virtual_machine::record;
use crate::virtual_machine::step::{Wait, WaitFor};

/// A step of a creation that takes longer than this is written, for people who wait for it.
const SHOWN_AFTER: Duration = Duration::from_secs(10);

/// Whether a status may stay unwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It must be written.
    Written,
    /// It may stay in memory until something else is reported.
    Kept,
    /// It may stay in memory for this time.
    KeptFor(Duration),
}

/// Decides whether `new` is progress of a creation that is already reported. What is lost with the memory must be found
/// again by the next manager: the id is written, and a start that is sent twice starts the VM once.
pub fn progress(
    old: &VirtualMachineStatus,
    new: &VirtualMachineStatus,
    outcome: &Outcome,
    now: Timestamp,
) -> Progress {
    let provisioning = |s: &VirtualMachineStatus| s.phase == Some(VMPhase::Provisioning);
    let under_way = matches!(
        outcome,
        Outcome::InFlight(_)
            | Outcome::Waiting(Wait {
                on: WaitFor::Effect(_),
                ..
            })
    );
    let known = old.id.is_some() && old.id == new.id && is_same_besides_progress(old, new);
    if !(under_way && known && provisioning(old) && provisioning(new)) {
        return Progress::Written;
    }
    if reason(old) == reason(new) {
        return Progress::Kept;
    }
    let since = new
        .operation
        .as_deref()
        .map_or(now, |o| record::operation_from(o).since);
    remaining(now, since, SHOWN_AFTER).map_or(Progress::Written, Progress::KeptFor)
}

/// What other passes rely on, or people have asked for, is written whatever the phase.
fn is_same_besides_progress(old: &VirtualMachineStatus, new: &VirtualMachineStatus) -> bool {
    old.create_intent == new.create_intent
        && old.observed_generation == new.observed_generation
        && old.placement == new.placement
        && old.hooks == new.hooks
        && old.revert == new.revert
        && old.reboot_handled == new.reboot_handled
        && old.last_correction == new.last_correction
}

fn reason(status: &VirtualMachineStatus) -> Option<&str> {
    let ready = |c: &&Condition| c.type_ == kind::READY;
    let ready = status.conditions.iter().find(ready)?;
    Some(ready.reason.as_str())
}
