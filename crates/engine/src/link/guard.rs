//! Stands before every provider: a deadline for each call, a count of each, bounds on each answer, and a word to the session when
//! calls fail.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, DiskExported, DiskImported,
    DiskInfo, ExecOutput, ExecRequest, ExportDisk, Handover, ImportDisk, Inventory, Landing,
    Luggage, MigrateVm, MigrationProgress, MoveState, PowerRequest, PrepareImage, PreparedImage,
    Sending, SettleMove, SnapshotCreated, SnapshotRequest, VmRef, VmState, VmUsage,
};
use polyvirt_contract::provider::{Call, Result};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Features, Identity, Provider, ProviderError, RequestId, SnapshotId,
    TaskId, VmId,
};
use tokio::sync::Notify;
use tracing::Instrument as _;

use crate::link::modest::{Complaints, Modest, modest_error};
use crate::link::rate::Rate;
use crate::metrics::{Metrics, ProviderLabels};
use crate::trace;

const QUICK: Duration = Duration::from_secs(30);
const MEDIUM: Duration = Duration::from_secs(120);
const SLOW: Duration = Duration::from_secs(300);
const DISKS: Duration = Duration::from_secs(30 * 60);

/// So many failures in a row that speak about the provider itself make the session look at its health at once.
const SUSPICIOUS: u32 = 5;

/// A provider behind its guard.
pub struct Guard {
    inner: Arc<dyn Provider>,
    labels: ProviderLabels,
    metrics: Arc<Metrics>,
    failures: AtomicU32,
    suspicion: Arc<Notify>,
    rate: Option<Arc<Rate>>,
    complaints: Complaints,
}

/// Whether a call counts against the limit of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// It does.
    Limited,
    /// It keeps the link standing: if it had to wait, a busy provider would look like a dead one.
    Free,
}

impl Guard {
    /// Puts a guard before a provider. The notice is given when calls fail in a row.
    pub fn new(
        inner: Arc<dyn Provider>,
        labels: ProviderLabels,
        metrics: Arc<Metrics>,
        suspicion: Arc<Notify>,
        rate: Option<Arc<Rate>>,
    ) -> Self {
        Self {
            inner,
            complaints: Complaints::new(&labels.provider),
            labels,
            metrics,
            failures: AtomicU32::new(0),
            suspicion,
            rate,
        }
    }

    async fn turn(&self, counts: Counts) {
        if let (Some(rate), Counts::Limited) = (&self.rate, counts) {
            rate.turn().await;
        }
    }

    async fn call<T: Modest>(
        &self,
        method: &'static str,
        limit: Duration,
        counts: Counts,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.turn(counts).await;
        let begin = Instant::now();
        let span = tracing::info_span!(
            target: trace::TARGET,
            "provider call",
            method,
            provider = self.labels.provider,
            error = tracing::field::Empty,
        );
        let answer = tokio::time::timeout(limit, work.instrument(span.clone())).await;
        let result = answer.unwrap_or_else(|_| {
            let text = format!(
                "{method} was not answered within {} s; it is looked for before it is sent again",
                limit.as_secs()
            );
            Err(ProviderError::new(ErrorKind::Timeout, text))
        });
        let result = match result {
            Ok(answer) => answer.modest(&self.complaints),
            Err(error) => Err(modest_error(error)),
        };
        let code = result.as_ref().map(|_| ()).map_err(|e| e.kind);
        if let Err(kind) = code {
            span.record("error", kind.reason());
        }
        self.metrics
            .call(&self.labels, method, code, begin.elapsed());
        self.count(code);
        result
    }

    fn count(&self, code: std::result::Result<(), ErrorKind>) {
        match code {
            Err(kind) if kind.blames_provider() => {
                if self.failures.fetch_add(1, Ordering::Relaxed) + 1 == SUSPICIOUS {
                    self.suspicion.notify_one();
                }
            }
            _ => self.failures.store(0, Ordering::Relaxed),
        }
    }
}

