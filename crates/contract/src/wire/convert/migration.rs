//! Moving a VM to another host.

use std::time::Duration;

use crate::ids::{RequestId, TaskId, VmId};
use crate::model::{MigrateVm, MigrationMode, MigrationPhase, MigrationProgress};
use crate::wire::ext;

impl ext::MigrateRequest {
    /// The move of one VM.
    pub(crate) fn new(id: &VmId, request: MigrateVm) -> Self {
        Self {
            vm_id: id.to_string(),
            target_host: request.target_host,
            live: request.mode == MigrationMode::Live,
            compression: request.compression,
            encrypted: request.encrypted,
            bandwidth_bytes_per_second: request.bandwidth.unwrap_or(0),
            auto_converge: request.auto_converge,
            post_copy: request.post_copy,
            request_id: request.request.map(|r| r.to_string()).unwrap_or_default(),
        }
    }
}

impl From<ext::MigrateRequest> for MigrateVm {
    fn from(request: ext::MigrateRequest) -> Self {
        let mode = if request.live {
            MigrationMode::Live
        } else {
            MigrationMode::Cold
        };
        Self {
            target_host: request.target_host,
            mode,
            compression: request.compression,
            encrypted: request.encrypted,
            bandwidth: Some(request.bandwidth_bytes_per_second).filter(|bytes| *bytes > 0),
            auto_converge: request.auto_converge,
            post_copy: request.post_copy,
            request: RequestId::non_empty(request.request_id),
        }
    }
}

impl From<Option<TaskId>> for ext::MigrateResponse {
    fn from(task: Option<TaskId>) -> Self {
        Self {
            task_id: task.map(|t| t.to_string()).unwrap_or_default(),
        }
    }
}

impl From<MigrationPhase> for ext::MigrationPhase {
    fn from(phase: MigrationPhase) -> Self {
        match phase {
            MigrationPhase::Preparing => Self::Preparing,
            MigrationPhase::Copying => Self::Copying,
            MigrationPhase::Fetching => Self::Fetching,
            MigrationPhase::Finishing => Self::Finishing,
        }
    }
}

/// A phase of a newer peer is one of those before the last: nothing depends on which.
fn phase(number: i32) -> MigrationPhase {
    match ext::MigrationPhase::try_from(number) {
        Ok(ext::MigrationPhase::Copying) => MigrationPhase::Copying,
        Ok(ext::MigrationPhase::Fetching) => MigrationPhase::Fetching,
        Ok(ext::MigrationPhase::Finishing) => MigrationPhase::Finishing,
        Ok(ext::MigrationPhase::Preparing | ext::MigrationPhase::Unspecified) | Err(_) => {
            MigrationPhase::Preparing
        }
    }
}

impl From<MigrationProgress> for ext::GetMigrationProgressResponse {
    fn from(progress: MigrationProgress) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            progress: Some(ext::MigrationProgress {
                phase: ext::MigrationPhase::from(progress.phase).into(),
                source_host: progress.source_host,
                target_host: progress.target_host,
                total_bytes: progress.total_bytes,
                remaining_bytes: progress.remaining_bytes,
                bytes_per_second: progress.bytes_per_second,
                downtime_ms: progress.downtime.map(millis),
            }),
        }
    }
}

impl From<ext::GetMigrationProgressResponse> for MigrationProgress {
    fn from(response: ext::GetMigrationProgressResponse) -> Self {
        let progress = response.progress.unwrap_or_default();
        Self {
            phase: phase(progress.phase),
            source_host: progress.source_host,
            target_host: progress.target_host,
            total_bytes: progress.total_bytes,
            remaining_bytes: progress.remaining_bytes,
            bytes_per_second: progress.bytes_per_second,
            downtime: progress.downtime_ms.map(Duration::from_millis),
        }
    }
}
