//! From a Machine to the VirtualMachine that is made for it. Pure.
//!
//! What must never change once the VM exists (its name, the claims of its disks, hardware addresses) is taken from what was
//! written before; only what is new is named anew. So an edit of a Machine never gives it another disk.

mod boot;
mod cloud_init;
mod disks;
mod error;
mod extras;
mod mac;
mod networks;
mod size;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Resource;
use polyvirt_api::infra::{
    BlankImageSource, DiskDefaults, Firmware, ObjectRef, SecurityProfile, VMClassSpec,
    VMImageSource, VMNetwork, VirtualMachine, VirtualMachineSpec,
};
use polyvirt_api::kubevirt::{KubevirtOptions, OPTIONS_KEY, OwnerOption, Topology};
use polyvirt_api::vitistack::{
    MACHINE_LABEL, MANAGED_BY_LABEL, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
    SOURCE_MACHINE_LABEL,
};
use polyvirt_engine::runtime::key::ObjectKey;

use super::settings::Settings;
use crate::shared::names::{short_hash, shortened};
use crate::shared::owner::owner_reference;

pub use boot::medium;
pub use cloud_init::config_maps;
pub use disks::LoweredDisk;
pub use error::LowerError;
pub use networks::LoweredNic;
pub use size::{Size, size_name};

pub use crate::shared::owner::is_owned;
use crate::shared::same::LOWERED_ANNOTATION;

use size::binary_quantity;

/// A VirtualMachine is known by a label value.
const LONGEST_NAME: usize = 63;

/// Text of ConfigMaps by name, then by key; `None` for one that does not exist.
pub type ConfigMaps = BTreeMap<String, Option<BTreeMap<String, String>>>;

/// All that a Machine refers to, as far as it exists.
pub struct Surroundings<'a> {
    /// What the administrator set.
    pub settings: &'a Settings,
    /// All classes.
    pub classes: &'a [Arc<MachineClass>],
    /// The NetworkConfigurations that it names.
    pub networks: &'a BTreeMap<String, Arc<NetworkConfiguration>>,
    /// The NetworkNamespace that it names.
    pub network_namespace: Option<&'a NetworkNamespace>,
    /// Hardware addresses of its interfaces that were given out before, by the name of the interface.
    pub known_macs: &'a BTreeMap<String, String>,
    /// Whether somebody else has a hardware address.
    pub is_taken: &'a (dyn Fn(&str) -> bool + Sync),
    /// The ConfigMaps that it names.
    pub config_maps: &'a ConfigMaps,
    /// The KubevirtConfig that it belongs to, which is the Provider's name too.
    pub config: &'a ObjectKey,
    /// UID of the kube-system namespace of the cluster with the Machine, if it is known.
    pub cluster: Option<&'a str>,
    /// What was written for it before.
    pub before: Option<&'a KubevirtOptions>,
    /// Bytes of the disk that it boots from, as they were written before.
    pub root_bytes: Option<u64>,
    /// Whether there is a VM, whose disks can only grow.
    pub presence: Presence,
    /// Bytes of its installation medium, where the server of that has told.
    pub medium: Option<u64>,
}

/// Whether a Machine has a VM already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has.
    There,
    /// Not yet.
    Absent,
}

/// What a Machine becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowered {
    /// The object to write.
    pub vm: VirtualMachine,
    /// Name of the VM in its cluster.
    pub vm_name: String,
    /// Its disks, the one that it boots from first.
    pub disks: Vec<LoweredDisk>,
    /// Its network cards.
    pub nics: Vec<LoweredNic>,
    /// Paths of fields that are set and do nothing.
    pub ignored: Vec<String>,
}

