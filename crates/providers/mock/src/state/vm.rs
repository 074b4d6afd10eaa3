//! A VM as the mock keeps it: compact, because a benchmark keeps ten thousand, and whole, because a folder keeps it too.

use std::collections::BTreeMap;

use polyvirt_contract::model::{
    CreateVm, DiskSpec, ExpandPolicy, Firmware, NicSpec, Owner, UserData,
};
use polyvirt_contract::{RequestId, SnapshotId, VmId};
use polyvirt_provider_kit::lineage::Lineage;
use serde::{Deserialize, Serialize};

use crate::state::seed::Seed;
use crate::state::tasks::TaskKey;

/// A VM's number, which its id is made from. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct VmKey(pub(crate) u32);

impl VmKey {
    pub(crate) fn id(self) -> VmId {
        VmId::from(format!("vm-{}", self.0))
    }

    pub(crate) fn parse(id: &VmId) -> Option<Self> {
        let digits = id.as_str().strip_prefix("vm-")?;
        let canonical = !digits.starts_with(['0', '+']);
        canonical.then(|| digits.parse().ok().map(Self)).flatten()
    }
}

/// Whether the machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Power {
    /// It does not.
    #[default]
    Off,
    /// It runs, its guest is not up yet.
    Booting,
    /// It runs and its guest has an address.
    On,
    /// It is in memory and stands still.
    Paused,
}

/// Where a VM is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Its creation is in flight; a crash undoes it.
    Creating,
    /// It is there.
    #[default]
    Ready,
    /// Its deletion is in flight; a crash forgets that.
    Deleting,
}

/// A disk beyond the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disk {
    pub(crate) name: Box<str>,
    pub(crate) size_gib: u32,
    pub(crate) online: bool,
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nic {
    pub(crate) name: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub(crate) network: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub(crate) mac: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub(crate) ip: Box<str>,
    /// How it is set up beyond that, in words: there is no wire to set up.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub(crate) setup: Box<str>,
}

/// What can change in a VM's life and comes back with a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hardware {
    pub(crate) cpu: u32,
    pub(crate) memory_mib: u64,
    /// The first disk.
    pub(crate) root_gib: u32,
    pub(crate) disks: Box<[Disk]>,
    pub(crate) nics: Box<[Nic]>,
}

/// What the class allows to grow in a running VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HotAdd {
    pub(crate) cpu: bool,
    pub(crate) memory: bool,
}

/// A moment of a VM to go back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) id: SnapshotId,
    pub(crate) name: Box<str>,
    pub(crate) description: Box<str>,
    /// The power state to go back to: a snapshot without memory goes back to off.
    pub(crate) power: Power,
    pub(crate) hardware: Hardware,
    /// Seconds since 1970.
    #[serde(default)]
    pub(crate) taken: i64,
    /// Whether the guest was asked to be quiet: a pretended guest always can.
    #[serde(default)]
    pub(crate) quiet: bool,
}

/// What is known of a VM only while the process lives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Volatile {
    /// The last task in its queue, and so the one that newer work waits for.
    pub(crate) busy: Option<TaskKey>,
    /// The task that creates it.
    pub(crate) creation: Option<TaskKey>,
    /// The task that waits for the guest to shut down.
    pub(crate) shutdown: Option<TaskKey>,
    /// Whether the guest ignores us.
    pub(crate) hung: bool,
}

/// Devices by name.
pub(crate) type Devices = BTreeMap<String, u32>;

/// A VM.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Vm {
    pub(crate) key: VmKey,
    pub(crate) name: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Box<Owner>>,
    pub(crate) revision: u64,
    pub(crate) stage: Stage,
    pub(crate) power: Power,
    pub(crate) boots: u32,
    pub(crate) host: u16,
    pub(crate) uefi: bool,
    pub(crate) hot_add: HotAdd,
    #[serde(default)]
    pub(crate) hardware_version: i32,
    pub(crate) hardware: Hardware,
    /// What waits for the next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Box<Hardware>>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub(crate) image: Box<str>,
    /// SHA-256 of the first disk's bytes, where they came from an import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Box<str>>,
    /// The VM that a linked clone shares its first disk with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backing: Option<VmKey>,
    /// Devices of its host that are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) devices: Option<Box<Devices>>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) tags: Box<[Box<str>]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<Box<Seed>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) snapshots: Vec<Snapshot>,
    #[serde(default)]
    pub(crate) lineage: Lineage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_request: Option<RequestId>,
    #[serde(skip)]
    pub(crate) volatile: Volatile,
}

