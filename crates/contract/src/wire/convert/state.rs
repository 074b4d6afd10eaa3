//! A VM as it is: typed over the extensions, in what `provider.v1` can hold for everyone else.

use std::collections::BTreeMap;

use crate::ids::{RequestId, SnapshotId, VmId};
use crate::model::{
    DiskState, GuestDisks, NicState, Owner, PowerState, SnapshotContents, SnapshotState, Stage,
    VmState,
};
use crate::wire::json::parse_flat;
use crate::wire::{ext, v1};

impl From<PowerState> for ext::PowerState {
    fn from(power: PowerState) -> Self {
        match power {
            PowerState::On => Self::On,
            PowerState::Off => Self::Off,
            PowerState::Suspended => Self::Suspended,
            PowerState::Unknown => Self::Unspecified,
        }
    }
}

impl From<ext::PowerState> for PowerState {
    fn from(power: ext::PowerState) -> Self {
        match power {
            ext::PowerState::On => Self::On,
            ext::PowerState::Off => Self::Off,
            ext::PowerState::Suspended => Self::Suspended,
            ext::PowerState::Unspecified => Self::Unknown,
        }
    }
}

impl From<Stage> for ext::Stage {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Whole => Self::Unspecified,
            Stage::Creating => Self::Creating,
            Stage::Deleting => Self::Deleting,
        }
    }
}

impl From<ext::Stage> for Stage {
    fn from(stage: ext::Stage) -> Self {
        match stage {
            ext::Stage::Unspecified => Self::Whole,
            ext::Stage::Creating => Self::Creating,
            ext::Stage::Deleting => Self::Deleting,
        }
    }
}

impl From<Owner> for ext::Owner {
    fn from(owner: Owner) -> Self {
        Self {
            identity: owner.identity.to_string(),
            namespace: owner.namespace,
            name: owner.name,
        }
    }
}

impl From<ext::Owner> for Owner {
    fn from(owner: ext::Owner) -> Self {
        Self {
            identity: owner.identity.into(),
            namespace: owner.namespace,
            name: owner.name,
        }
    }
}

impl From<DiskState> for ext::Disk {
    fn from(disk: DiskState) -> Self {
        Self {
            id: disk.id,
            name: disk.name,
            path: disk.path,
            size_gib: disk.size_gib,
            format: disk.format,
        }
    }
}

impl From<ext::Disk> for DiskState {
    fn from(disk: ext::Disk) -> Self {
        Self {
            id: disk.id,
            name: disk.name,
            path: disk.path,
            size_gib: disk.size_gib,
            format: disk.format,
        }
    }
}

impl From<NicState> for ext::Nic {
    fn from(nic: NicState) -> Self {
        Self {
            name: nic.name,
            mac: nic.mac,
            ip: nic.ip,
        }
    }
}

impl From<ext::Nic> for NicState {
    fn from(nic: ext::Nic) -> Self {
        Self {
            name: nic.name,
            mac: nic.mac,
            ip: nic.ip,
        }
    }
}

impl From<VmState> for ext::VmState {
    fn from(vm: VmState) -> Self {
        Self {
            id: vm.id.to_string(),
            name: vm.name,
            owner: vm.owner.map(Into::into),
            revision: vm.revision,
            stage: ext::Stage::from(vm.stage).into(),
            power: ext::PowerState::from(vm.power).into(),
            ips: vm.ips,
            console_url: vm.console_url,
            cpu: vm.cpu,
            memory_mib: vm.memory_mib,
            root: vm.root.map(Into::into),
            disks: vm.disks.map(|d| ext::Disks {
                items: convert_all(d),
            }),
            nics: vm.nics.map(|n| ext::Nics {
                items: convert_all(n),
            }),
            host: vm.host,
            restart_required: vm.restart_required,
            last_request: vm.last_request.map(|r| r.to_string()).unwrap_or_default(),
            fault: vm.fault,
            details: vm.details,
            snapshots: vm.snapshots.map(|s| ext::Snapshots {
                items: convert_all(s),
            }),
        }
    }
}

impl From<SnapshotState> for ext::Snapshot {
    fn from(snapshot: SnapshotState) -> Self {
        Self {
            id: snapshot.id.to_string(),
            name: snapshot.name,
            description: snapshot.description,
            taken: snapshot.taken,
            size_bytes: snapshot.size_bytes,
            has_memory: snapshot.contents == SnapshotContents::DisksAndMemory,
            quiesced: snapshot.guest == GuestDisks::Quiet,
            parent_id: snapshot.parent.map(|id| id.to_string()).unwrap_or_default(),
        }
    }
}

impl From<ext::Snapshot> for SnapshotState {
    fn from(snapshot: ext::Snapshot) -> Self {
        Self {
            id: snapshot.id.into(),
            name: snapshot.name,
            description: snapshot.description,
            taken: snapshot.taken,
            size_bytes: snapshot.size_bytes,
            contents: if snapshot.has_memory {
                SnapshotContents::DisksAndMemory
            } else {
                SnapshotContents::Disks
            },
            guest: if snapshot.quiesced {
                GuestDisks::Quiet
            } else {
                GuestDisks::AsTheyWere
            },
            parent: SnapshotId::non_empty(snapshot.parent_id),
        }
    }
}

