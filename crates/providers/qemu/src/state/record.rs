//! What is known of a VM and of an image, as it is kept.

use polyvirt_contract::model::Owner;
use polyvirt_contract::{MoveId, RequestId, SnapshotId};
use polyvirt_provider_kit::devices::DeviceAddress;
use polyvirt_provider_kit::lineage::Lineage;
use serde::{Deserialize, Serialize};

use crate::uuid::Uuid;

/// Where a VM is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Its disks are being made. It has never run: a provider that finds it so after a crash removes it.
    Creating,
    /// Whole.
    Ready,
    /// On its way out; a provider that finds it so goes on.
    Deleting,
}

/// How the machine starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FirmwareKind {
    Bios,
    Uefi,
    /// UEFI that starts signed loaders only.
    SecureUefi,
}

impl FirmwareKind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Bios => "BIOS",
            Self::Uefi => "UEFI",
            Self::SecureUefi => "UEFI, secure boot",
        }
    }
}

/// By what the guest learns its first-boot configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SeedKind {
    /// A small disk labelled CIDATA.
    NoCloud,
    /// A file of the firmware configuration device.
    Ignition,
}

/// What may be added while the machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HotAdd {
    pub(crate) cpu: bool,
    pub(crate) memory: bool,
}

/// A disk beyond the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disk {
    pub(crate) name: String,
    /// In the working folder.
    pub(crate) file: String,
    pub(crate) size_gib: u32,
    /// Whether it may grow while the VM runs.
    pub(crate) online: bool,
    /// Whether its blocks are allocated at once.
    pub(crate) thick: bool,
    /// The PCI Express port that it is plugged into.
    pub(crate) port: u8,
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nic {
    pub(crate) name: String,
    /// The bridge on the host; empty for user-mode networking.
    pub(crate) bridge: String,
    pub(crate) vlan: u16,
    /// The device as QEMU names it.
    pub(crate) device: String,
    pub(crate) mac: String,
    pub(crate) mtu: u32,
    /// The fixed address that the guest was given; empty for DHCP.
    pub(crate) address: String,
    /// Which of the user-mode networks, so that two cards are not on the same one.
    pub(crate) subnet: u8,
    /// The PCI Express port that it is plugged into.
    pub(crate) port: u8,
    /// Given to a VM for which nobody asked for a card; not told of.
    #[serde(default)]
    pub(crate) implicit: bool,
}

impl Nic {
    /// Whether it is the same device on the same network; the address inside is the guest's affair.
    pub(crate) fn same_card(&self, other: &Self) -> bool {
        let device = |nic: &Self| Self {
            address: String::new(),
            ..nic.clone()
        };
        device(self) == device(other)
    }
}

/// What a machine is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hardware {
    pub(crate) cpu: u32,
    pub(crate) memory_mib: u64,
    pub(crate) hot_add: HotAdd,
    /// Size of the first disk; 0 for that of its image.
    pub(crate) root_gib: u32,
    pub(crate) disks: Vec<Disk>,
    pub(crate) nics: Vec<Nic>,
}

impl Hardware {
    pub(crate) fn disk(&self, name: &str) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.name == name)
    }

    pub(crate) fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name == name)
    }
}

/// Where a processor that was added sits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CpuPlace {
    /// The device as QEMU names it.
    pub(crate) driver: String,
    /// `socket-id`, `core-id` and so on.
    pub(crate) props: std::collections::BTreeMap<String, i64>,
}

/// What was added to the machine since it started; part of the sizes in [`Hardware`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plugged {
    pub(crate) cpus: Vec<CpuPlace>,
    /// Sizes in MiB.
    pub(crate) dimms: Vec<u64>,
}

/// A moment to go back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// The tag inside the disks.
    pub(crate) id: SnapshotId,
    pub(crate) name: String,
    pub(crate) description: String,
    /// Whether the machine's memory is in it.
    pub(crate) memory: bool,
    /// Whether the guest's file systems were quiet when it was taken.
    pub(crate) frozen: bool,
    pub(crate) hardware: Hardware,
    pub(crate) plugged: Plugged,
    /// Whether it is whole: one that is not was cut short, and is removed.
    pub(crate) complete: bool,
    /// Seconds since 1970; 0 in records of older versions.
    #[serde(default)]
    pub(crate) taken: i64,
    /// What it holds in bytes; 0 in records of older versions.
    #[serde(default)]
    pub(crate) bytes: u64,
}

