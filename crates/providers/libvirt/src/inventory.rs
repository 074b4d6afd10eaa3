//! The host, its pools and its networks.

use std::collections::BTreeMap;
use std::sync::Arc;

use polyvirt_contract::Result;
use polyvirt_contract::model::{
    Datastore, Host as HostEntry, HostHealth, Inventory, NetworkEntry, PowerState,
};

use crate::config::Accel;
use crate::core::Core;
use crate::domain::build::Virt;
use crate::rpc::Session;
use crate::xml::parse;

/// What does not change while the host runs.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) virt: Virt,
    cpus: u32,
    pub(crate) memory_mib: u64,
    model: String,
}

impl Core {
    /// What is known of the host, found out when it is first needed.
    pub(crate) async fn host_facts(&self, session: &Session) -> Result<&Host> {
        let find_out = || async {
            let (name, node) = tokio::try_join!(session.hostname(), session.node())?;
            let virt = match self.config.accel {
                Accel::Kvm => Virt::Kvm,
                Accel::Tcg => Virt::Tcg,
                Accel::Ask => offered(&session.capabilities().await?),
            };
            Ok(Host {
                name: self.config.host.clone().unwrap_or(name),
                virt,
                cpus: node.cpus,
                memory_mib: node.memory_kib >> 10,
                model: node.model,
            })
        };
        self.host.get_or_try_init(find_out).await
    }
}

/// The best that the host can do, by its own word.
fn offered(capabilities: &str) -> Virt {
    let Ok(document) = parse(capabilities) else {
        return Virt::Tcg;
    };
    let mut arches = document
        .root
        .all("guest")
        .filter_map(|guest| guest.at("arch"));
    let kvm = arches.any(|arch| {
        let has = |kind: &str| {
            arch.all("domain")
                .any(|d| d.get("type").as_deref() == Some(kind))
        };
        arch.get("name").as_deref() == Some("x86_64") && has("kvm")
    });
    if kvm { Virt::Kvm } else { Virt::Tcg }
}

/// What VMs can be placed on.
pub(crate) async fn inventory(core: &Arc<Core>) -> Result<Inventory> {
    let session = core.session().await?;
    core.know_all().await?;
    let mut datastores = Vec::new();
    for pool in session.pools().await? {
        let info = session.pool_info(&pool).await?;
        if !info.running {
            continue;
        }
        let xml = parse(&session.pool_xml(&pool).await?)?.root;
        datastores.push(Datastore {
            name: pool.name,
            kind: xml.get("type").unwrap_or_default(),
            capacity_bytes: info.capacity,
            free_bytes: info.available,
            hosts: Vec::new(),
        });
    }
    let networks = session.networks().await?.into_iter();
    let named = networks.map(|network| NetworkEntry {
        name: network.name,
        kind: "network".to_owned(),
    });
    let user = NetworkEntry {
        name: "user".to_owned(),
        kind: "user".to_owned(),
    };
    Ok(Inventory {
        hosts: vec![host(core, core.host_facts(&session).await?)],
        datastores,
        networks: named.chain([user]).collect(),
    })
}

/// What is known of a host that does not answer.
pub(crate) fn of_absent(core: &Core) -> Inventory {
    let nameless = || HostEntry {
        name: core
            .config
            .host
            .clone()
            .unwrap_or_else(|| core.config.public()),
        ..HostEntry::default()
    };
    let entry = core
        .host
        .get()
        .map_or_else(nameless, |facts| host(core, facts));
    Inventory {
        hosts: vec![HostEntry {
            health: HostHealth::Down,
            ..entry
        }],
        ..Inventory::default()
    }
}

/// Kinds of pools that are somewhere else than on the host, so that all hosts mean the same by one name.
const ELSEWHERE: &[&str] = &[
    "gluster",
    "iscsi",
    "iscsi-direct",
    "netfs",
    "rbd",
    "sheepdog",
    "vstorage",
];

/// Several hosts in one. Each has pools of its own; one that is elsewhere is told once, with the hosts that have it.
pub(crate) fn merged(all: Vec<Inventory>) -> Inventory {
    let mut pools = Vec::<Datastore>::new();
    let mut networks = BTreeMap::<String, NetworkEntry>::new();
    let mut hosts = Vec::new();
    for one in all {
        let names: Vec<_> = one.hosts.iter().map(|host| host.name.clone()).collect();
        for pool in one.datastores {
            let same = |known: &&mut Datastore| known.name == pool.name && known.kind == pool.kind;
            let shared = ELSEWHERE.contains(&pool.kind.as_str());
            match pools.iter_mut().find(same).filter(|_| shared) {
                Some(known) => known.hosts.extend(names.clone()),
                None => pools.push(Datastore {
                    hosts: names.clone(),
                    ..pool
                }),
            }
        }
        hosts.extend(one.hosts);
        networks.extend(one.networks.into_iter().map(|net| (net.name.clone(), net)));
    }
    Inventory {
        hosts,
        datastores: pools,
        networks: networks.into_values().collect(),
    }
}

fn host(core: &Core, facts: &Host) -> HostEntry {
    let running: Vec<_> = core
        .states()
        .into_iter()
        .filter(|vm| vm.power != PowerState::Off)
        .collect();
    let memory: u64 = running.iter().map(|vm| vm.memory_mib).sum();
    let accelerator = if facts.virt == Virt::Kvm {
        "kvm"
    } else {
        "tcg"
    };
    let labels = [
        ("kubernetes.io/hostname", facts.name.as_str()),
        ("kubernetes.io/arch", facts.model.as_str()),
        ("polyvirt.io/accelerator", accelerator),
    ];
    let own = labels
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    HostEntry {
        name: facts.name.clone(),
        zone: core.config.zone.clone(),
        labels: core.config.labels.beneath(own),
        cpus: facts.cpus,
        cpus_used: running.iter().map(|vm| vm.cpu).sum(),
        memory_mib: facts.memory_mib,
        memory_used_mib: memory.min(facts.memory_mib),
        devices: core.config.devices.counts(),
        health: HostHealth::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: &str, pools: &[(&str, &str, u64)]) -> Inventory {
        let pool = |(name, kind, free_bytes): &(&str, &str, u64)| Datastore {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
            free_bytes: *free_bytes,
            ..Datastore::default()
        };
        Inventory {
            hosts: vec![HostEntry {
                name: host.to_owned(),
                ..HostEntry::default()
            }],
            datastores: pools.iter().map(pool).collect(),
            ..Inventory::default()
        }
    }

    #[test]
    fn each_host_has_disks_of_its_own_and_some_share_others() {
        let all = merged(vec![
            of("a", &[("default", "dir", 10), ("ceph", "rbd", 99)]),
            of("b", &[("default", "dir", 20), ("ceph", "rbd", 99)]),
        ]);
        let told: Vec<_> = all
            .datastores
            .iter()
            .map(|d| (d.name.as_str(), d.free_bytes, d.hosts.join(" ")))
            .collect();
        let expected = [
            ("default", 10, "a".to_owned()),
            ("ceph", 99, "a b".to_owned()),
            ("default", 20, "b".to_owned()),
        ];
        assert_eq!(told, expected);
    }
}
