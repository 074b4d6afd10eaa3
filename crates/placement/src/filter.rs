//! Whether a host can take a VM, and if not, the first thing that is against it.

use std::collections::BTreeMap;

use polyvirt_contract::model::{Host, HostHealth};

use crate::device;
use crate::ground::{Compiled, Room};
use crate::reason::Reason;
use crate::request::Request;
use crate::rule::{NodeTerm, Rule, VmTerm, has_feature};
use crate::world::{Site, Topology, label};

/// A host that is looked at.
pub(crate) struct Candidate<'a> {
    pub site: &'a Site<'a>,
    pub host: &'a Host,
    pub room: Room<'a>,
}

pub(crate) type Verdict = Result<(), Reason>;

impl Candidate<'_> {
    pub(crate) fn is_up(&self) -> Verdict {
        match self.host.health {
            HostHealth::Ready => Ok(()),
            HostHealth::Cordoned => Err(Reason::Cordoned),
            HostHealth::Down => Err(Reason::HostDown),
        }
    }

    /// What nobody can overrule.
    pub(crate) fn can_carry(&self, request: &Request) -> Verdict {
        ensure(self.host.health != HostHealth::Down, || Reason::HostDown)?;
        self.has_memory(request.memory_mib)
    }

    pub(crate) fn has_room(&self, request: &Request) -> Verdict {
        self.has_cpus(request.cpus)?;
        self.has_memory(request.memory_mib)
    }

    fn has_cpus(&self, wanted: u32) -> Verdict {
        let free = self.room.free_cpus();
        ensure(u64::from(wanted) <= free, || Reason::TooFewCpus {
            wanted,
            free,
        })
    }

    /// Overcommitment promises memory to several VMs, but to none more than the host has.
    fn has_memory(&self, wanted_mib: u64) -> Verdict {
        let free_mib = self.room.free_memory().min(self.host.memory_mib);
        ensure(wanted_mib <= free_mib, || Reason::TooLittleMemory {
            wanted_mib,
            free_mib,
        })
    }

    pub(crate) fn devices(&self, request: &Request) -> Result<BTreeMap<String, u32>, Reason> {
        let given = device::allocate(&request.devices, self.host, &self.room.devices);
        given.map_err(|missing| Reason::NoDevice {
            wanted: missing.wanted.to_string(),
            free: missing.free,
        })
    }

    /// VMs that are there may keep this one away, whatever it says itself.
    pub(crate) fn is_welcome(
        &self,
        forbidden: &BTreeMap<Topology, BTreeMap<String, String>>,
    ) -> Verdict {
        for (topology, places) in forbidden {
            let place = topology.of(self.site.provider, self.host);
            if let Some(vm) = place.and_then(|place| places.get(place.as_ref())) {
                let (topology, vm) = (topology.clone(), vm.clone());
                return Err(Reason::KeptAway { topology, vm });
            }
        }
        Ok(())
    }

    pub(crate) fn meets(&self, compiled: &Compiled<'_>, request: &Request) -> Verdict {
        match compiled.rule {
            Rule::Labels(wanted) => self.has_labels(wanted),
            Rule::Nodes(terms) => self.meets_a_term(terms),
            Rule::Named(topology, names) => {
                let is_one = topology
                    .name_of(self.host)
                    .is_some_and(|name| names.contains(name));
                ensure(is_one, || Reason::WrongPlace(topology.clone()))
            }
            Rule::NotNamed(topology, names) => {
                let is_one = topology
                    .name_of(self.host)
                    .is_some_and(|name| names.contains(name));
                ensure(!is_one, || Reason::Excluded(topology.clone()))
            }
            Rule::Near(term) => self.is_near(term, compiled),
            Rule::Away(term) => self.is_away(term, compiled),
            Rule::AtMost(term, most) => self.is_uncrowded(term, *most, compiled),
            rule => self.offers(rule, request),
        }
    }

    fn offers(&self, rule: &Rule, request: &Request) -> Verdict {
        let Host {
            cpus, memory_mib, ..
        } = *self.host;
        match rule {
            Rule::Network(name) => {
                let known = self.site.inventory.networks.iter().any(|n| n.name == *name);
                ensure(known, || Reason::NoNetwork { name: name.clone() })
            }
            Rule::FreeCpus(wanted) => self.has_cpus(*wanted),
            Rule::FreeMemory(wanted) => self.has_memory(*wanted),
            Rule::CpuUse(most) => {
                let used = self.room.cpus_used + u64::from(request.cpus);
                ensure(within(used, cpus.into(), *most), || Reason::CpusTooBusy {
                    most: *most,
                })
            }
            Rule::MemoryUse(most) => {
                let used = self.room.memory_used_mib.saturating_add(request.memory_mib);
                ensure(within(used, memory_mib, *most), || Reason::MemoryTooBusy {
                    most: *most,
                })
            }
            Rule::Feature(feature) => {
                ensure(has_feature(self.host, feature), || Reason::NoFeature {
                    feature: feature.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    fn has_labels(&self, wanted: &BTreeMap<String, String>) -> Verdict {
        let differs =
            |(key, value): &(&String, &String)| label(self.host, key) != Some(value.as_str());
        match wanted.iter().find(differs) {
            Some((key, _)) => Err(Reason::NotSelected { key: key.clone() }),
            None => Ok(()),
        }
    }

    fn meets_a_term(&self, terms: &[NodeTerm]) -> Verdict {
        ensure(terms.iter().any(|term| term.met_by(self.host)), || {
            Reason::AffinityNotMet
        })
    }

    fn place(&self, term: &VmTerm) -> Option<String> {
        term.topology
            .of(self.site.provider, self.host)
            .map(Into::into)
    }

    /// The first of VMs that are to be near each other may go anywhere.
    fn is_near(&self, term: &VmTerm, compiled: &Compiled<'_>) -> Verdict {
        let place = self.place(term);
        let first = compiled.neighbours.total == 0 && compiled.neighbours.asker;
        let near = |place: &String| first || compiled.neighbours.places.contains_key(place);
        ensure(place.as_ref().is_some_and(near), || {
            Reason::NoNeighbour(term.topology.clone())
        })
    }

    /// A host that does not say where it is shares its place with nobody.
    fn is_away(&self, term: &VmTerm, compiled: &Compiled<'_>) -> Verdict {
        let place = self.place(term);
        match place.and_then(|place| compiled.neighbours.places.get(&place)) {
            Some((_, vm)) => Err(Reason::AntiAffinity {
                topology: term.topology.clone(),
                vm: vm.clone(),
            }),
            None => Ok(()),
        }
    }

    fn is_uncrowded(&self, term: &VmTerm, most: usize, compiled: &Compiled<'_>) -> Verdict {
        let place = self.place(term);
        let there = place.and_then(|place| compiled.neighbours.places.get(&place));
        let crowded = there.is_some_and(|(count, _)| *count >= most);
        ensure(!crowded, || Reason::Crowded {
            topology: term.topology.clone(),
            most,
        })
    }
}

fn within(used: u64, all: u64, percent: u32) -> bool {
    u128::from(used) * 100 <= u128::from(all) * u128::from(percent)
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> Reason) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}
