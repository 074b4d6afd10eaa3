//! Hosts with room for VMs. Room is taken when a VM is created and given back when it is deleted.

use std::collections::BTreeMap;

use polyvirt_contract::model::{Host, HostHealth};
use polyvirt_contract::{ErrorKind, ProviderError, Result};

use crate::config::HostPool;
use crate::state::vm::Hardware;

/// The hosts, in the order of their numbers.
#[derive(Debug)]
pub(crate) struct Hosts(Vec<Host>);

impl Hosts {
    pub(crate) fn new(pool: HostPool) -> Self {
        Self(
            (1..=pool.count.max(1))
                .map(|number| host(pool, number))
                .collect(),
        )
    }

    pub(crate) fn list(&self) -> &[Host] {
        &self.0
    }

    /// The name of a host by its number; empty if the pool has become smaller.
    pub(crate) fn name(&self, number: u16) -> &str {
        self.0
            .get(usize::from(number))
            .map_or("", |host| &host.name)
    }

    /// The host for new hardware: the one that is asked for, else the one with the most memory free.
    pub(crate) fn place(&self, hardware: &Hardware, wanted: &str) -> Result<u16> {
        let number = if wanted.is_empty() {
            self.roomiest(hardware, None)
        } else {
            self.asked_for(hardware, wanted)?
        };
        number
            .and_then(|number| u16::try_from(number).ok())
            .ok_or_else(|| full(hardware, wanted))
    }

    fn asked_for(&self, hardware: &Hardware, wanted: &str) -> Result<Option<usize>> {
        let number = self.0.iter().position(|host| host.name == wanted);
        let number = number.ok_or_else(|| {
            let message = format!("There is no host {wanted}; name one that the inventory lists");
            ProviderError::invalid("spec.placement.host", message)
        })?;
        Ok(fits(&self.0[number], hardware).then_some(number))
    }

    /// The host for a VM that leaves one: the one that is asked for, else the roomiest of the others.
    pub(crate) fn elsewhere(&self, from: u16, hardware: &Hardware, wanted: &str) -> Result<u16> {
        let number = if wanted.is_empty() {
            self.roomiest(hardware, Some(usize::from(from)))
        } else {
            self.asked_for(hardware, wanted)?
        };
        number
            .and_then(|number| u16::try_from(number).ok())
            .ok_or_else(|| full(hardware, wanted))
    }

    fn roomiest(&self, hardware: &Hardware, except: Option<usize>) -> Option<usize> {
        let free = |host: &Host| host.memory_mib.saturating_sub(host.memory_used_mib);
        let candidates = self
            .0
            .iter()
            .enumerate()
            .filter(|(number, host)| Some(*number) != except && fits(host, hardware));
        let best = candidates.max_by_key(|(number, host)| (free(host), std::cmp::Reverse(*number)));
        best.map(|(number, _)| number)
    }

    /// Whether the host has the devices beside those that are `taken`, or what it lacks.
    pub(crate) fn has_devices<'a>(
        &self,
        number: u16,
        wanted: &BTreeMap<String, u32>,
        taken: &(impl Iterator<Item = &'a BTreeMap<String, u32>> + Clone),
    ) -> Result<()> {
        let host = self.0.get(usize::from(number));
        for (name, count) in wanted {
            let all = host.and_then(|host| host.devices.get(name)).copied();
            let used: u32 = taken.clone().filter_map(|devices| devices.get(name)).sum();
            if used + count > all.unwrap_or(0) {
                return Err(no_device(self.name(number), name, *count));
            }
        }
        Ok(())
    }

    /// Gives `new` the place of `old` on the same host, or says that there is no room.
    pub(crate) fn exchange(&mut self, number: u16, old: &Hardware, new: &Hardware) -> Result<()> {
        self.give_back(number, old);
        let Some(host) = self.0.get(usize::from(number)) else {
            return Ok(());
        };
        let grows = new.cpu > old.cpu || new.memory_mib > old.memory_mib;
        if grows && !has_room(host, new) {
            let error = full(new, &host.name);
            self.take(number, old);
            return Err(error);
        }
        self.take(number, new);
        Ok(())
    }

    pub(crate) fn take(&mut self, number: u16, hardware: &Hardware) {
        if let Some(host) = self.0.get_mut(usize::from(number)) {
            host.cpus_used += hardware.cpu;
            host.memory_used_mib += hardware.memory_mib;
        }
    }

    pub(crate) fn give_back(&mut self, number: u16, hardware: &Hardware) {
        if let Some(host) = self.0.get_mut(usize::from(number)) {
            host.cpus_used = host.cpus_used.saturating_sub(hardware.cpu);
            host.memory_used_mib = host.memory_used_mib.saturating_sub(hardware.memory_mib);
        }
    }

