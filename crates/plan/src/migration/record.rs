//! Between the status of a VMMigration and the planner's record of it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{
    HostMove, MigrationProgress as Shown, MovedVm, ObjectRef, VMMigration, VMMigrationStatus,
};
use polyvirt_api::names;
use polyvirt_contract::model::{MigrationPhase, MigrationProgress};
use polyvirt_contract::{Identity, TaskId, VmId};

use super::facts::{Object, Progress, Record, Wish};
use crate::snapshot::{Life, VmPlace};
use crate::virtual_machine::{Attention, Claim, Force};

/// What the object says about its own life.
pub fn object(migration: &VMMigration) -> Object {
    let meta = &migration.metadata;
    let annotated = |name: &str| {
        let value = meta.annotations.as_ref().and_then(|a| a.get(name));
        value.is_some_and(|v| v == "true")
    };
    let held = meta.finalizers.iter().flatten();
    Object {
        claim: if held.into_iter().any(|f| f == names::MIGRATION_FINALIZER) {
            Claim::Held
        } else {
            Claim::Missing
        },
        life: if meta.deletion_timestamp.is_some() {
            Life::Deleting
        } else {
            Life::Alive
        },
        attention: if annotated(names::PAUSED_ANNOTATION) {
            Attention::Paused
        } else {
            Attention::Active
        },
        force: if annotated(names::FORCE_DELETE_ANNOTATION) {
            Force::Yes
        } else {
            Force::No
        },
        wish: if migration.spec.cancel {
            Wish::Cancel
        } else {
            Wish::Move
        },
    }
}

/// Whether the object has begun to move its VM and has not ended.
pub fn is_open(migration: &VMMigration) -> bool {
    let status = migration.status.as_ref();
    let moved = status.and_then(|s| s.host_move.as_deref());
    moved.is_some_and(|m| m.vm.is_some() && m.result.is_none())
}

/// What earlier passes have written down.
pub fn record(migration: &VMMigration) -> Record {
    let own = migration.metadata.namespace.as_deref().unwrap_or_default();
    let Some(status) = &migration.status else {
        return Record::default();
    };
    let moved = status.host_move.as_deref().cloned().unwrap_or_default();
    Record {
        vm: moved.vm.as_ref().map(|vm| place_from(vm, own)),
        source: moved.source_host.clone().unwrap_or_default(),
        target: moved.target_host.clone().unwrap_or_default(),
        hosts: moved.hosts.clone(),
        begun: status.start_time.as_ref().map(|t| t.0),
        task: status.task_ref.clone().and_then(TaskId::non_empty),
        retries: status
            .retry_count
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0),
        failed: status.last_retry_time.as_ref().map(|t| t.0),
        cancelled: moved.cancelled.as_ref().map(|t| t.0),
        progress: progress_from(&moved, status.progress.as_ref()),
        ended: status.completion_time.as_ref().map(|t| t.0),
        result: moved.result,
    }
}

fn place_from(vm: &MovedVm, own: &str) -> VmPlace {
    VmPlace {
        provider_namespace: vm.provider_ref.namespace_or(own).to_owned(),
        provider: vm.provider_ref.name.clone(),
        id: VmId::from(vm.id.as_str()),
        identity: Identity::from(vm.identity.as_str()),
    }
}

fn progress_from(moved: &HostMove, shown: Option<&Shown>) -> Option<Progress> {
    let at = moved.updated.as_ref()?.0;
    let shown = shown.cloned().unwrap_or_default();
    let bytes = |number: Option<i64>| number.and_then(|n| u64::try_from(n).ok());
    let (phase, downtime) = match (moved.downtime_ms, moved.expected_downtime_ms) {
        (Some(measured), _) => (MigrationPhase::Finishing, Some(measured)),
        (None, expected) => (MigrationPhase::Copying, expected),
    };
    Some(Progress {
        percent: shown.percentage.and_then(|p| u8::try_from(p).ok()),
        figures: MigrationProgress {
            phase,
            source_host: moved.source_host.clone().unwrap_or_default(),
            target_host: moved.target_host.clone().unwrap_or_default(),
            total_bytes: bytes(shown.total_bytes),
            remaining_bytes: bytes(moved.remaining_bytes),
            bytes_per_second: bytes(shown.transfer_rate),
            downtime: bytes(downtime).map(Duration::from_millis),
        },
        at,
    })
}