/// The VirtualMachine of a Machine, or what stands in the way.
pub fn lower(machine: &Machine, around: &Surroundings<'_>) -> Result<Lowered, LowerError> {
    let vm_name = vm_name(machine, around)?;
    let size = size::resolve(&machine.spec, around.classes)?;
    let disks = disks::resolve(machine, &size, around)?;
    let nics = networks::resolve(machine, around)?;
    let mut ignored = extras::ignored(machine, &size);
    let guest = cloud_init::resolve(machine, around.config_maps, &mut ignored)?;
    let mut options = options(machine, &vm_name, &size, around);
    attach(&mut options, &disks, &nics);
    start(&mut options, machine, around);
    options.cloud_init = guest.option;
    let class = class(machine, &size, disks.first(), &options);
    let spec = spec(machine, around, class, (&disks, &nics), guest)?;
    Ok(Lowered {
        vm: object(machine, around, spec),
        vm_name,
        disks,
        nics,
        ignored,
    })
}

/// Where the disks and cards are in the cluster.
fn attach(options: &mut KubevirtOptions, disks: &[LoweredDisk], nics: &[LoweredNic]) {
    options.root_disk = disks.first().map(LoweredDisk::as_root);
    options.disks = disks.iter().skip(1).map(LoweredDisk::as_further).collect();
    options.networks = nics.iter().map(LoweredNic::as_option).collect();
}

/// What the VM boots from.
fn start(options: &mut KubevirtOptions, machine: &Machine, around: &Surroundings<'_>) {
    let vm_name = options.vm_name.clone().unwrap_or_default();
    options.cdrom = boot::cdrom(machine, &vm_name, around.before, around.medium);
    options.boot_order = boot::order(&machine.spec, options.cdrom.as_ref());
}

fn spec(
    machine: &Machine,
    around: &Surroundings<'_>,
    class: VMClassSpec,
    (disks, nics): (&[LoweredDisk], &[LoweredNic]),
    guest: cloud_init::Guest,
) -> Result<VirtualMachineSpec, LowerError> {
    let further = disks.iter().skip(1).map(LoweredDisk::as_spec);
    Ok(VirtualMachineSpec {
        provider_ref: provider_ref(machine, around.config),
        class: Some(Box::new(class)),
        image: Some(Box::new(empty_disk())),
        disks: further.collect::<Result<_, _>>()?,
        networks: nics.iter().map(network).collect(),
        user_data: guest.user_data,
        network_data: guest.network_data,
        power_state: extras::power_state(machine)?,
        deletion_policy: extras::deletion_policy(machine),
        tags: extras::tags(&machine.spec),
        ..VirtualMachineSpec::default()
    })
}

