//! What passes write down for the next one, to and from `status`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{ObjectRef, SnapshotVm, VMSnapshot, VMSnapshotStatus};
use polyvirt_api::names;
use polyvirt_contract::{Identity, SnapshotId, VmId};

use crate::snapshot::facts::{Life, Object, Record, VmPlace};
use crate::virtual_machine::record::{operation_from, operation_to};
use crate::virtual_machine::{Attention, Claim, Force};

/// What the object says about its own life.
pub fn object(snapshot: &VMSnapshot) -> Object {
    let meta = &snapshot.metadata;
    let is_set = |name: &str| {
        let value = meta.annotations.as_ref().and_then(|a| a.get(name));
        value.is_some_and(|v| v.eq_ignore_ascii_case("true"))
    };
    let mut finalizers = meta.finalizers.iter().flatten();
    Object {
        claim: if finalizers.any(|f| f == names::SNAPSHOT_FINALIZER) {
            Claim::Held
        } else {
            Claim::Missing
        },
        life: if meta.deletion_timestamp.is_some() {
            Life::Deleting
        } else {
            Life::Alive
        },
        attention: if is_set(names::PAUSED_ANNOTATION) {
            Attention::Paused
        } else {
            Attention::Active
        },
        force: if is_set(names::FORCE_DELETE_ANNOTATION) {
            Force::Yes
        } else {
            Force::No
        },
    }
}

/// What earlier passes have written.
pub fn record(snapshot: &VMSnapshot) -> Record {
    let own = snapshot.metadata.namespace.as_deref().unwrap_or_default();
    let Some(status) = &snapshot.status else {
        return Record::default();
    };
    Record {
        vm: status.vm.as_ref().map(|vm| place_from(vm, own)),
        id: status.snapshot_id.clone().and_then(SnapshotId::non_empty),
        begun: status.creation_time.as_ref().map(|t| t.0),
        completed: status.completion_time.as_ref().map(|t| t.0),
        operation: status.operation.as_deref().map(operation_from),
    }
}

fn place_from(vm: &SnapshotVm, own: &str) -> VmPlace {
    VmPlace {
        provider_namespace: vm.provider_ref.namespace_or(own).to_owned(),
        provider: vm.provider_ref.name.clone(),
        id: VmId::from(vm.id.as_str()),
        identity: Identity::from(vm.identity.as_str()),
    }
}

/// Writes the record into a status.
pub fn write(record: &Record, status: &mut VMSnapshotStatus) {
    status.vm = record.vm.as_ref().map(|vm| SnapshotVm {
        provider_ref: ObjectRef {
            name: vm.provider.clone(),
            namespace: Some(vm.provider_namespace.clone()),
        },
        id: vm.id.to_string(),
        identity: vm.identity.to_string(),
    });
    status.snapshot_id = record.id.as_ref().map(ToString::to_string);
    status.creation_time = record.begun.map(Time);
    status.completion_time = record.completed.map(Time);
    status.operation = record.operation.as_ref().map(|o| Box::new(operation_to(o)));
    let task = record.operation.as_ref().and_then(|o| o.task.as_ref());
    status.task_ref = task.map(ToString::to_string);
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use polyvirt_api::infra::VMSnapshotSpec;

    use super::*;
    use crate::virtual_machine::{Operation, OperationKind};

    #[test]
    fn what_is_written_is_read_back() {
        let written = Record {
            vm: Some(VmPlace {
                provider_namespace: "infra".into(),
                provider: "p".into(),
                id: "vm-1".into(),
                identity: "me".into(),
            }),
            id: Some("s-1".into()),
            begun: Some(Timestamp::UNIX_EPOCH),
            completed: Some(Timestamp::UNIX_EPOCH),
            operation: Some(Operation {
                kind: OperationKind::Delete,
                task: Some("t".into()),
                since: Timestamp::UNIX_EPOCH,
                attempt: 0,
            }),
        };
        let mut status = VMSnapshotStatus::default();
        write(&written, &mut status);
        assert_eq!(status.task_ref.as_deref(), Some("t"));
        let mut object = VMSnapshot::new("a", VMSnapshotSpec::default());
        object.status = Some(status);
        assert_eq!(record(&object), written);
    }
}