/// On which side of a move a VM is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Side {
    /// It goes to another host.
    Leaves,
    /// It comes from another host, and nobody is told of it yet.
    Comes,
}

/// How a VM was before it moved, and will be again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Was {
    On,
    Off,
    Suspended,
}

/// A move that is not settled. Written down before anything is done for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moving {
    pub(crate) id: MoveId,
    pub(crate) side: Side,
    /// The host on the other side.
    pub(crate) peer: String,
    pub(crate) was: Was,
    /// The request that it is carried out for.
    pub(crate) request: Option<RequestId>,
}

/// All that is kept of a VM. Secrets are not in it: first-boot data is in the working folder only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) owner: Option<Owner>,
    pub(crate) stage: Stage,
    /// Grows with each change that is kept.
    pub(crate) revision: u64,
    /// The machine type with its version, so that a newer QEMU does not change the guest's hardware.
    pub(crate) machine: String,
    pub(crate) firmware: FirmwareKind,
    /// The prepared image below the first disk; empty if the disk stands alone.
    pub(crate) image: String,
    pub(crate) seed: Option<SeedKind>,
    pub(crate) tags: Vec<String>,
    /// What the machine has.
    pub(crate) hardware: Hardware,
    /// Devices of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) devices: Vec<DeviceAddress>,
    /// What it will have at its next start.
    pub(crate) pending: Option<Box<Hardware>>,
    pub(crate) plugged: Plugged,
    pub(crate) snapshots: Vec<Snapshot>,
    #[serde(default)]
    pub(crate) lineage: Lineage,
    pub(crate) last_request: Option<RequestId>,
    /// Whether it ran when the record was written.
    pub(crate) running: bool,
    pub(crate) starts: u32,
    /// Why it stopped, if nobody asked for that.
    pub(crate) fault: String,
    /// Its way to or from another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) moving: Option<Moving>,
}

impl Record {
    /// What the VM should have, now or after its next start.
    pub(crate) fn wanted(&self) -> &Hardware {
        self.pending.as_deref().unwrap_or(&self.hardware)
    }

    /// Files of the disks that it has, will have, or can go back to. Nobody writes over them or removes them.
    pub(crate) fn disk_files(&self) -> Vec<String> {
        let snapshots = self.snapshots.iter().map(|snapshot| &snapshot.hardware);
        let all = std::iter::once(&self.hardware)
            .chain(self.pending.as_deref())
            .chain(snapshots);
        all.flat_map(|hardware| hardware.disks.iter().map(|disk| disk.file.clone()))
            .collect()
    }

    /// Whether the disk in that file is part of a snapshot.
    pub(crate) fn is_in_snapshot(&self, file: &str) -> bool {
        let mut snapshots = self.snapshots.iter();
        snapshots.any(|snapshot| snapshot.hardware.disks.iter().any(|disk| disk.file == file))
    }

    /// Whether it comes from another host, and nobody is told of it yet.
    pub(crate) fn comes(&self) -> bool {
        let moving = self.moving.as_ref();
        moving.is_some_and(|moving| moving.side == Side::Comes)
    }

    /// Whether it goes to another host.
    pub(crate) fn leaves(&self) -> bool {
        self.moving.is_some() && !self.comes()
    }

    /// The name of the first disk's file.
    pub(crate) const ROOT: &str = "root.qcow2";
    /// The file of UEFI variables.
    pub(crate) const VARS: &str = "vars.qcow2";
    /// The first-boot disk.
    pub(crate) const SEED: &str = "seed.img";
    /// The Ignition configuration.
    pub(crate) const IGNITION: &str = "ignition.json";
}

/// A prepared image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageRecord {
    pub(crate) id: String,
    /// The VMImage that it was first prepared for.
    pub(crate) name: String,
    /// Where it came from.
    pub(crate) source: String,
    /// What the disk was before it became qcow2.
    pub(crate) format: String,
    pub(crate) virtual_size: u64,
    /// A layer that linked clones share, not an image that somebody prepared.
    #[serde(default)]
    pub(crate) layer: bool,
    /// The image below this layer; empty if it stands alone.
    #[serde(default)]
    pub(crate) base: String,
    /// What all versions of the image share; empty in records of before there were any.
    #[serde(default)]
    pub(crate) family: String,
    /// Which version its origin said it is.
    #[serde(default)]
    pub(crate) version: Option<String>,
    /// Grows with each version.
    #[serde(default)]
    pub(crate) number: u64,
}
