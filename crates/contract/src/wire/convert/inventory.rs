//! Hosts, datastores, networks.

use crate::model::{Datastore, Host, HostHealth, Inventory, NetworkEntry};
use crate::wire::ext;

impl From<Inventory> for ext::InventoryResponse {
    fn from(inventory: Inventory) -> Self {
        Self {
            hosts: inventory.hosts.into_iter().map(Into::into).collect(),
            datastores: inventory.datastores.into_iter().map(Into::into).collect(),
            networks: inventory.networks.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<ext::InventoryResponse> for Inventory {
    fn from(response: ext::InventoryResponse) -> Self {
        Self {
            hosts: response.hosts.into_iter().map(Into::into).collect(),
            datastores: response.datastores.into_iter().map(Into::into).collect(),
            networks: response.networks.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Host> for ext::Host {
    fn from(host: Host) -> Self {
        Self {
            name: host.name,
            zone: host.zone,
            labels: host.labels,
            cpus: host.cpus,
            cpus_used: host.cpus_used,
            memory_mib: host.memory_mib,
            memory_used_mib: host.memory_used_mib,
            devices: host.devices,
            health: ext::HostHealth::from(host.health).into(),
        }
    }
}

impl From<ext::Host> for Host {
    fn from(host: ext::Host) -> Self {
        Self {
            health: health_of(host.health),
            name: host.name,
            zone: host.zone,
            labels: host.labels,
            cpus: host.cpus,
            cpus_used: host.cpus_used,
            memory_mib: host.memory_mib,
            memory_used_mib: host.memory_used_mib,
            devices: host.devices,
        }
    }
}

impl From<HostHealth> for ext::HostHealth {
    fn from(health: HostHealth) -> Self {
        match health {
            HostHealth::Ready => Self::Ready,
            HostHealth::Cordoned => Self::Cordoned,
            HostHealth::Down => Self::Down,
        }
    }
}

/// A word of a newer peer is no reason to place a VM there.
fn health_of(health: i32) -> HostHealth {
    match ext::HostHealth::try_from(health) {
        Ok(ext::HostHealth::Unspecified | ext::HostHealth::Ready) => HostHealth::Ready,
        Ok(ext::HostHealth::Down) => HostHealth::Down,
        Ok(ext::HostHealth::Cordoned) | Err(_) => HostHealth::Cordoned,
    }
}

impl From<Datastore> for ext::Datastore {
    fn from(store: Datastore) -> Self {
        Self {
            name: store.name,
            kind: store.kind,
            capacity_bytes: store.capacity_bytes,
            free_bytes: store.free_bytes,
            hosts: store.hosts,
        }
    }
}

impl From<ext::Datastore> for Datastore {
    fn from(store: ext::Datastore) -> Self {
        Self {
            name: store.name,
            kind: store.kind,
            capacity_bytes: store.capacity_bytes,
            free_bytes: store.free_bytes,
            hosts: store.hosts,
        }
    }
}

impl From<NetworkEntry> for ext::Network {
    fn from(network: NetworkEntry) -> Self {
        Self {
            name: network.name,
            kind: network.kind,
        }
    }
}

impl From<ext::Network> for NetworkEntry {
    fn from(network: ext::Network) -> Self {
        Self {
            name: network.name,
            kind: network.kind,
        }
    }
}
