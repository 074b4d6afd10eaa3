//! What the hypervisor has: the ground for placement.

use std::collections::BTreeMap;

/// All that a provider can place VMs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Datastores, pools, storages.
    pub datastores: Vec<Datastore>,
    /// Networks, port groups, bridges.
    pub networks: Vec<NetworkEntry>,
}

/// Whether a host takes VMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostHealth {
    /// Takes VMs.
    #[default]
    Ready,
    /// Keeps its VMs, takes no new ones.
    Cordoned,
    /// Does not answer.
    Down,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its name on the hypervisor.
    pub name: String,
    /// Zone or failure domain; empty if none.
    pub zone: String,
    /// Matched by selectors and affinities.
    pub labels: BTreeMap<String, String>,
    /// CPUs that VMs may use.
    pub cpus: u32,
    /// CPUs given to VMs.
    pub cpus_used: u32,
    /// Memory that VMs may use, in MiB.
    pub memory_mib: u64,
    /// Memory given to VMs, in MiB.
    pub memory_used_mib: u64,
    /// Countable devices, used or not: `nvidia.com/gpu`, `sriov/net1`.
    pub devices: BTreeMap<String, u32>,
    /// Whether it takes VMs.
    pub health: HostHealth,
}

/// A place for disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datastore {
    /// Its name on the hypervisor.
    pub name: String,
    /// `dir`, `nfs`, `vmfs`, …
    pub kind: String,
    /// Bytes in all.
    pub capacity_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// The hosts that have it; empty for all. Several places may share a name where hosts have disks of their own.
    pub hosts: Vec<String>,
}

/// A network that VMs can be attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkEntry {
    /// Its name on the hypervisor.
    pub name: String,
    /// `bridge`, `portgroup`, `user`, …
    pub kind: String,
}
