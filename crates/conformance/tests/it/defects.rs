//! Providers that break one promise each: the suite must notice, or it proves nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use polyvirt_conformance::{Profile, Report, run};
use polyvirt_contract::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, DiskInfo, ExecOutput,
    ExecRequest, Inventory, MigrateVm, MigrationProgress, PowerOp, PowerRequest, SnapshotCreated,
    SnapshotRequest, VmRef, VmState,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, Features, Identity, Provider, ProviderError, RequestId, Result, SnapshotId,
    TaskId, VmId,
};
use polyvirt_provider_mock::{Mock, MockConfig};

/// What is wrong with a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// Each create makes a VM.
    ForgetsIdentity,
    /// Whoever asks is obeyed.
    IgnoresOwner,
    /// A VM that is not there is an error.
    ErrorForAbsent,
    /// Deletion is told and not done.
    KeepsDeleted,
    /// New VMs run.
    StartsNewVms,
    /// Each request to restart restarts.
    RestartsAgain,
    /// Changes of size are told and not made.
    IgnoresSize,
    /// Errors name no field.
    HidesFields,
    /// The watch tells what is there and then nothing more.
    SilentWatch,
    /// Revisions do not grow.
    NoRevisions,
    /// The stream never says that all was told.
    NeverSynced,
    /// A task that nobody knows is said to have succeeded.
    InventsTasks,
    /// Each snapshot request takes one.
    SnapshotsAgain,
    /// Going back to a snapshot does nothing.
    StaysForward,
    /// Going back to a snapshot costs the others.
    LosesOthers,
}

struct Broken {
    mock: Arc<Mock>,
    defect: Defect,
}

impl Broken {
    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    fn speak(&self, vm: &VmRef) -> VmRef {
        let owner = vm.owner.clone().filter(|_| !self.is(Defect::IgnoresOwner));
        VmRef {
            id: vm.id.clone(),
            owner,
        }
    }

    fn told(&self, state: VmState) -> VmState {
        let revision = if self.is(Defect::NoRevisions) {
            1
        } else {
            state.revision
        };
        VmState { revision, ..state }
    }

    fn tell(&self, error: ProviderError) -> ProviderError {
        let field = error
            .field
            .clone()
            .filter(|_| !self.is(Defect::HidesFields));
        ProviderError { field, ..error }
    }
}

#[async_trait]
impl Provider for Broken {
    async fn validate(&self) -> Result<()> {
        self.mock.validate().await
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        self.mock.capabilities().await
    }

    async fn create(&self, mut request: CreateVm) -> Result<Created> {
        if self.is(Defect::ForgetsIdentity)
            && let Some(owner) = &mut request.owner
        {
            let number = self.mock.vms().len();
            owner.identity = format!("{}-{number}", owner.identity).into();
            request.name = format!("{}-{number}", request.name);
        }
        let vm_owner = request.owner.clone();
        let created = self
            .mock
            .create(request)
            .await
            .map_err(|error| self.tell(error))?;
        if self.is(Defect::StartsNewVms) {
            let vm = VmRef {
                id: created.id.clone(),
                owner: vm_owner,
            };
            self.mock.power(&vm, PowerOp::On.into()).await?;
        }
        Ok(created)
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        if self.is(Defect::KeepsDeleted) {
            return Ok(None);
        }
        let unowned = VmRef {
            id: vm.id.clone(),
            owner: None,
        };
        let forgets = self.is(Defect::ForgetsIdentity);
        let vm = if forgets { unowned } else { self.speak(vm) };
        self.mock.delete(&vm).await
    }

    async fn power(&self, vm: &VmRef, mut request: PowerRequest) -> Result<Option<TaskId>> {
        if self.is(Defect::RestartsAgain)
            && let Some(id) = &request.request
        {
            let last = self.mock.vm(&vm.id).and_then(|state| state.last_request);
            if last.as_ref() == Some(id) {
                request.request = None;
            }
        }
        self.mock.power(&self.speak(vm), request).await
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        if self.is(Defect::IgnoresSize) {
            return Ok(None);
        }
        let owner = self.speak(vm).owner;
        let desired = CreateVm { owner, ..desired };
        let answer = self.mock.reconfigure(&self.speak(vm), desired).await;
        answer.map_err(|error| self.tell(error))
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        let state = self.mock.describe(vm).await?;
        if state.is_none() && self.is(Defect::ErrorForAbsent) {
            return Err(ProviderError::not_found(vm));
        }
        Ok(state.map(|state| self.told(state)))
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        match self.mock.task_status(task).await {
            Err(_) if self.is(Defect::InventsTasks) => Ok(TaskState::Succeeded),
            answer => answer,
        }
    }

    async fn snapshot_create(
        &self,
        vm: &VmRef,
        mut request: SnapshotRequest,
    ) -> Result<SnapshotCreated> {
        if self.is(Defect::SnapshotsAgain) {
            request.name_hint.clear();
        }
        self.mock.snapshot_create(vm, request).await
    }

    async fn snapshot_delete(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        self.mock.snapshot_delete(vm, snapshot).await
    }

    async fn snapshot_revert(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        if self.is(Defect::StaysForward) {
            return Ok(None);
        }
        if self.is(Defect::LosesOthers) {
            let state = self.mock.describe(&vm.id).await?;
            let known = state.and_then(|state| state.snapshots).unwrap_or_default();
            for other in known.iter().filter(|other| other.id != *snapshot) {
                self.mock.snapshot_delete(vm, &other.id).await?;
            }
        }
        self.mock.snapshot_revert(vm, snapshot).await
    }