/// Writes the record into a status.
pub fn write(record: &Record, status: &mut VMMigrationStatus) {
    let text = |word: &str| Some(word.to_owned()).filter(|w| !w.is_empty());
    let mut moved = HostMove {
        vm: record.vm.as_ref().map(place_to),
        source_host: text(&record.source),
        target_host: text(&record.target),
        hosts: record.hosts.clone(),
        cancelled: record.cancelled.map(whole),
        result: record.result,
        ..HostMove::default()
    };
    status.progress = record
        .progress
        .as_ref()
        .map(|p| write_progress(p, &mut moved));
    status.start_time = record.begun.map(whole);
    status.task_ref = record.task.as_ref().map(ToString::to_string);
    status.retry_count = i32::try_from(record.retries).ok().filter(|n| *n > 0);
    status.last_retry_time = record.failed.map(whole);
    status.completion_time = record.ended.map(whole);
    let empty = moved == HostMove::default();
    status.host_move = (!empty).then(|| Box::new(moved));
}

fn write_progress(progress: &Progress, moved: &mut HostMove) -> Shown {
    let figures = &progress.figures;
    let bytes = |number: Option<u64>| number.and_then(|n| i64::try_from(n).ok());
    let downtime = figures
        .downtime
        .and_then(|d| i64::try_from(d.as_millis()).ok());
    moved.updated = Some(whole(progress.at));
    moved.remaining_bytes = bytes(figures.remaining_bytes);
    match figures.phase {
        MigrationPhase::Finishing => moved.downtime_ms = downtime,
        _ => moved.expected_downtime_ms = downtime,
    }
    let total = figures.total_bytes;
    let done = total.zip(figures.remaining_bytes);
    Shown {
        percentage: progress.percent.map(i32::from),
        transferred_bytes: bytes(done.map(|(all, left)| all.saturating_sub(left))),
        total_bytes: bytes(total),
        transfer_rate: bytes(figures.bytes_per_second),
        ..Shown::default()
    }
}

fn place_to(vm: &VmPlace) -> MovedVm {
    MovedVm {
        provider_ref: ObjectRef {
            name: vm.provider.clone(),
            namespace: Some(vm.provider_namespace.clone()),
        },
        id: vm.id.to_string(),
        identity: vm.identity.to_string(),
    }
}

/// The API keeps whole seconds: what is compared with it has to be so, too.
fn whole(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::{MoveResult, VMMigrationSpec};

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let at = Timestamp::from_second(7).expect("a time");
        let written = Record {
            vm: Some(VmPlace {
                provider_namespace: "infra".into(),
                provider: "p".into(),
                id: "vm-1".into(),
                identity: "me".into(),
            }),
            source: "host-1".into(),
            target: "host-2".into(),
            hosts: Vec::new(),
            begun: Some(at),
            task: Some("t".into()),
            retries: 2,
            failed: Some(at),
            cancelled: Some(at),
            progress: Some(Progress {
                percent: Some(40),
                figures: MigrationProgress {
                    phase: MigrationPhase::Copying,
                    source_host: "host-1".into(),
                    target_host: "host-2".into(),
                    total_bytes: Some(100),
                    remaining_bytes: Some(60),
                    bytes_per_second: Some(9),
                    downtime: Some(Duration::from_millis(250)),
                },
                at,
            }),
            ended: Some(at),
            result: Some(MoveResult::Moved),
        };
        let mut status = VMMigrationStatus::default();
        write(&written, &mut status);
        let moved = status.host_move.clone().expect("written");
        assert_eq!(
            (moved.expected_downtime_ms, moved.downtime_ms),
            (Some(250), None)
        );
        assert_eq!(
            status.progress.as_ref().and_then(|p| p.transferred_bytes),
            Some(40)
        );
        let mut object = VMMigration::new("a", VMMigrationSpec::default());
        object.status = Some(status);
        assert_eq!(record(&object), written);
        assert!(!is_open(&object));
    }
}
