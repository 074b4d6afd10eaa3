//! When an operation that failed may be sent again.
//!
//! A provider may publish news of a VM whenever an operation on it fails, and news wakes the object. So the pause belongs to
//! the operation and not to the wake: a reconcile that is woken early plans as ever, and does not send what has just failed.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::ProviderError;
use polyvirt_contract::model::{NicState, SnapshotState, VmState};

use super::{OperationKind, Step, remaining};

/// After a change that can matter to the operation, this part of the pause is left: short after the first failures, and long
/// enough in the end for a provider whose VM changes with each attempt.
const EARLY_PART: u32 = 16;

/// Failures in a row end with a time without one: this long after the last pause.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// An operation that failed, and when it may be sent again.
#[derive(Clone, Debug)]
pub struct Setback {
    /// What failed.
    pub kind: OperationKind,
    /// How often in a row.
    pub failures: u32,
    /// What the provider answered.
    pub error: ProviderError,
    /// When it failed last.
    pub at: Timestamp,
    /// How long to wait since then.
    pub pause: Duration,
    /// The VM as it was when the operation was sent.
    pub seen: Option<Arc<VmState>>,
}

impl Setback {
    /// The time until the operation may be sent again; `None` if it may be sent now.
    pub fn rest(&self, now: Timestamp, seen: Option<&VmState>) -> Option<Duration> {
        let span = if can_matter(self.seen.as_deref(), seen) {
            self.pause / EARLY_PART
        } else {
            self.pause
        };
        remaining(now, self.at, span)
    }

    /// Whether a failure now begins a new row.
    pub fn is_forgiven(&self, now: Timestamp) -> bool {
        remaining(now, self.at, self.pause.saturating_add(FORGIVEN_AFTER)).is_none()
    }
}

/// Whether a change of the VM can make an operation succeed that failed. Revision, fault, details, addresses and the last
/// request cannot: a provider may change them with each failed attempt.
pub fn can_matter(before: Option<&VmState>, after: Option<&VmState>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => !is_alike(before, after),
        (None, None) => false,
        _ => true,
    }
}

fn is_alike(a: &VmState, b: &VmState) -> bool {
    let size = |vm: &VmState| (vm.stage, vm.power, vm.cpu, vm.memory_mib);
    let nic = |nic: &NicState| (nic.name.clone(), nic.mac.clone());
    let nics = |vm: &VmState| {
        let nics = vm.nics.as_ref()?;
        Some(nics.iter().map(nic).collect::<Vec<_>>())
    };
    let snapshot = |snapshot: &SnapshotState| snapshot.id.clone();
    let snapshots = |vm: &VmState| {
        let snapshots = vm.snapshots.as_ref()?;
        Some(snapshots.iter().map(snapshot).collect::<Vec<_>>())
    };
    (&a.id, &a.name, &a.owner, &a.host) == (&b.id, &b.name, &b.owner, &b.host)
        && size(a) == size(b)
        && (&a.root, &a.disks, &a.restart_required) == (&b.root, &b.disks, &b.restart_required)
        && nics(a) == nics(b)
        && snapshots(a) == snapshots(b)
}

impl Step {
    /// The operation that the step begins or prepares; `None` for steps that lead to none.
    pub fn leads_to(&self) -> Option<OperationKind> {
        match self {
            Self::RecordIntent | Self::Place => Some(OperationKind::Create),
            Self::RecordChange(kind) => Some(*kind),
            step => step.operation(),
        }
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::ErrorKind;
    use polyvirt_contract::model::PowerState;

    use super::*;

    fn setback(seen: &VmState) -> Setback {
        Setback {
            kind: OperationKind::PowerOn,
            failures: 6,
            error: ProviderError::new(ErrorKind::Internal, "no"),
            at: Timestamp::UNIX_EPOCH,
            pause: Duration::from_secs(16),
            seen: Some(Arc::new(seen.clone())),
        }
    }

    fn after(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("in range")
    }

    #[test]
    fn news_without_weight_does_not_shorten_the_pause() {
        let before = VmState::default();
        let noisy = VmState {
            revision: 7,
            fault: "QEMU did not start".to_owned(),
            ips: vec!["10.0.0.1".to_owned()],
            details: [("tries".to_owned(), "7".to_owned())].into(),
            ..VmState::default()
        };
        let rest = setback(&before).rest(after(2), Some(&noisy));
        assert_eq!(rest, Some(Duration::from_secs(14)));
        assert_eq!(setback(&before).rest(after(16), Some(&noisy)), None);
    }

    #[test]
    fn a_change_that_can_matter_leaves_a_part_of_the_pause() {
        let before = VmState::default();
        let on = VmState {
            power: PowerState::On,
            ..VmState::default()
        };
        assert_eq!(setback(&before).rest(after(1), Some(&on)), None);
        let soon = setback(&before).rest(after(0), Some(&on));
        assert_eq!(soon, Some(Duration::from_secs(1)));
        assert_eq!(setback(&before).rest(after(1), None), None);
    }

    #[test]
    fn a_row_of_failures_ends_after_a_long_time_without_one() {
        let setback = setback(&VmState::default());
        assert!(!setback.is_forgiven(after(615)));
        assert!(setback.is_forgiven(after(616)));
    }
}
