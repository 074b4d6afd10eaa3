//! The objects that a schedule makes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use polyvirt_api::infra::{VMSnapshot, VMSnapshotSpec};
use polyvirt_api::names;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// The longest value of a label.
const LONGEST_LABEL: usize = 63;

/// Name of the snapshot of one slot. The same slot has the same name, whoever asks.
pub fn name(schedule: &VMSnapshot, slot: Timestamp) -> String {
    let own = schedule.metadata.name.as_deref().unwrap_or_default();
    let time = slot.strftime(if slot.as_second() % 60 == 0 {
        "%Y%m%d-%H%M"
    } else {
        "%Y%m%d-%H%M%S"
    });
    let name = format!("{own}-{time}");
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let uid = schedule.metadata.uid.as_deref().unwrap_or_default();
    format!("{uid}-{time}")
}

/// The snapshot of one slot.
pub fn object(schedule: &VMSnapshot, slot: Timestamp) -> VMSnapshot {
    VMSnapshot {
        metadata: ObjectMeta {
            name: Some(name(schedule, slot)),
            namespace: schedule.metadata.namespace.clone(),
            labels: Some([(names::SCHEDULE_LABEL.to_owned(), label(schedule))].into()),
            annotations: Some(
                [(names::SCHEDULED_AT_ANNOTATION.to_owned(), slot.to_string())].into(),
            ),
            owner_references: Some(vec![owner(schedule)]),
            ..ObjectMeta::default()
        },
        spec: spec(schedule),
        status: None,
    }
}

fn label(schedule: &VMSnapshot) -> String {
    let name = schedule.metadata.name.clone().unwrap_or_default();
    let uid = schedule.metadata.uid.clone().unwrap_or_default();
    if name.len() <= LONGEST_LABEL {
        name
    } else {
        uid
    }
}

fn owner(schedule: &VMSnapshot) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", names::GROUP, names::VERSION),
        kind: "VMSnapshot".to_owned(),
        name: schedule.metadata.name.clone().unwrap_or_default(),
        uid: schedule.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Its age is its own; how many there are is the schedule's.
fn spec(schedule: &VMSnapshot) -> VMSnapshotSpec {
    let mut spec = schedule.spec.clone();
    spec.schedule = None;
    if let Some(retention) = &mut spec.retention_policy {
        retention.max_count = None;
    }
    spec
}