impl Vm {
    /// A new VM as the request wants it, still in creation.
    pub(crate) fn new(key: VmKey, request: &CreateVm, host: u16) -> Self {
        Self {
            key,
            name: request.name.as_str().into(),
            owner: request.owner.clone().map(Box::new),
            revision: 0,
            stage: Stage::Creating,
            power: Power::Off,
            boots: 0,
            host,
            uefi: request.class.firmware == Firmware::Uefi,
            hot_add: hot_add(request),
            hardware_version: 0,
            hardware: Hardware::wanted(request),
            pending: None,
            image: image_key(request).into(),
            content: None,
            backing: None,
            devices: None,
            tags: tags(request),
            seed: seed(request).map(Box::new),
            snapshots: Vec::new(),
            lineage: Lineage::default(),
            last_request: None,
            volatile: Volatile::default(),
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.power != Power::Off
    }

    /// What it takes of its host: what it has, or what it will have after the next start.
    pub(crate) fn reserved(&self) -> &Hardware {
        self.pending.as_deref().unwrap_or(&self.hardware)
    }
}

impl Hardware {
    /// The hardware that a request wants. Disks without a name are named by their place.
    pub(crate) fn wanted(request: &CreateVm) -> Self {
        let root = request.class.disk_defaults.as_ref();
        Self {
            cpu: request.class.cpu,
            memory_mib: request.class.memory_mib,
            root_gib: root.map_or(0, |defaults| defaults.size_gib),
            disks: request.disks.iter().enumerate().map(disk).collect(),
            nics: request.networks.iter().enumerate().map(nic).collect(),
        }
    }

    pub(crate) fn disk(&self, name: &str) -> Option<&Disk> {
        self.disks.iter().find(|disk| &*disk.name == name)
    }
}

fn disk((place, spec): (usize, &DiskSpec)) -> Disk {
    Disk {
        name: name_or_place(&spec.name, "disk", place),
        size_gib: spec.size_gib,
        online: spec.expand_policy == ExpandPolicy::Online,
    }
}

fn nic((place, spec): (usize, &NicSpec)) -> Nic {
    let network = [&spec.network, &spec.bridge]
        .into_iter()
        .find(|name| !name.is_empty());
    Nic {
        name: name_or_place(&spec.name, "nic", place),
        network: network.map_or("", String::as_str).into(),
        mac: spec.mac.to_ascii_lowercase().into(),
        ip: spec
            .address
            .as_ref()
            .map_or("", |address| &address.ip)
            .into(),
        setup: setup(spec).into(),
    }
}

/// `vlan=10 gateway=192.0.2.1`: only what was asked for.
fn setup(spec: &NicSpec) -> String {
    let address = spec.address.clone().unwrap_or_default();
    let number = |number: u32| {
        if number == 0 {
            String::new()
        } else {
            number.to_string()
        }
    };
    let words = [
        ("model", spec.model.clone()),
        ("vlan", number(spec.vlan.into())),
        ("mtu", number(spec.mtu)),
        (
            "slot",
            spec.pci_slot
                .map_or_else(String::new, |slot| slot.to_string()),
        ),
        ("prefix", number(address.prefix.into())),
        ("gateway", address.gateway),
        ("dns", address.dns.join(",")),
    ];
    let said = words.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = said.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(" ")
}

pub(crate) fn name_or_place(name: &str, kind: &str, place: usize) -> Box<str> {
    if name.is_empty() {
        format!("{kind}-{place}").into()
    } else {
        name.into()
    }
}

pub(crate) fn tags(request: &CreateVm) -> Box<[Box<str>]> {
    request.tags.iter().map(|tag| tag.as_str().into()).collect()
}

/// The word that names the image: the first that is given.
pub(crate) fn image_key(request: &CreateVm) -> &str {
    let image = &request.image;
    [&image.template_name, &image.path, &image.url]
        .into_iter()
        .find(|word| !word.is_empty())
        .map_or("", String::as_str)
}

pub(crate) fn hot_add(request: &CreateVm) -> HotAdd {
    let profile = request.class.performance.as_ref();
    HotAdd {
        cpu: profile.is_some_and(|profile| profile.cpu_hot_add),
        memory: profile.is_some_and(|profile| profile.memory_hot_add),
    }
}

fn seed(request: &CreateVm) -> Option<Seed> {
    let empty = request.user_data.is_none()
        && request.meta_data.is_empty()
        && request.network_data.is_empty();
    (!empty).then(|| {
        let ignition = matches!(request.user_data, Some(UserData::Ignition(_)));
        let user_data = request
            .user_data
            .as_ref()
            .map_or(&[][..], |data| data.bytes());
        Seed::new(
            ignition,
            user_data,
            &request.meta_data,
            &request.network_data,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A benchmark keeps ten thousand VMs in the manager's process.
    #[test]
    fn a_vm_is_small() {
        let size = size_of::<Vm>();
        assert!(
            size <= 384,
            "{size} bytes, before names and first-boot data"
        );
    }

    #[test]
    fn ids_are_read_only_in_the_form_they_are_given_out() {
        assert_eq!(VmKey::parse(&VmKey(17).id()), Some(VmKey(17)));
        for id in ["vm-017", "vm-+1", "vm-", "17", "vm-x", "vm-99999999999"] {
            assert_eq!(VmKey::parse(&VmId::from(id)), None, "{id}");
        }
    }
}
