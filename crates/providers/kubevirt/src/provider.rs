//! The contract, call by call. Each is one line of intent; the work is elsewhere.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures::stream::BoxStream;
use kube::Client;
use polyvirt_contract::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, Inventory, MigrateVm,
    MigrationProgress, PowerRequest, PrepareImage, PreparedImage, SnapshotCreated, SnapshotRequest,
    VmRef, VmState, VmUsage,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Extension, Features, Identity, Provider, ProviderError, RequestId,
    Result, SnapshotId, TaskId, VmId,
};
use polyvirt_provider_kit::hub::Hub;
use polyvirt_provider_kit::tasks::Tasks;
use tokio_util::sync::CancellationToken;

use crate::books::Books;
use crate::cluster::{Cluster, Served};
use crate::config::KubevirtConfig;
use crate::kinds::Kind;
use crate::moves::Moves;
use crate::usage::Ledger;
use crate::vm::{self, Core};
use crate::{
    clone, console, errors, image, inventory, migrate, offer, snapshot, usage, version, watch,
};

/// How long a call waits for the end of its work before it answers with a task.
const GRACE: Duration = Duration::from_millis(500);

/// A provider that runs its VMs in a cluster with KubeVirt.
///
/// It keeps nothing: all that it knows is in the cluster. Dropping it ends its streams; VMs go on.
pub struct Kubevirt {
    core: Arc<Core>,
}

impl std::fmt::Debug for Kubevirt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubevirt")
            .field("namespace", &self.core.cluster.namespace)
            .finish_non_exhaustive()
    }
}

impl Drop for Kubevirt {
    fn drop(&mut self) {
        self.core.stop.cancel();
    }
}

impl Kubevirt {
    /// Reads the credentials and makes a client. A cluster that cannot be reached is told of by `validate`.
    pub async fn open(config: KubevirtConfig) -> Result<Arc<Self>> {
        // Whoever installed one first is right: there is one per process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = config.client_config().await;
        let client = client
            .map_err(|error| ProviderError::new(ErrorKind::Unauthenticated, error.to_string()))?;
        let client = Client::try_from(client)
            .map_err(|error| errors::api("Using the credentials", &error))?;
        Ok(Self::with_client(client, &config))
    }

    /// The same with a client that somebody made; credentials in the configuration are not looked at.
    pub fn with_client(client: Client, config: &KubevirtConfig) -> Arc<Self> {
        let hub = Hub::new();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let life = format!("kv{:x}", now.map(|n| n.as_nanos()).unwrap_or_default());
        Arc::new(Self {
            core: Arc::new(Core {
                cluster: Cluster::new(client, config),
                books: Arc::new(Books::default()),
                tasks: Tasks::new(hub.clone(), life).with_grace(GRACE),
                moves: Moves::default(),
                images: config.images(),
                tolerated: config.tolerates.clone(),
                usage: Ledger::default(),
                hub,
                stop: CancellationToken::new(),
            }),
        })
    }

    /// The kinds that a watch follows in this cluster.
    async fn watched(&self) -> Result<Vec<Kind>> {
        let mut kinds = vec![Kind::Vm, Kind::Vmi, Kind::Claim];
        if let Served::Yes(()) = self.core.cluster.serves(Kind::Snapshot).await? {
            self.core.books.has_snapshots();
            kinds.push(Kind::Snapshot);
        }
        Ok(kinds)
    }
}

#[async_trait]
impl Provider for Kubevirt {
    async fn validate(&self) -> Result<()> {
        if let Served::Yes(()) = self.core.cluster.serves(Kind::Vm).await? {
            return Ok(());
        }
        let message = "The cluster answers and has no KubeVirt; install it";
        Err(ProviderError::new(ErrorKind::Unavailable, message))
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(offer::capabilities())
    }

    async fn features(&self) -> Result<Features> {
        let cluster = &self.core.cluster;
        let mut features = offer::features(version::version(cluster).await);
        if usage::is_told(cluster).await {
            features.extensions.insert(Extension::Usage);
        }
        Ok(features)
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        Box::pin(vm::create(&self.core, request)).await
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        vm::delete(&self.core, vm).await
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        vm::power(&self.core, vm, request).await
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        Box::pin(vm::reconfigure(&self.core, vm, desired)).await
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        vm::describe(&self.core, vm).await
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        let state = self.core.tasks.status(task);
        state.ok_or_else(|| ProviderError::not_found(format!("The task {task}")))
    }

    async fn snapshot_create(
        &self,
        vm: &VmRef,
        request: SnapshotRequest,
    ) -> Result<SnapshotCreated> {
        snapshot::create(&self.core, vm, request).await
    }

    async fn snapshot_delete(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        snapshot::delete(&self.core, vm, snapshot).await
    }

    async fn snapshot_revert(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        snapshot::revert(&self.core, vm, snapshot).await
    }

    async fn clone_vm(&self, request: CloneVm) -> Result<Cloned> {
        clone::clone_vm(&self.core, request).await
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        Box::pin(vm::list(&self.core)).await
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        vm::find(&self.core, identity).await
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        let core = &self.core;
        let kinds = self.watched().await?;
        let stop = core.stop.clone();
        let books = core.books.clone();
        Ok(watch::follow(&core.cluster, &kinds, books, &core.hub, stop))
    }

    async fn inventory(&self) -> Result<Inventory> {
        Box::pin(inventory::inventory(&self.core)).await
    }

    async fn migrate(&self, vm: &VmRef, request: MigrateVm) -> Result<Option<TaskId>> {
        Box::pin(migrate::migrate(&self.core, vm, request)).await
    }

    async fn cancel_migration(&self, vm: &VmRef, request: &RequestId) -> Result<()> {
        Box::pin(migrate::cancel(&self.core, vm, request)).await
    }

    async fn migration_progress(&self, task: &TaskId) -> Result<MigrationProgress> {
        let progress = self.core.moves.progress(task);
        progress.ok_or_else(|| ProviderError::not_found(format!("The move {task}")))
    }

    async fn usage(&self) -> Result<Vec<VmUsage>> {
        usage::of_all(&self.core).await
    }

    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        Box::pin(image::prepare(&self.core, request)).await
    }

    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        image::delete(&self.core, image).await
    }

    async fn console(&self, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
        console::attach(&self.core, vm, kind).await
    }
}