    async fn clone_vm(&self, request: CloneVm) -> Result<Cloned> {
        self.mock.clone_vm(request).await
    }

    async fn disk_info(
        &self,
        vm: &VmId,
        disk: &str,
        snapshot: Option<&SnapshotId>,
    ) -> Result<DiskInfo> {
        self.mock.disk_info(vm, disk, snapshot).await
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        let vms = self.mock.list_vms().await?;
        Ok(vms.into_iter().map(|state| self.told(state)).collect())
    }

    async fn features(&self) -> Result<Features> {
        self.mock.features().await
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        self.mock.find(identity).await
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        let stream = self.mock.watch().await?;
        let (frozen, dumb) = (self.is(Defect::NoRevisions), self.is(Defect::NeverSynced));
        let stream = stream.filter_map(move |event| async move {
            match event {
                Ok(VmEvent::Synced) if dumb => None,
                Ok(VmEvent::State(state)) if frozen => Some(Ok(VmEvent::State(VmState {
                    revision: 1,
                    ..state
                }))),
                other => Some(other),
            }
        });
        if !self.is(Defect::SilentWatch) {
            return Ok(stream.boxed());
        }
        let begin: Vec<_> = stream.take(1 + self.mock.vms().len()).collect().await;
        Ok(futures::stream::iter(begin)
            .chain(futures::stream::pending())
            .boxed())
    }

    async fn inventory(&self) -> Result<Inventory> {
        self.mock.inventory().await
    }

    async fn guest_exec(&self, vm: &VmRef, request: ExecRequest) -> Result<ExecOutput> {
        self.mock.guest_exec(vm, request).await
    }

    async fn migrate(&self, vm: &VmRef, request: MigrateVm) -> Result<Option<TaskId>> {
        self.mock.migrate(vm, request).await
    }

    async fn migration_progress(&self, task: &TaskId) -> Result<MigrationProgress> {
        self.mock.migration_progress(task).await
    }

    async fn cancel_migration(&self, vm: &VmRef, request: &RequestId) -> Result<()> {
        self.mock.cancel_migration(vm, request).await
    }

    async fn console(&self, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
        self.mock.console(vm, kind).await
    }
}

async fn report(defect: Defect) -> Report {
    let broken = Broken {
        mock: Mock::new(MockConfig::default()),
        defect,
    };
    let profile = Profile {
        patience: Duration::from_millis(300),
        interval: Duration::from_millis(1),
        ..Profile::simulated()
    };
    run(Arc::new(broken), &profile).await
}

#[tokio::test(start_paused = true)]
async fn each_defect_is_noticed_by_the_check_of_that_promise() {
    for (defect, check) in [
        (Defect::ForgetsIdentity, "create-twice"),
        (Defect::ForgetsIdentity, "create-at-once"),
        (Defect::ForgetsIdentity, "find"),
        (Defect::IgnoresOwner, "identity-conflict"),
        (Defect::ErrorForAbsent, "describe-unknown"),
        (Defect::KeepsDeleted, "delete-twice"),
        (Defect::StartsNewVms, "create"),
        (Defect::RestartsAgain, "reboot-once"),
        (Defect::IgnoresSize, "grow"),
        (Defect::IgnoresSize, "grow-running"),
        (Defect::IgnoresSize, "disks"),
        (Defect::IgnoresSize, "networks"),
        (Defect::HidesFields, "invalid"),
        (Defect::HidesFields, "disks"),
        (Defect::SilentWatch, "watch-changes"),
        (Defect::SilentWatch, "watch-create"),
        (Defect::SilentWatch, "watch-gone"),
        (Defect::NoRevisions, "watch-changes"),
        (Defect::NeverSynced, "watch-snapshot"),
        (Defect::InventsTasks, "task-unknown"),
        (Defect::SnapshotsAgain, "snapshot-twice"),
        (Defect::StaysForward, "snapshot"),
        (Defect::StaysForward, "snapshot-memory"),
        (Defect::LosesOthers, "snapshot-later-disk"),
    ] {
        let report = report(defect).await;
        let noticed = report.failures().any(|(name, _)| name == check);
        assert!(noticed, "{defect:?} was not noticed by {check}:\n{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_says_it_does_not_clone_is_not_blamed() {
    struct NoClones(Arc<Mock>);
    #[async_trait]
    impl Provider for NoClones {
        async fn validate(&self) -> Result<()> {
            self.0.validate().await
        }
        async fn capabilities(&self) -> Result<Capabilities> {
            Ok(Capabilities::default())
        }
        async fn create(&self, request: CreateVm) -> Result<Created> {
            self.0.create(request).await
        }
        async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
            self.0.delete(vm).await
        }
        async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
            self.0.power(vm, request).await
        }
        async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
            self.0.reconfigure(vm, desired).await
        }
        async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
            self.0.describe(vm).await
        }
        async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
            self.0.task_status(task).await
        }
        async fn list_vms(&self) -> Result<Vec<VmState>> {
            self.0.list_vms().await
        }
    }
    let provider = NoClones(Mock::new(MockConfig::default()));
    let report = run(Arc::new(provider), &Profile::simulated()).await;
    let why = report.not_applicable().find(|(name, _)| *name == "clone");
    assert!(
        why.is_some_and(|(_, why)| why.contains("clones")),
        "{report}"
    );
    assert_eq!(
        report.failures().map(|(name, _)| name).collect::<Vec<_>>(),
        ["features"],
        "{report}"
    );
}
