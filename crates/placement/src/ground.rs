//! The world in a form that can be asked: what each host has left, and which VMs a term finds where.

use std::collections::BTreeMap;

use polyvirt_contract::model::{Datastore, Host};

use crate::request::Request;
use crate::rule::{Rule, Subject, VmTerm};
use crate::world::{Overcommit, Packing, Placed, Site, Topology, World};

/// What VMs take of a host beyond what its inventory shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken<'a> {
    cpus: u64,
    memory_mib: u64,
    devices: BTreeMap<&'a str, u32>,
    /// VMs of ours, by namespace.
    vms: BTreeMap<&'a str, u32>,
}

pub(crate) type Spot<'a> = (&'a str, &'a str);

/// The world in a form that can be asked.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    world: &'a World<'a>,
    hosts: BTreeMap<Spot<'a>, &'a Host>,
    taken: BTreeMap<Spot<'a>, Taken<'a>>,
    /// Bytes by provider and host, and then by datastore, that datastores do not count yet.
    claimed: BTreeMap<Spot<'a>, BTreeMap<&'a str, u64>>,
}

impl<'a> Ground<'a> {
    pub(crate) fn new(world: &'a World<'a>) -> Self {
        let hosts = world.sites.iter().flat_map(|site| {
            let hosts = site.inventory.hosts.iter();
            hosts.map(|host| ((site.provider, host.name.as_str()), host))
        });
        let mut ground = Self {
            world,
            hosts: hosts.collect(),
            taken: BTreeMap::new(),
            claimed: BTreeMap::new(),
        };
        for vm in world.vms {
            ground.count(vm);
        }
        ground
    }

    fn count(&mut self, vm: &'a Placed<'a>) {
        let taken = self.taken.entry((vm.provider, vm.host)).or_default();
        *taken.vms.entry(vm.namespace).or_default() += 1;
        for (name, count) in vm.devices.into_iter().flatten() {
            let held = taken.devices.entry(name).or_default();
            *held = held.saturating_add(u32::try_from(*count).unwrap_or(0));
        }
        let Some(claim) = &vm.claim else { return };
        taken.cpus += u64::from(claim.cpus);
        taken.memory_mib = taken.memory_mib.saturating_add(claim.memory_mib);
        let claimed = self.claimed.entry((vm.provider, vm.host)).or_default();
        let bytes = claimed.entry(claim.datastore).or_default();
        *bytes = bytes.saturating_add(claim.disk_bytes);
    }

