//! Moving a VM to another host of its hypervisor.

use std::time::Duration;

use crate::ids::RequestId;

/// Whether the guest goes on while it moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationMode {
    /// It does.
    #[default]
    Live,
    /// It is off, or is stopped for the move.
    Cold,
}

/// A VM to move to another host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one field of the wire contract"
)]
pub struct MigrateVm {
    /// A host of the inventory. Empty: any other one, as the hypervisor chooses.
    pub target_host: String,
    /// Whether the guest goes on while it moves.
    pub mode: MigrationMode,
    /// Memory is compressed on its way.
    pub compression: bool,
    /// Memory is encrypted on its way; refused where that cannot be.
    pub encrypted: bool,
    /// The most that the move may take of the network, in bytes a second.
    pub bandwidth: Option<u64>,
    /// A guest that writes faster than it can be moved is slowed down.
    pub auto_converge: bool,
    /// A guest that cannot be moved before is started on the target and fetches what is missing.
    pub post_copy: bool,
    /// A request that is sent twice is carried out once.
    pub request: Option<RequestId>,
}

/// What a move is busy with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationPhase {
    /// A place is made on the target.
    #[default]
    Preparing,
    /// Memory is copied while the guest runs.
    Copying,
    /// The guest runs on the target and fetches what is missing.
    Fetching,
    /// All is there; what was on the source is taken away.
    Finishing,
}

/// How far a move is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationProgress {
    /// What it is busy with.
    pub phase: MigrationPhase,
    /// Where the VM comes from.
    pub source_host: String,
    /// Where it goes. Empty until that is chosen.
    pub target_host: String,
    /// Bytes to move, where the hypervisor tells.
    pub total_bytes: Option<u64>,
    /// Bytes that are left to move, where the hypervisor tells.
    pub remaining_bytes: Option<u64>,
    /// How fast it goes, where the hypervisor tells.
    pub bytes_per_second: Option<u64>,
    /// How long the guest stood still, or is expected to, where the hypervisor tells.
    pub downtime: Option<Duration>,
}