macro_rules! guarded {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, $method:literal, $limit:expr, $counts:ident;)+) => {
        #[async_trait]
        impl Provider for Guard {
            fn is_on(&self, vm: &VmId, host: &str) {
                self.inner.is_on(vm, host);
            }

            $(async fn $name(&self, $($arg: $ty),*) -> Result<$ret> {
                self.call($method, $limit, Counts::$counts, self.inner.$name($($arg),*)).await
            })+
        }

        impl Guard {
            /// How metrics name a call. A call of the trait that has no line below does not compile here: without a line it
            /// would be answered by the trait's default, and never reach the provider.
            pub const fn method(call: Call) -> &'static str {
                match call {
                    $(Call::$name => $method,)+
                }
            }
        }
    };
}

guarded! {
    validate() -> (), "Validate", QUICK, Free;
    capabilities() -> Capabilities, "GetCapabilities", QUICK, Free;
    create(request: CreateVm) -> Created, "Create", SLOW, Limited;
    delete(vm: &VmRef) -> Option<TaskId>, "Delete", MEDIUM, Limited;
    power(vm: &VmRef, request: PowerRequest) -> Option<TaskId>, "Power", MEDIUM, Limited;
    reconfigure(vm: &VmRef, desired: CreateVm) -> Option<TaskId>, "Reconfigure", SLOW, Limited;
    hardware_upgrade(vm: &VmRef, version: i32) -> Option<TaskId>, "HardwareUpgrade", SLOW, Limited;
    describe(vm: &VmId) -> Option<VmState>, "Describe", QUICK, Limited;
    task_status(task: &TaskId) -> TaskState, "TaskStatus", QUICK, Limited;
    snapshot_create(vm: &VmRef, request: SnapshotRequest) -> SnapshotCreated, "SnapshotCreate", SLOW, Limited;
    snapshot_delete(vm: &VmRef, snapshot: &SnapshotId) -> Option<TaskId>, "SnapshotDelete", MEDIUM, Limited;
    snapshot_revert(vm: &VmRef, snapshot: &SnapshotId) -> Option<TaskId>, "SnapshotRevert", SLOW, Limited;
    clone_vm(request: CloneVm) -> Cloned, "Clone", SLOW, Limited;
    image_prepare(request: PrepareImage) -> PreparedImage, "ImagePrepare", SLOW, Limited;
    image_delete(image: &PreparedImage) -> (), "ImageDelete", MEDIUM, Limited;
    export_disk(request: ExportDisk) -> DiskExported, "ExportDisk", DISKS, Limited;
    import_disk(request: ImportDisk) -> DiskImported, "ImportDisk", DISKS, Limited;
    disk_info(vm: &VmId, disk: &str, snapshot: Option<&SnapshotId>) -> DiskInfo, "GetDiskInfo", MEDIUM, Limited;
    list_vms() -> Vec<VmState>, "ListVMs", MEDIUM, Limited;
    features() -> Features, "GetFeatures", QUICK, Free;
    find(identity: &Identity) -> Option<VmState>, "FindVm", QUICK, Limited;
    watch() -> BoxStream<'static, Result<VmEvent>>, "Watch", QUICK, Free;
    inventory() -> Inventory, "Inventory", QUICK, Limited;
    guest_exec(vm: &VmRef, request: ExecRequest) -> ExecOutput, "GuestExec", SLOW, Limited;
    migrate(vm: &VmRef, request: MigrateVm) -> Option<TaskId>, "Migrate", MEDIUM, Limited;
    migration_progress(task: &TaskId) -> MigrationProgress, "GetMigrationProgress", QUICK, Limited;
    cancel_migration(vm: &VmRef, request: &RequestId) -> (), "CancelMigration", MEDIUM, Limited;
    pack_vm(handover: &Handover) -> Luggage, "PackVm", MEDIUM, Limited;
    receive_vm(handover: &Handover, luggage: Luggage, address: &str) -> Landing, "ReceiveVm", MEDIUM, Limited;
    send_vm(handover: &Handover, landing: &Landing) -> BoxStream<'static, Result<Sending>>, "SendVm", MEDIUM, Limited;
    moves(vm: Option<&VmId>) -> Vec<MoveState>, "ListMoves", QUICK, Limited;
    settle_move(settle: &SettleMove) -> (), "SettleMove", MEDIUM, Limited;
    usage() -> Vec<VmUsage>, "GetUsage", QUICK, Limited;
    console(vm: &VmRef, kind: ConsoleKind) -> ConsoleSession, "Console", QUICK, Limited;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_call_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Call::ALL.iter().map(|call| Guard::method(*call)).collect();
        assert_eq!(names.len(), Call::ALL.len());
    }
}
