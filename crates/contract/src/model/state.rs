//! What a VM is, as its provider said last.

use std::collections::BTreeMap;

use crate::ids::{RequestId, SnapshotId, VmId};
use crate::model::{Owner, SnapshotContents};

/// The power state that a provider reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PowerState {
    /// Running.
    On,
    /// Not running.
    #[default]
    Off,
    /// In memory, not scheduled.
    Suspended,
    /// The provider did not say, or said a word that we do not know.
    Unknown,
}

impl PowerState {
    /// The word on the `provider.v1` wire, which knows only `On` and `Off`; a suspended VM is not off.
    pub const fn wire(self) -> &'static str {
        match self {
            Self::On | Self::Suspended => "On",
            Self::Off => "Off",
            Self::Unknown => "",
        }
    }

    /// Understands the words that providers in the field use.
    pub fn parse(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "on" | "poweredon" | "running" => Self::On,
            "off" | "poweredoff" | "stopped" | "shutoff" | "shut off" => Self::Off,
            "suspended" | "paused" => Self::Suspended,
            _ => Self::Unknown,
        }
    }
}

/// Where a VM is in its life on the hypervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It is there; also where the provider does not tell.
    #[default]
    Whole,
    /// It is being made. If that fails, it goes again.
    Creating,
    /// It is on its way out.
    Deleting,
}

/// A VM as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmState {
    /// The provider's name for it.
    pub id: VmId,
    /// Its name on the hypervisor.
    pub name: String,
    /// Whom it belongs to; `None` for VMs that nobody marked or a provider that cannot say.
    pub owner: Option<Owner>,
    /// Grows with each change of this VM; 0 where the provider does not count. Of two states the higher is newer.
    pub revision: u64,
    /// Whether it is whole yet, or still.
    pub stage: Stage,
    /// Running or not.
    pub power: PowerState,
    /// Addresses of the guest.
    pub ips: Vec<String>,
    /// A link for people; empty if none.
    pub console_url: String,
    /// CPUs it has now; 0 if unknown.
    pub cpu: u32,
    /// Memory it has now, in MiB; 0 if unknown.
    pub memory_mib: u64,
    /// The disk that it boots from; `None` where the provider cannot tell it from the others.
    pub root: Option<DiskState>,
    /// Disks beyond the first where the provider can tell them apart, else all; `None` if unknown.
    pub disks: Option<Vec<DiskState>>,
    /// Network cards; `None` if unknown.
    pub nics: Option<Vec<NicState>>,
    /// The host it runs on; empty if unknown.
    pub host: String,
    /// Paths of fields whose new value waits for a restart.
    pub restart_required: Vec<String>,
    /// The last user request that was carried out, for requests that must happen once.
    pub last_request: Option<RequestId>,
    /// What is wrong with the VM on the hypervisor; empty if nothing.
    pub fault: String,
    /// Its snapshots, only those that are whole, in the order in which they were taken; `None` if unknown.
    pub snapshots: Option<Vec<SnapshotState>>,
    /// Facts that only this kind of hypervisor has.
    pub details: BTreeMap<String, String>,
}

/// A disk as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskState {
    /// The provider's name for it.
    pub id: String,
    /// The name in the VirtualMachine; empty where the provider cannot tell.
    pub name: String,
    /// Path or volume.
    pub path: String,
    /// Size in GiB.
    pub size_gib: u32,
    /// `qcow2`, `raw`, …
    pub format: String,
}

/// A snapshot that is whole and can be gone back to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotState {
    /// The provider's name for it.
    pub id: SnapshotId,
    /// The name that it was asked for under; empty if unknown.
    pub name: String,
    /// For people.
    pub description: String,
    /// When it was taken, in seconds since 1970; 0 if unknown.
    pub taken: i64,
    /// Bytes on the storage; 0 if unknown.
    pub size_bytes: u64,
    /// What it holds.
    pub contents: SnapshotContents,
    /// Whether the guest had written its buffers out.
    pub guest: GuestDisks,
    /// The snapshot that the VM had gone on from when this one was taken. `None`: there was none, or it is not known.
    pub parent: Option<SnapshotId>,
}

/// The state of the guest's file systems in a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuestDisks {
    /// As after a power cut, or not known.
    #[default]
    AsTheyWere,
    /// The guest's agent had made them quiet.
    Quiet,
}

/// A network card as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicState {
    /// The name in the VirtualMachine, or the network's.
    pub name: String,
    /// MAC address.
    pub mac: String,
    /// Address; empty if unknown.
    pub ip: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_words_of_the_field_are_understood() {
        for (word, state) in [
            ("On", PowerState::On),
            ("poweredOff", PowerState::Off),
            ("shut off", PowerState::Off),
            ("suspended", PowerState::Suspended),
            ("", PowerState::Unknown),
            ("levitating", PowerState::Unknown),
        ] {
            assert_eq!(PowerState::parse(word), state, "{word}");
        }
    }

    #[test]
    fn a_suspended_vm_is_on_for_peers_that_know_two_states() {
        assert_eq!(PowerState::Suspended.wire(), "On");
        assert_eq!(PowerState::Unknown.wire(), "");
    }
}
