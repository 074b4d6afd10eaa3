//! A VM that goes from one host to another where each of them is a provider of its own: whoever moves it asks both.

use bytes::Bytes;

use crate::ids::{MoveId, VmId};
use crate::model::{MigrateVm, MigrationProgress};

/// Known to both sides of one move and to nobody else.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MoveSecret(pub Bytes);

impl std::fmt::Debug for MoveSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MoveSecret(..)")
    }
}

/// What both sides of a move are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// Tells this move from all others.
    pub id: MoveId,
    /// The VM.
    pub vm: VmId,
    /// Where it comes from.
    pub source_host: String,
    /// What was asked for. Its target is where the VM goes.
    pub wish: MigrateVm,
    /// What both sides know and nobody else does.
    pub secret: MoveSecret,
}

/// A VM as its source describes it for a host of the same kind. It may hold secrets of the guest.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Luggage(pub Bytes);

impl std::fmt::Debug for Luggage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Luggage({} bytes)", self.0.len())
    }
}

/// Where a VM is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Landing {
    /// As other hosts reach it.
    pub address: String,
    /// Takes memory.
    pub memory_port: u16,
    /// Takes disks.
    pub disk_port: u16,
}

/// How far the sending of a VM is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// Bytes and times; the hosts are not told here.
    pub progress: MigrationProgress,
    /// Whether the guest may go on at its target, because it never will again at its source.
    pub released: bool,
}

/// On which side of a move a host is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MoveRole {
    /// On none: the VM does not move.
    #[default]
    None,
    /// The VM leaves this host.
    Leaves,
    /// The VM comes to this host.
    Comes,
}

/// How a VM on its way looks from one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MoveSight {
    /// A word of a newer peer.
    #[default]
    Unknown,
    /// Nothing runs, and not because its guest ended it.
    Off,
    /// The guest has shut down.
    Ended,
    /// It waits for a guest that has not arrived.
    Waits,
    /// It is being sent.
    Sends,
    /// The guest is split between both hosts.
    Split,
    /// All of it was sent, and it stands still.
    Sent,
    /// All of it is there, and has not run there.
    Arrived,
    /// It stands still.
    Paused,
    /// It runs.
    Runs,
}

/// A VM on its way, as one host sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveState {
    /// The VM.
    pub vm: VmId,
    /// The move; empty if it does not move.
    pub id: MoveId,
    /// On which side this host is.
    pub role: MoveRole,
    /// The host on the other side.
    pub peer: String,
    /// How it looks.
    pub sight: MoveSight,
}

/// What becomes of one side of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveDecision {
    /// The guest runs on here from now on; the rest is decided later.
    Go,
    /// The VM is here: it is as it was before the move, and moves no more.
    Keep,
    /// The VM is on the other host: what is here of it goes.
    Drop,
}

/// What a host is told of its side of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleMove {
    /// The VM.
    pub vm: VmId,
    /// The move.
    pub id: MoveId,
    /// What becomes of it.
    pub decision: MoveDecision,
}
