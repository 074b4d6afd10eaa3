//! Power, snapshots, clones, tasks.

use std::time::Duration;

use crate::error::ProviderError;
use crate::ids::{SnapshotId, VmId};
use crate::model::{
    CloneMode, CloneVm, Cloned, Created, PowerOp, Quiesce, SnapshotContents, SnapshotCreated,
    SnapshotRequest,
};
use crate::watch::TaskState;
use crate::wire::{failure, json, task_id, task_ref, v1};

type Result<T> = std::result::Result<T, ProviderError>;

impl From<Created> for v1::CreateResponse {
    fn from(created: Created) -> Self {
        Self {
            id: created.id.to_string(),
            task: task_ref(created.task),
        }
    }
}

impl From<v1::CreateResponse> for Created {
    fn from(response: v1::CreateResponse) -> Self {
        Self {
            id: response.id.into(),
            task: task_id(response.task),
        }
    }
}

impl v1::PowerRequest {
    /// The change of one VM.
    pub(crate) fn new(id: &VmId, op: PowerOp) -> Self {
        let (op, graceful_timeout_seconds) = match op {
            PowerOp::On => (v1::PowerOp::On, 0),
            PowerOp::Off => (v1::PowerOp::Off, 0),
            PowerOp::Reboot => (v1::PowerOp::Reboot, 0),
            PowerOp::ShutdownGraceful { timeout } => {
                (v1::PowerOp::ShutdownGraceful, whole_seconds(timeout))
            }
            PowerOp::Pause => (v1::PowerOp::Pause, 0),
        };
        Self {
            id: id.to_string(),
            op: op.into(),
            graceful_timeout_seconds,
            ..Self::default()
        }
    }

    /// What is to be done.
    pub(crate) fn power_op(&self) -> Result<PowerOp> {
        let seconds = u64::try_from(self.graceful_timeout_seconds).unwrap_or_default();
        match v1::PowerOp::try_from(self.op) {
            Ok(v1::PowerOp::On) => Ok(PowerOp::On),
            Ok(v1::PowerOp::Off) => Ok(PowerOp::Off),
            Ok(v1::PowerOp::Reboot) => Ok(PowerOp::Reboot),
            Ok(v1::PowerOp::ShutdownGraceful) => Ok(PowerOp::ShutdownGraceful {
                timeout: Duration::from_secs(seconds),
            }),
            Ok(v1::PowerOp::Pause) => Ok(PowerOp::Pause),
            Ok(v1::PowerOp::Unspecified) | Err(_) => Err(ProviderError::invalid(
                "op",
                format!("Power operation {} is not known to this provider", self.op),
            )),
        }
    }
}

