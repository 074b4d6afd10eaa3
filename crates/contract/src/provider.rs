//! The trait that every hypervisor implements, once, whether it runs in process or behind gRPC.

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::capabilities::{Capabilities, Features};
use crate::error::ProviderError;
use crate::ids::{Identity, RequestId, SnapshotId, TaskId, VmId};
use crate::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, DiskExported, DiskImported,
    DiskInfo, ExecOutput, ExecRequest, ExportDisk, Handover, ImportDisk, Inventory, Landing,
    Luggage, MigrateVm, MigrationProgress, MoveState, PowerRequest, PrepareImage, PreparedImage,
    Sending, SettleMove, SnapshotCreated, SnapshotRequest, VmRef, VmState, VmUsage,
};
use crate::watch::{TaskState, VmEvent};

/// What every call answers with.
pub type Result<T> = std::result::Result<T, ProviderError>;

/// Writes the trait down, and beside it the list of its calls: whoever forwards calls matches on [`Call`], and does not compile
/// when the trait grows and the new call is not forwarded.
macro_rules! provider_trait {
    (
        $(#[$about:meta])*
        pub trait $name:ident: Send + Sync + 'static {
            $(
                $(#[$says:meta])*
                async fn $call:ident(&self $(, $arg:ident: $ty:ty)* $(,)?) -> Result<$ret:ty> $body:tt
            )+
        }
    ) => {
        $(#[$about])*
        #[async_trait]
        pub trait $name: Send + Sync + 'static {
            $(
                $(#[$says])*
                async fn $call(&self $(, $arg: $ty)*) -> Result<$ret> $body
            )+

            /// Takes note of the host that a VM is on, for peers that need it with each call. Most know it themselves. This is
            /// no call to the hypervisor, and so not one of [`Call`].
            fn is_on(&self, _vm: &VmId, _host: &str) {}
        }

        /// The calls of [`Provider`], by the names of its methods.
        #[allow(non_camel_case_types, reason = "they are the names of the methods")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Call {
            $(
                $(#[$says])*
                $call,
            )+
        }

        impl Call {
            /// All of them, in the order of the trait.
            pub const ALL: &'static [Self] = &[$(Self::$call),+];
        }
    };
}

provider_trait! {
    /// A hypervisor.
    ///
    /// Contract for implementations:
    /// - A call that returns a task has *accepted* the work; the caller learns the end from `watch` or `task_status`.
    /// - Every mutation may be sent again after a lost reply and must then end in the same state.
    /// - `create` with an owner is find-or-create by the owner's identity: it returns the VM that is there.
    /// - A `create` that goes on after its caller has gone is at once to be found by its identity, as [`Creating`](crate::model::Stage::Creating) until
    ///   it is whole; one that is not begun by then is given up within seconds.
    /// - A mutation with an owner on a VM of another identity is refused with `IdentityConflict`.
    /// - Dropping the future of a mutation must leave the VM in a state from which the same call converges.
    pub trait Provider: Send + Sync + 'static {
        /// Whether the hypervisor answers and takes our credentials.
        async fn validate(&self) -> Result<()>;

        /// What `provider.v1` knows to ask for.
        async fn capabilities(&self) -> Result<Capabilities>;

        /// Creates the VM, powered off unless the hypervisor cannot do so.
        async fn create(&self, request: CreateVm) -> Result<Created>;

        /// Deletes the VM and its disks. `NotFound` means that it is already gone.
        async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>>;

        /// Changes the power state; a VM already there is a success.
        async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>>;

        /// Brings size, disks, networks and tags to what is desired. What needs a restart is stored for the next start and
        /// told in [`VmState::restart_required`]. Host and devices stay what they are, whatever the placement says of them or does
        /// not say; devices that were lost may come back.
        async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>>;

        /// Raises the virtual hardware version.
        async fn hardware_upgrade(&self, _vm: &VmRef, _version: i32) -> Result<Option<TaskId>> {
            Err(ProviderError::unsupported("a hardware version"))
        }

        /// The VM as it is now; `None` if the provider has looked and it is not there.
        async fn describe(&self, vm: &VmId) -> Result<Option<VmState>>;

        /// How a task stands; `NotFound` if the provider has forgotten it.
        async fn task_status(&self, task: &TaskId) -> Result<TaskState>;

        /// Takes a snapshot.
        async fn snapshot_create(
            &self,
            _vm: &VmRef,
            _request: SnapshotRequest,
        ) -> Result<SnapshotCreated> {
            Err(ProviderError::unsupported("snapshots"))
        }

        /// Deletes a snapshot. `NotFound` means that it is already gone.
        async fn snapshot_delete(&self, _vm: &VmRef, _snapshot: &SnapshotId) -> Result<Option<TaskId>> {
            Err(ProviderError::unsupported("snapshots"))
        }

        /// Takes the VM back to a snapshot.
        async fn snapshot_revert(&self, _vm: &VmRef, _snapshot: &SnapshotId) -> Result<Option<TaskId>> {
            Err(ProviderError::unsupported("snapshots"))
        }

        /// Copies a VM.
        async fn clone_vm(&self, _request: CloneVm) -> Result<Cloned> {
            Err(ProviderError::unsupported("clones"))
        }

        /// Makes an image ready for use; the same source twice is prepared once.
        async fn image_prepare(&self, _request: PrepareImage) -> Result<PreparedImage> {
            Err(ProviderError::unsupported("image import"))
        }

        /// Deletes a prepared image that nothing uses any more. `NotFound` means that it is already gone.
        async fn image_delete(&self, _image: &PreparedImage) -> Result<()> {
            Err(ProviderError::unsupported("deleting images"))
        }

        /// Writes a disk to a staging place.
        async fn export_disk(&self, _request: ExportDisk) -> Result<DiskExported> {
            Err(ProviderError::unsupported("disk export"))
        }

        /// Reads a disk from a staging place.
        async fn import_disk(&self, _request: ImportDisk) -> Result<DiskImported> {
            Err(ProviderError::unsupported("disk import"))
        }

        /// Facts about one disk; an empty disk id is the first disk.
        async fn disk_info(
            &self,
            _vm: &VmId,
            _disk: &str,
            _snapshot: Option<&SnapshotId>,
        ) -> Result<DiskInfo> {
            Err(ProviderError::unsupported("disk information"))
        }

        /// All VMs, ours and others'.
        async fn list_vms(&self) -> Result<Vec<VmState>>;

        /// What the provider offers beyond `provider.v1`. The default offers nothing.
        async fn features(&self) -> Result<Features> {
            Ok(Features::default())
        }

        /// The VM that carries the identity; needs [`Extension::Identity`](crate::Extension::Identity).
        async fn find(&self, _identity: &Identity) -> Result<Option<VmState>> {
            Err(ProviderError::unsupported("look-up by identity"))
        }

        /// Changes as they happen; needs [`Extension::Watch`](crate::Extension::Watch).
        async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
            Err(ProviderError::unsupported("watch"))
        }

        /// Hosts with capacity and labels, datastores, networks.
        async fn inventory(&self) -> Result<Inventory> {
            Err(ProviderError::unsupported("inventory"))
        }

        /// Runs a command in the guest and waits for its end.
        async fn guest_exec(&self, _vm: &VmRef, _request: ExecRequest) -> Result<ExecOutput> {
            Err(ProviderError::unsupported("commands in the guest"))
        }

        /// Moves the VM to another host; needs [`Extension::Migrate`](crate::Extension::Migrate). A VM that is there already is moved,
        /// and so is one whose last request is this one. A wish that cannot be honoured is refused with its field.
        async fn migrate(&self, _vm: &VmRef, _request: MigrateVm) -> Result<Option<TaskId>> {
            Err(ProviderError::unsupported("moving VMs between hosts"))
        }

        /// How far a move is, beyond the percentage of its task; `NotFound` if no move has this task.
        async fn migration_progress(&self, _task: &TaskId) -> Result<MigrationProgress> {
            Err(ProviderError::unsupported("moving VMs between hosts"))
        }

        /// Stops the move of this request: the VM goes on where it was, and the move's task ends with `Cancelled`. `NotFound`: no such
        /// move is going on. `Precondition`: it is too late, and the move goes on to its end.
        async fn cancel_migration(&self, _vm: &VmRef, _request: &RequestId) -> Result<()> {
            Err(ProviderError::unsupported("stopping a move"))
        }

        /// Marks a VM as leaving, and describes it for its new host. From here on nobody else changes it. This and the four that
        /// follow are the two sides of a move between hosts that are providers of their own.
        async fn pack_vm(&self, _handover: &Handover) -> Result<Luggage> {
            Err(ProviderError::unsupported("moving VMs between hosts"))
        }

        /// Makes a place for a VM that comes, and waits there for its memory and its disks. Nobody is told of it before it is kept.
        /// `address` is where other hosts reach this one, as the caller knows it.
        async fn receive_vm(
            &self,
            _handover: &Handover,
            _luggage: Luggage,
            _address: &str,
        ) -> Result<Landing> {
            Err(ProviderError::unsupported("moving VMs between hosts"))
        }

        /// Sends a VM that was packed to the place that was made for it. Dropping the stream before its end calls the guest back.
        async fn send_vm(
            &self,
            _handover: &Handover,
            _landing: &Landing,
        ) -> Result<BoxStream<'static, Result<Sending>>> {
            Err(ProviderError::unsupported("moving VMs between hosts"))
        }

        /// How VMs on their way look from this host: all, or the one that is named, whether it moves or not.
        async fn moves(&self, _vm: Option<&VmId>) -> Result<Vec<MoveState>> {
            Err(ProviderError::unsupported("moving VMs between hosts"))
        }

        /// Carries out what was decided of this host's side of a move. What was carried out before is a success.
        async fn settle_move(&self, _settle: &SettleMove) -> Result<()> {
            Err(ProviderError::unsupported("moving VMs between hosts"))
        }

        /// What the running VMs use; needs [`Extension::Usage`](crate::Extension::Usage).
        async fn usage(&self) -> Result<Vec<VmUsage>> {
            Err(ProviderError::unsupported("the usage of VMs"))
        }

        /// Attaches to a console of the VM.
        async fn console(&self, _vm: &VmRef, _kind: ConsoleKind) -> Result<ConsoleSession> {
            Err(ProviderError::unsupported("a console"))
        }
    }
}