    /// Forgets who takes what, before VMs are counted anew.
    pub(crate) fn empty(&mut self) {
        for host in &mut self.0 {
            host.cpus_used = 0;
            host.memory_used_mib = 0;
        }
    }

    /// Changes the health of a host; false if there is none of that name.
    pub(crate) fn set_health(&mut self, name: &str, health: HostHealth) -> bool {
        let host = self.0.iter_mut().find(|host| host.name == name);
        host.map(|host| host.health = health).is_some()
    }
}

fn host(pool: HostPool, number: u16) -> Host {
    let zone = format!("zone-{}", 1 + (number - 1) % pool.zones.max(1));
    let name = format!("host-{number}");
    let labels = [
        ("kubernetes.io/hostname", &name),
        ("topology.kubernetes.io/zone", &zone),
    ];
    Host {
        labels: labels.map(|(k, v)| (k.to_owned(), v.clone())).into(),
        name,
        zone,
        cpus: pool.cpus,
        cpus_used: 0,
        memory_mib: pool.memory_mib,
        memory_used_mib: 0,
        devices: devices(pool),
        health: HostHealth::Ready,
    }
}

fn devices(pool: HostPool) -> BTreeMap<String, u32> {
    let all = [
        ("nvidia.com/tesla-t4", pool.gpus),
        ("sriov/net1", pool.virtual_functions),
    ];
    let some = all.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(name, count)| (name.to_owned(), count)).collect()
}

fn fits(host: &Host, hardware: &Hardware) -> bool {
    host.health == HostHealth::Ready && has_room(host, hardware)
}

const fn has_room(host: &Host, hardware: &Hardware) -> bool {
    host.cpus_used.saturating_add(hardware.cpu) <= host.cpus
        && host.memory_used_mib.saturating_add(hardware.memory_mib) <= host.memory_mib
}

fn no_device(host: &str, name: &str, count: u32) -> ProviderError {
    ProviderError::new(
        ErrorKind::Exhausted,
        format!("{host} does not have {count} of {name} left; ask for less, or name another host"),
    )
}

fn full(hardware: &Hardware, host: &str) -> ProviderError {
    let place = if host.is_empty() { "No host" } else { host };
    let verb = if host.is_empty() {
        "has"
    } else {
        "does not have"
    };
    ProviderError::new(
        ErrorKind::Exhausted,
        format!(
            "{place} {verb} room for {} CPUs and {} MiB of memory; delete VMs, ask for less, or add hosts",
            hardware.cpu, hardware.memory_mib
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Hosts {
        Hosts::new(HostPool {
            count: 2,
            cpus: 4,
            memory_mib: 1000,
            zones: 2,
            ..HostPool::default()
        })
    }

    fn size(cpu: u32, memory_mib: u64) -> Hardware {
        Hardware {
            cpu,
            memory_mib,
            ..Hardware::default()
        }
    }

    #[test]
    fn new_vms_go_where_most_is_free_until_nothing_is() {
        let mut hosts = hosts();
        for expected in [0, 1, 0, 1] {
            let number = hosts.place(&size(1, 500), "").expect("room");
            assert_eq!(number, expected);
            hosts.take(number, &size(1, 500));
        }
        let error = hosts.place(&size(1, 500), "").expect_err("full");
        assert_eq!(error.kind, ErrorKind::Exhausted);
        hosts.give_back(1, &size(1, 500));
        assert_eq!(hosts.place(&size(1, 500), ""), Ok(1));
    }

    #[test]
    fn a_named_host_is_used_or_the_reason_is_told() {
        let mut hosts = hosts();
        assert_eq!(hosts.place(&size(1, 1), "host-2"), Ok(1));
        let error = hosts.place(&size(1, 1), "host-9").expect_err("unknown");
        assert_eq!(error.field.as_deref(), Some("spec.placement.host"));
        assert!(hosts.set_health("host-2", HostHealth::Cordoned));
        let error = hosts.place(&size(1, 1), "host-2").expect_err("cordoned");
        assert_eq!(error.kind, ErrorKind::Exhausted);
    }

    #[test]
    fn growth_beyond_the_host_is_refused_and_changes_nothing() {
        let mut hosts = hosts();
        hosts.take(0, &size(2, 600));
        let error = hosts
            .exchange(0, &size(2, 600), &size(2, 1200))
            .expect_err("too big");
        assert_eq!(error.kind, ErrorKind::Exhausted);
        assert_eq!(hosts.list()[0].memory_used_mib, 600);
        assert_eq!(hosts.exchange(0, &size(2, 600), &size(4, 900)), Ok(()));
        assert_eq!(hosts.list()[0].cpus_used, 4);
    }
}