/// Rounded up: a guest is never given less time than asked for.
fn whole_seconds(timeout: Duration) -> i32 {
    let seconds = timeout
        .as_secs()
        .saturating_add(u64::from(timeout.subsec_nanos() > 0));
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

impl v1::SnapshotCreateRequest {
    /// The snapshot of one VM.
    pub(crate) fn new(id: &VmId, request: SnapshotRequest) -> Self {
        Self {
            vm_id: id.to_string(),
            name_hint: request.name_hint,
            include_memory: request.contents == SnapshotContents::DisksAndMemory,
            description: request.description,
            quiesce: match request.quiesce {
                Quiesce::Unsaid => None,
                Quiesce::IfPossible => Some(true),
                Quiesce::No => Some(false),
            },
            target_host_id: String::new(),
        }
    }
}

impl From<v1::SnapshotCreateRequest> for SnapshotRequest {
    fn from(request: v1::SnapshotCreateRequest) -> Self {
        Self {
            name_hint: request.name_hint,
            description: request.description,
            contents: if request.include_memory {
                SnapshotContents::DisksAndMemory
            } else {
                SnapshotContents::Disks
            },
            quiesce: match request.quiesce {
                None => Quiesce::Unsaid,
                Some(true) => Quiesce::IfPossible,
                Some(false) => Quiesce::No,
            },
        }
    }
}

impl From<SnapshotCreated> for v1::SnapshotCreateResponse {
    fn from(created: SnapshotCreated) -> Self {
        Self {
            snapshot_id: created.id.to_string(),
            task: task_ref(created.task),
        }
    }
}

impl From<v1::SnapshotCreateResponse> for SnapshotCreated {
    fn from(response: v1::SnapshotCreateResponse) -> Self {
        Self {
            id: SnapshotId::from(response.snapshot_id),
            task: task_id(response.task),
        }
    }
}

impl TryFrom<&CloneVm> for v1::CloneRequest {
    type Error = ProviderError;

    fn try_from(clone: &CloneVm) -> Result<Self> {
        let class_json = clone
            .class
            .as_ref()
            .map(json::write_class_object)
            .transpose()?;
        Ok(Self {
            source_vm_id: clone.source.to_string(),
            target_name: clone.target_name.clone(),
            linked: clone.mode == CloneMode::Linked,
            class_json: class_json.unwrap_or_default(),
            placement_json: json::write_placement(clone.placement.as_ref())?,
            customize_json: clone.customize_json.clone(),
            target_vm: clone.owner.as_ref().map(Into::into),
            source_host_id: String::new(),
        })
    }
}

/// An owner in metadata wins over that of the message, which has none as long as its object does not exist.
impl TryFrom<v1::CloneRequest> for CloneVm {
    type Error = ProviderError;

    fn try_from(request: v1::CloneRequest) -> Result<Self> {
        Ok(Self {
            owner: request.target_vm.and_then(v1::ObjectIdentity::owner),
            class: json::read_class(&request.class_json)?,
            placement: json::read_placement(&request.placement_json)?,
            mode: if request.linked {
                CloneMode::Linked
            } else {
                CloneMode::Full
            },
            source: request.source_vm_id.into(),
            target_name: request.target_name,
            customize_json: request.customize_json,
        })
    }
}

impl From<Cloned> for v1::CloneResponse {
    fn from(cloned: Cloned) -> Self {
        Self {
            target_vm_id: cloned.id.to_string(),
            task: task_ref(cloned.task),
        }
    }
}

impl From<v1::CloneResponse> for Cloned {
    fn from(response: v1::CloneResponse) -> Self {
        Self {
            id: response.target_vm_id.into(),
            task: task_id(response.task),
        }
    }
}

impl From<TaskState> for v1::TaskStatusResponse {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Running { percent } => Self {
                percent: percent.map(u32::from),
                ..Self::default()
            },
            TaskState::Succeeded => Self {
                done: true,
                ..Self::default()
            },
            TaskState::Failed(error) => Self {
                done: true,
                error: failure_text(&error),
                error_kind: error.kind.reason().to_owned(),
                error_field: error.field.unwrap_or_default(),
                percent: None,
            },
        }
    }
}

/// Never empty: an empty text would say that all went well.
fn failure_text(error: &ProviderError) -> String {
    if error.message.is_empty() {
        return error.kind.reason().to_owned();
    }
    error.message.clone()
}

impl From<v1::TaskStatusResponse> for TaskState {
    fn from(response: v1::TaskStatusResponse) -> Self {
        if !response.error.is_empty() {
            let (kind, field) = (response.error_kind, response.error_field);
            return Self::Failed(failure(response.error, &kind, field));
        }
        if response.done {
            return Self::Succeeded;
        }
        Self::Running {
            percent: response.percent.map(percent),
        }
    }
}

pub(super) fn percent(value: u32) -> u8 {
    u8::try_from(value.min(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_never_given_less_time() {
        for (timeout, seconds) in [
            (Duration::ZERO, 0),
            (Duration::from_millis(1), 1),
            (Duration::from_secs(59), 59),
            (Duration::from_millis(60_001), 61),
            (Duration::MAX, i32::MAX),
        ] {
            assert_eq!(whole_seconds(timeout), seconds, "{timeout:?}");
        }
    }

    #[test]
    fn an_error_text_means_failed_even_where_done_is_not_said() {
        let response = v1::TaskStatusResponse {
            error: "Disk full".into(),
            ..Default::default()
        };
        let TaskState::Failed(error) = TaskState::from(response) else {
            panic!("not failed");
        };
        assert_eq!(error.message, "Disk full");
        assert_eq!(error.kind, crate::ErrorKind::Internal);
    }

    #[test]
    fn a_failure_without_a_text_stays_a_failure() {
        let failed = TaskState::Failed(ProviderError::new(crate::ErrorKind::Exhausted, ""));
        let back = TaskState::from(v1::TaskStatusResponse::from(failed));
        assert!(matches!(back, TaskState::Failed(e) if e.kind == crate::ErrorKind::Exhausted));
    }
}