impl From<ext::VmState> for VmState {
    fn from(vm: ext::VmState) -> Self {
        Self {
            power: vm.power().into(),
            stage: vm.stage().into(),
            id: vm.id.into(),
            name: vm.name,
            owner: vm.owner.map(Into::into),
            revision: vm.revision,
            ips: vm.ips,
            console_url: vm.console_url,
            cpu: vm.cpu,
            memory_mib: vm.memory_mib,
            root: vm.root.map(Into::into),
            disks: vm.disks.map(|d| convert_all(d.items)),
            nics: vm.nics.map(|n| convert_all(n.items)),
            host: vm.host,
            restart_required: vm.restart_required,
            last_request: RequestId::non_empty(vm.last_request),
            fault: vm.fault,
            details: vm.details,
            snapshots: vm.snapshots.map(|s| convert_all(s.items)),
        }
    }
}

fn convert_all<A: Into<B>, B>(items: Vec<A>) -> Vec<B> {
    items.into_iter().map(Into::into).collect()
}

/// `None` is "looked, and not there".
impl From<Option<VmState>> for v1::DescribeResponse {
    fn from(vm: Option<VmState>) -> Self {
        let Some(vm) = vm else {
            return Self::default();
        };
        Self {
            exists: true,
            power_state: vm.power.wire().to_owned(),
            provider_raw_json: serde_json::json!(raw_facts(&vm)).to_string(),
            ips: vm.ips,
            console_url: vm.console_url,
            vcpus: i32::try_from(vm.cpu).unwrap_or(i32::MAX),
            max_memory_mib: i64::try_from(vm.memory_mib).unwrap_or(i64::MAX),
        }
    }
}

/// The provider's own facts, and those of the model for which the message has no field.
fn raw_facts(vm: &VmState) -> BTreeMap<&str, &str> {
    let of_model = [
        ("id", vm.id.as_str()),
        ("name", &vm.name),
        ("host", &vm.host),
        ("fault", &vm.fault),
    ];
    let told = of_model.into_iter().filter(|(_, value)| !value.is_empty());
    let own = vm.details.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    told.chain(own).collect()
}

impl v1::DescribeResponse {
    /// The VM of that id, as far as the message can tell.
    pub(crate) fn into_state(self, id: &VmId) -> Option<VmState> {
        if !self.exists {
            return None;
        }
        let details = raw_details(&self.provider_raw_json);
        Some(VmState {
            id: id.clone(),
            name: details.get("name").cloned().unwrap_or_default(),
            power: PowerState::parse(&self.power_state),
            ips: self.ips,
            console_url: self.console_url,
            cpu: u32::try_from(self.vcpus).unwrap_or_default(),
            details,
            ..VmState::default()
        })
    }
}

/// Providers in the field build this text by hand, and a quote in a name breaks it: no reason to lose the VM.
fn raw_details(text: &str) -> BTreeMap<String, String> {
    parse_flat(text, "provider_raw_json")
        .unwrap_or_else(|error| [("parseError".to_owned(), error.message)].into())
}

/// Here the first disk is one of all, and the first.
impl From<VmState> for v1::VmInfo {
    fn from(vm: VmState) -> Self {
        let disks = vm.root.into_iter().chain(vm.disks.unwrap_or_default());
        Self {
            id: vm.id.to_string(),
            name: vm.name,
            power_state: vm.power.wire().to_owned(),
            ips: vm.ips,
            cpu: i32::try_from(vm.cpu).unwrap_or(i32::MAX),
            memory_mib: i64::try_from(vm.memory_mib).unwrap_or(i64::MAX),
            disks: disks.map(Into::into).collect(),
            networks: convert_all(vm.nics.unwrap_or_default()),
            provider_raw: vm.details,
        }
    }
}

impl From<v1::VmInfo> for VmState {
    fn from(vm: v1::VmInfo) -> Self {
        Self {
            id: vm.id.into(),
            name: vm.name,
            power: PowerState::parse(&vm.power_state),
            ips: vm.ips,
            cpu: u32::try_from(vm.cpu).unwrap_or_default(),
            memory_mib: u64::try_from(vm.memory_mib).unwrap_or_default(),
            disks: known(convert_all(vm.disks)),
            nics: known(convert_all(vm.networks)),
            details: vm.provider_raw,
            ..Self::default()
        }
    }
}

/// The message cannot tell "none" from "not known", and to take the second for the first would let a planner act on it.
fn known<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}

impl From<DiskState> for v1::DiskInfo {
    fn from(disk: DiskState) -> Self {
        Self {
            id: disk.id,
            path: disk.path,
            size_gib: i32::try_from(disk.size_gib).unwrap_or(i32::MAX),
            format: disk.format,
        }
    }
}

impl From<v1::DiskInfo> for DiskState {
    fn from(disk: v1::DiskInfo) -> Self {
        Self {
            id: disk.id,
            name: String::new(),
            path: disk.path,
            size_gib: u32::try_from(disk.size_gib).unwrap_or_default(),
            format: disk.format,
        }
    }
}

impl From<NicState> for v1::NetworkInfo {
    fn from(nic: NicState) -> Self {
        Self {
            name: nic.name,
            mac: nic.mac,
            ip_address: nic.ip,
        }
    }
}

impl From<v1::NetworkInfo> for NicState {
    fn from(nic: v1::NetworkInfo) -> Self {
        Self {
            name: nic.name,
            mac: nic.mac,
            ip: nic.ip_address,
        }
    }
}
