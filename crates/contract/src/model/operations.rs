//! Requests and answers of the calls that change something.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ids::{RequestId, SnapshotId, TaskId, VmId};
use crate::model::{ClassSpec, Owner, Placement};

/// A VM, and for whom we speak: a provider refuses a VM that carries another identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmRef {
    /// The VM.
    pub id: VmId,
    /// The object on whose behalf the call is made; `None` if a manager without identities asks.
    pub owner: Option<Owner>,
}

/// The answer of `create`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Created {
    /// The VM; known at once, also while the task runs.
    pub id: VmId,
    /// Still at work; `None` if finished.
    pub task: Option<TaskId>,
}

/// A change of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerOp {
    /// Start.
    On,
    /// Pull the plug.
    Off,
    /// Start again, without asking the guest.
    Reboot,
    /// Ask the guest to shut down, and pull the plug after `timeout` only if the provider's user asked for that.
    ShutdownGraceful {
        /// How long the guest may take.
        timeout: Duration,
    },
    /// Stop the processors and keep the memory; needs [`Extension::Pause`](crate::Extension::Pause). [`PowerOp::On`] lets it go
    /// on.
    Pause,
}

/// A change of power, and which request of a user it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerRequest {
    /// The change.
    pub op: PowerOp,
    /// Carried out once, however often it is sent.
    pub request: Option<RequestId>,
}

impl From<PowerOp> for PowerRequest {
    fn from(op: PowerOp) -> Self {
        Self { op, request: None }
    }
}

/// What a snapshot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotContents {
    /// Disks only.
    #[default]
    Disks,
    /// Disks and memory.
    DisksAndMemory,
}

/// Whether the guest is asked to write its buffers out before a snapshot is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quiesce {
    /// The caller does not say; the provider decides.
    #[default]
    Unsaid,
    /// It is asked, if it can be. [`SnapshotState::guest`](crate::model::SnapshotState::guest) tells whether it could.
    IfPossible,
    /// It is left alone.
    No,
}

/// A snapshot to take. Two requests of one name for one VM are one snapshot where the provider offers
/// [`Extension::Identity`](crate::Extension::Identity).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// A name to use if the hypervisor allows.
    pub name_hint: String,
    /// For people.
    pub description: String,
    /// What it holds.
    pub contents: SnapshotContents,
    /// Whether the guest is asked to be quiet.
    pub quiesce: Quiesce,
}

/// The answer of `snapshot_create`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCreated {
    /// The snapshot.
    pub id: SnapshotId,
    /// Still at work; `None` if finished.
    pub task: Option<TaskId>,
}

/// How a copy relates to its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloneMode {
    /// Independent.
    #[default]
    Full,
    /// Shares the source's blocks.
    Linked,
}

/// A VM to copy.
#[derive(Clone, Debug, PartialEq)]
pub struct CloneVm {
    /// Whom the copy belongs to.
    pub owner: Option<Owner>,
    /// The VM to copy.
    pub source: VmId,
    /// The copy's name on the hypervisor.
    pub target_name: String,
    /// How the copy relates to its source.
    pub mode: CloneMode,
    /// Another size for the copy.
    pub class: Option<ClassSpec>,
    /// Where the copy goes.
    pub placement: Option<Placement>,
    /// Guest customization as JSON in the casing of `VMClone.spec.customization`; empty for none.
    pub customize_json: String,
}

/// The answer of `clone_vm`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cloned {
    /// The copy.
    pub id: VmId,
    /// Still at work; `None` if finished.
    pub task: Option<TaskId>,
}

/// Where a disk is staged on its way between hypervisors.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Staging {
    /// `pvc://`, `s3://` or `nfs://`.
    pub url: String,
    /// `pvc`, `s3` or `nfs`; empty for `pvc`.
    pub backend: String,
    /// `auto`, `relay` or `direct`.
    pub transfer_mode: String,
    /// Settings of the back end as JSON; empty for none.
    pub options_json: String,
    /// Never logged.
    pub credentials: BTreeMap<String, String>,
}

impl std::fmt::Debug for Staging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staging")
            .field("url", &self.url)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

/// A disk to write out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportDisk {
    /// The VM.
    pub vm: VmId,
    /// The disk; empty for the first.
    pub disk: String,
    /// Read from this snapshot.
    pub snapshot: Option<SnapshotId>,
    /// Where to.
    pub staging: Staging,
    /// `qcow2`, `vmdk`, `raw`.
    pub format: String,
    /// Whether to compress.
    pub compress: bool,
}

/// The answer of `export_disk`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskExported {
    /// Names the export.
    pub id: String,
    /// Still at work; `None` if finished.
    pub task: Option<TaskId>,
    /// A guess, for progress.
    pub estimated_size_bytes: i64,
    /// SHA-256, hex; empty if not known yet.
    pub checksum: String,
}

/// A disk to read in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportDisk {
    /// Where from.
    pub staging: Staging,
    /// A pool or datastore; empty for the provider's choice.
    pub storage_hint: String,
    /// The format of the source.
    pub format: String,
    /// The name of the new disk.
    pub target_name: String,
    /// The checksum that must match; `None` to skip the check.
    pub expected_checksum: Option<String>,
}

/// The answer of `import_disk`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskImported {
    /// The disk.
    pub id: String,
    /// Its path in the hypervisor's own words.
    pub path: String,
    /// Still at work; `None` if finished.
    pub task: Option<TaskId>,
    /// Bytes on the storage.
    pub actual_size_bytes: i64,
    /// SHA-256, hex; empty if not known yet.
    pub checksum: String,
}

/// Facts about a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskInfo {
    /// The disk.
    pub id: String,
    /// `qcow2`, `raw`, …
    pub format: String,
    /// What the guest sees.
    pub virtual_size_bytes: i64,
    /// What the storage holds.
    pub actual_size_bytes: i64,
    /// Path or volume.
    pub path: String,
    /// Whether it is the disk that the VM boots from.
    pub bootable: bool,
    /// Snapshots of it.
    pub snapshots: Vec<String>,
    /// What it is an overlay of; empty if of nothing.
    pub backing_file: String,
    /// Facts that only this kind of hypervisor has.
    pub metadata: BTreeMap<String, String>,
}
