//! The words that engine and providers speak. Plain data: no client, no wire form.

mod create;
mod guest;
mod handover;
mod image;
mod inventory;
mod migration;
mod operations;
mod state;
mod usage;

pub use create::{
    Chosen, ClassSpec, CreateVm, DiskDefaults, DiskSpec, DiskType, ExpandPolicy, Firmware,
    HostDemand, HostTerm, ImageSource, NicSpec, Owner, PerformanceProfile, Placement,
    ResourceLimits, ScsiSpec, SecurityProfile, StaticAddress, UserData,
};
pub use guest::{ConsoleKind, ConsoleSession, ExecOutput, ExecRequest};
pub use handover::{
    Handover, Landing, Luggage, MoveDecision, MoveRole, MoveSecret, MoveSight, MoveState, Sending,
    SettleMove,
};
pub use image::{Headers, ImageIdentity, ImageOrigin, PrepareImage, PreparedImage, Pull};
pub use inventory::{Datastore, Host, HostHealth, Inventory, NetworkEntry};
pub use migration::{MigrateVm, MigrationMode, MigrationPhase, MigrationProgress};
pub use operations::{
    CloneMode, CloneVm, Cloned, Created, DiskExported, DiskImported, DiskInfo, ExportDisk,
    ImportDisk, PowerOp, PowerRequest, Quiesce, SnapshotContents, SnapshotCreated, SnapshotRequest,
    Staging, VmRef,
};
pub use state::{DiskState, GuestDisks, NicState, PowerState, SnapshotState, Stage, VmState};
pub use usage::VmUsage;
