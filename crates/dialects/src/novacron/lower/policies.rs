//! Snapshots and updates.

use polyvirt_api::GoDuration;
use polyvirt_api::infra::{
    LocalRef, ReconfigurePolicy, RestartPolicy, SnapshotRetention, SnapshotSchedule, VMSnapshot,
    VMSnapshotSpec,
};
use polyvirt_api::names;
use polyvirt_api::novacron::{SnapshotPolicy, UpdateStrategy};
use polyvirt_plan::snapshot::schedule::split_zone;

use super::error::LowerError;
use crate::shared::names::shortened;

const MOST_SNAPSHOTS: i32 = 100;

/// The name of the schedule of a VM.
pub(super) fn schedule_name(vm: &str) -> String {
    shortened(&format!("{vm}-scheduled"), 253)
}

/// What of a snapshot policy does nothing: how many are kept, where none are taken.
pub(super) fn idle(policy: Option<&SnapshotPolicy>) -> Option<String> {
    let policy = policy?;
    let schedule = policy.schedule.as_deref().unwrap_or_default();
    let counts = policy.retention.is_some_and(|count| count != 0);
    let idle = counts && schedule.trim().is_empty();
    idle.then(|| "spec.snapshotPolicy.retention".to_owned())
}

/// The schedule, if there is one.
pub(super) fn snapshot(
    vm: &str,
    policy: Option<&SnapshotPolicy>,
) -> Result<Option<VMSnapshot>, LowerError> {
    let Some(policy) = policy else {
        return Ok(None);
    };
    let max_count = retention(policy.retention)?;
    let schedule = policy.schedule.as_deref().map(str::trim);
    let Some(cron) = schedule.filter(|s| !s.is_empty()) else {
        return Ok(None);
    };
    let spec = VMSnapshotSpec {
        vm_ref: LocalRef::new(vm),
        schedule: Some(times(cron)?),
        retention_policy: Some(SnapshotRetention {
            max_count,
            grace_period: GoDuration::new("0s"),
            ..SnapshotRetention::default()
        }),
        ..VMSnapshotSpec::default()
    };
    let mut found = VMSnapshot::new(&schedule_name(vm), spec);
    if max_count.is_none() {
        let all = (names::KEEP_ALL_ANNOTATION.to_owned(), "true".to_owned());
        found.metadata.annotations = Some([all].into());
    }
    Ok(Some(found))
}

/// The same schedule, which takes no more and keeps what it has.
pub(super) fn at_rest(there: &VMSnapshot) -> VMSnapshot {
    let name = there.metadata.name.as_deref().unwrap_or_default();
    let mut rests = VMSnapshot::new(name, there.spec.clone());
    if let Some(schedule) = &mut rests.spec.schedule {
        schedule.suspend = true;
    }
    let notes = there.metadata.annotations.clone().unwrap_or_default();
    let kept = notes.into_iter();
    let kept = kept.filter(|(key, _)| key == names::KEEP_ALL_ANNOTATION);
    rests.metadata.annotations = Some(kept.collect());
    rests
}

/// 0 says as little as nothing: all are kept.
fn retention(count: Option<i32>) -> Result<Option<i32>, LowerError> {
    match count {
        None | Some(0) => Ok(None),
        Some(count) if (1..=MOST_SNAPSHOTS).contains(&count) => Ok(Some(count)),
        Some(count) => {
            let message = format!(
                "{count} snapshots cannot be kept. Write a number from 1 to {MOST_SNAPSHOTS}"
            );
            Err(LowerError::invalid(
                "spec.snapshotPolicy.retention",
                message,
            ))
        }
    }
}

/// The time zone that stands before the fields has a field of its own.
fn times(text: &str) -> Result<SnapshotSchedule, LowerError> {
    let (zone, fields) = split_zone(text);
    let usual = SnapshotSchedule::default();
    Ok(SnapshotSchedule {
        enabled: true,
        cron_spec: Some(cron_spec(fields)?),
        timezone: zone.map_or_else(|| usual.timezone.clone(), ToOwned::to_owned),
        ..usual
    })
}

/// Whether the numbers exist is for whoever keeps the schedule, and for the webhook.
fn cron_spec(text: &str) -> Result<String, LowerError> {
    let words: Vec<_> = text.split_whitespace().collect();
    if words.len() == 5 || text.starts_with('@') {
        return Ok(words.join(" "));
    }
    let message =
        format!("{text:?} is no schedule. Write five fields such as 0 2 * * *, or @daily");
    Err(LowerError::invalid("spec.snapshotPolicy.schedule", message))
}

/// Whether a change may restart the VM. Its disks are kept in any case.
pub(super) fn update(
    strategy: Option<&UpdateStrategy>,
) -> Result<Option<ReconfigurePolicy>, LowerError> {
    let Some(strategy) = strategy else {
        return Ok(None);
    };
    let rolling = strategy.rolling_update.as_ref();
    let down = rolling.and_then(|r| r.max_unavailable).unwrap_or(0);
    if down < 0 {
        let message = "Write 0 to forbid a restart, or 1 to allow it";
        let field = "spec.updateStrategy.rollingUpdate.maxUnavailable";
        return Err(LowerError::invalid(field, message));
    }
    let restart = match strategy.type_.as_str() {
        "Recreate" => RestartPolicy::WhenNeeded,
        "RollingUpdate" if down > 0 => RestartPolicy::WhenNeeded,
        "RollingUpdate" => RestartPolicy::Never,
        other => {
            let message = format!("There is no type {other:?}. Write Recreate or RollingUpdate");
            return Err(LowerError::invalid("spec.updateStrategy.type", message));
        }
    };
    Ok(Some(ReconfigurePolicy {
        restart: Some(restart),
    }))
}