    /// What is left of the host.
    pub(crate) fn room(&self, site: &Site<'a>, host: &'a Host) -> Room<'a> {
        let taken = self.taken.get(&(site.provider, host.name.as_str()));
        let taken = taken.cloned().unwrap_or_default();
        let rule = site.rules.and_then(|rules| rules.get(&host.name));
        let rule = rule.copied().unwrap_or_default();
        let Overcommit {
            cpu_percent,
            memory_percent,
        } = rule.overcommit.unwrap_or(site.overcommit);
        let left = |name: &'a str, count: u32| {
            let held = taken.devices.get(name).copied().unwrap_or(0);
            (name, count.saturating_sub(held))
        };
        Room {
            cpus: u64::from(host.cpus) * u64::from(cpu_percent) / 100,
            cpus_used: u64::from(host.cpus_used) + taken.cpus,
            memory_mib: percent(host.memory_mib, memory_percent),
            memory_used_mib: host.memory_used_mib.saturating_add(taken.memory_mib),
            devices: host
                .devices
                .iter()
                .map(|(name, count)| left(name, *count))
                .collect(),
            vms: taken.vms,
            packing: rule.packing,
        }
    }

    /// Bytes free on the datastore. What is claimed without a datastore may come to any.
    pub(crate) fn free_bytes(&self, provider: &str, store: &Datastore) -> u64 {
        let is_there = |(of, host): &Spot<'_>| {
            let all = store.hosts.is_empty();
            *of == provider && (all || store.hosts.iter().any(|name| name == host))
        };
        let there = self.claimed.iter().filter(|(spot, _)| is_there(spot));
        let claimed = there.map(|(_, claimed)| {
            let of = |name: &str| claimed.get(name).copied().unwrap_or(0);
            of(&store.name).saturating_add(of(""))
        });
        store
            .free_bytes
            .saturating_sub(claimed.fold(0, u64::saturating_add))
    }

    fn place_of(&self, topology: &Topology, vm: &Placed<'_>) -> Option<String> {
        match (self.hosts.get(&(vm.provider, vm.host)), topology) {
            (Some(host), _) => topology.of(vm.provider, host).map(Into::into),
            (None, Topology::Host) => Some(format!("{}/{}", vm.provider, vm.host)),
            (None, _) => None,
        }
    }

    /// The VMs of a term, by place.
    pub(crate) fn neighbours(&self, term: &VmTerm, request: &Request) -> Neighbours {
        let selects = |vm: &Subject<'_>| term.selects(vm, self.world.namespaces);
        let mut found = Neighbours {
            asker: selects(&request.subject()),
            ..Neighbours::default()
        };
        for vm in self.world.vms.iter().filter(|vm| selects(&vm.subject())) {
            found.total += 1;
            if let Some(place) = self.place_of(&term.topology, vm) {
                let (count, _) = found
                    .places
                    .entry(place)
                    .or_insert_with(|| (0, vm.full_name()));
                *count += 1;
            }
        }
        found
    }

    /// Places where VMs are that keep the requested one away.
    pub(crate) fn forbidden(
        &self,
        request: &Request,
    ) -> BTreeMap<Topology, BTreeMap<String, String>> {
        let mut found: BTreeMap<Topology, BTreeMap<String, String>> = BTreeMap::new();
        for vm in self.world.vms {
            let hostile = vm
                .keeps_away
                .iter()
                .filter(|term| term.selects(&request.subject(), self.world.namespaces));
            for term in hostile {
                if let Some(place) = self.place_of(&term.topology, vm) {
                    let places = found.entry(term.topology.clone()).or_default();
                    places.entry(place).or_insert_with(|| vm.full_name());
                }
            }
        }
        found
    }
}

fn percent(of: u64, percent: u32) -> u64 {
    u64::try_from(u128::from(of) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// What a host may give and has given.
#[derive(Clone, Debug)]
pub(crate) struct Room<'a> {
    pub cpus: u64,
    pub cpus_used: u64,
    pub memory_mib: u64,
    pub memory_used_mib: u64,
    /// Devices that are free.
    pub devices: BTreeMap<&'a str, u32>,
    pub vms: BTreeMap<&'a str, u32>,
    /// Whether it is filled up or spared.
    pub(crate) packing: Packing,
}

impl Room<'_> {
    pub(crate) const fn free_cpus(&self) -> u64 {
        self.cpus.saturating_sub(self.cpus_used)
    }

    pub(crate) const fn free_memory(&self) -> u64 {
        self.memory_mib.saturating_sub(self.memory_used_mib)
    }
}

/// The VMs of a term.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    /// How many in each place, and one of them.
    pub places: BTreeMap<String, (usize, String)>,
    /// How many in all, wherever they are.
    pub total: usize,
    /// Whether the VM that is to be placed is one of them itself.
    pub asker: bool,
}

/// A rule with the VMs that it speaks of.
#[derive(Debug)]
pub(crate) struct Compiled<'r> {
    pub rule: &'r Rule,
    pub neighbours: Neighbours,
}

impl<'r> Compiled<'r> {
    pub(crate) fn new(rule: &'r Rule, request: &Request, ground: &Ground<'_>) -> Self {
        let neighbours = match rule {
            Rule::Near(term) | Rule::Away(term) | Rule::AtMost(term, _) => {
                ground.neighbours(term, request)
            }
            _ => Neighbours::default(),
        };
        Self { rule, neighbours }
    }
}