/// The labels of everything that is made for a Machine.
pub fn labels(machine: &Machine, settings: &Settings) -> BTreeMap<String, String> {
    let name = machine.metadata.name.clone().unwrap_or_default();
    [
        (MANAGED_BY_LABEL, settings.managed_by.clone()),
        (MACHINE_LABEL, name.clone()),
        (SOURCE_MACHINE_LABEL, name),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Labels of which each says that a VM was made for the Machine. Older versions of the Go operator wrote the one, newer ones the other.
fn proofs(machine: &str) -> BTreeMap<String, String> {
    let names = [MACHINE_LABEL, SOURCE_MACHINE_LABEL];
    names.map(|key| (key.to_owned(), machine.to_owned())).into()
}

/// Names under which the VM of a Machine may be known, the usual one first.
pub fn vm_names(machine: &str, settings: &Settings) -> Vec<String> {
    let usual = fresh_name(machine, settings);
    let mut names = vec![usual, format!("vm-{machine}"), machine.to_owned()];
    let mut seen = Vec::new();
    names.retain(|name| {
        let new = !seen.contains(name);
        seen.push(name.clone());
        new
    });
    names
}

/// Once it was given, it stays.
fn vm_name(machine: &Machine, around: &Surroundings<'_>) -> Result<String, LowerError> {
    let before = around.before.and_then(|b| b.vm_name.clone());
    let recorded = machine.status.as_ref().and_then(|s| s.vm_name.clone());
    let own = machine.metadata.name.as_deref().unwrap_or_default();
    if own.len() > LONGEST_NAME || own.contains('.') {
        let message = format!(
            "The VM and its labels are called by it, and take up to {LONGEST_NAME} letters, digits and dashes. Make a Machine of another name"
        );
        return Err(LowerError::invalid("metadata.name", message));
    }
    let fresh = || fresh_name(own, around.settings);
    Ok(before.or(recorded).unwrap_or_else(fresh))
}

/// A Machine may have a name as long as that of a VM, and the prefix comes before it: what is too long is cut, with a hash.
fn fresh_name(machine: &str, settings: &Settings) -> String {
    shortened(
        &format!("{}{machine}", settings.vm_name_prefix),
        LONGEST_NAME,
    )
}

fn options(
    machine: &Machine,
    vm_name: &str,
    size: &Size,
    around: &Surroundings<'_>,
) -> KubevirtOptions {
    let own = machine.metadata.name.as_deref().unwrap_or_default();
    KubevirtOptions {
        vm_name: Some(vm_name.to_owned()),
        adopt_names: vm_names(own, around.settings),
        adopt_labels: proofs(own),
        namespace: machine.metadata.namespace.clone(),
        labels: labels(machine, around.settings),
        owner: around.cluster.map(|cluster| owner(machine, cluster)),
        topology: Some(Topology {
            sockets: size.sockets,
            cores: size.cores,
            threads: size.threads,
        }),
        cpu_model: around.settings.cpu_model.clone(),
        memory_bytes: (!size.memory.is_multiple_of(1 << 20)).then_some(size.memory),
        machine_type: boot::machine_type(&machine.spec),
        features: boot::features(&machine.spec),
        network_multiqueue: Some(true),
        node_selector: extras::node_selector(&machine.spec),
        gpus: size.gpus.clone(),
        ..KubevirtOptions::default()
    }
}

fn owner(machine: &Machine, cluster: &str) -> OwnerOption {
    OwnerOption {
        cluster: cluster.to_owned(),
        api_version: Machine::api_version(&()).into_owned(),
        kind: Machine::kind(&()).into_owned(),
        name: machine.metadata.name.clone().unwrap_or_default(),
        uid: machine.metadata.uid.clone().unwrap_or_default(),
    }
}

fn class(
    machine: &Machine,
    size: &Size,
    root: Option<&LoweredDisk>,
    options: &KubevirtOptions,
) -> VMClassSpec {
    let firmware = boot::firmware(&machine.spec);
    VMClassSpec {
        cpu: i32::try_from(size.cpus()).unwrap_or(i32::MAX),
        memory: Quantity(binary_quantity(size.memory)),
        firmware: if firmware.efi {
            Firmware::Uefi
        } else {
            Firmware::Bios
        },
        disk_defaults: root.map(|disk| DiskDefaults {
            size: Quantity(binary_quantity(disk.bytes)),
            ..DiskDefaults::default()
        }),
        security_profile: firmware.secure_boot.then(|| SecurityProfile {
            secure_boot: true,
            ..SecurityProfile::default()
        }),
        extra_config: [(OPTIONS_KEY.to_owned(), options.to_text())].into(),
        ..VMClassSpec::default()
    }
}

fn empty_disk() -> VMImageSource {
    VMImageSource {
        blank: Some(BlankImageSource {}),
        ..VMImageSource::default()
    }
}

fn provider_ref(machine: &Machine, config: &ObjectKey) -> ObjectRef {
    let own = machine.metadata.namespace.as_deref().unwrap_or_default();
    let elsewhere = config.namespace() != own;
    ObjectRef {
        name: config.name().to_owned(),
        namespace: elsewhere.then(|| config.namespace().to_owned()),
    }
}

fn network(nic: &LoweredNic) -> VMNetwork {
    VMNetwork {
        name: nic.name.clone(),
        mac_address: Some(nic.mac.clone()),
        ..VMNetwork::default()
    }
}

fn object(
    machine: &Machine,
    around: &Surroundings<'_>,
    spec: VirtualMachineSpec,
) -> VirtualMachine {
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    let mut vm = VirtualMachine::new(name, spec);
    let hash = short_hash(&serde_json::to_string(&vm.spec).unwrap_or_default());
    vm.metadata
        .namespace
        .clone_from(&machine.metadata.namespace);
    vm.metadata.labels = Some(labels(machine, around.settings));
    vm.metadata.annotations = Some([(LOWERED_ANNOTATION.to_owned(), hash)].into());
    vm.metadata.owner_references = Some(vec![owner_reference(machine)]);
    vm
}
