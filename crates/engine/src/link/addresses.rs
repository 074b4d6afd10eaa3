//! How long guests take from their start to their first address.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::VmId;
use polyvirt_contract::model::{PowerState, VmState};

/// The VMs that run without an address, and since when.
#[derive(Debug, Default)]
pub struct Addresses {
    waiting: HashMap<VmId, Timestamp>,
}

impl Addresses {
    /// Takes the word of a running stream about a VM; how long it was without an address, if it has just got its first.
    pub fn told(&mut self, vm: &VmState, now: Timestamp) -> Option<Duration> {
        match (vm.power, vm.ips.is_empty()) {
            (PowerState::On, true) => {
                self.waiting.entry(vm.id.clone()).or_insert(now);
                None
            }
            (PowerState::On, false) => {
                let since = self.waiting.remove(&vm.id)?;
                Duration::try_from(now.duration_since(since)).ok()
            }
            _ => {
                self.forget(&vm.id);
                None
            }
        }
    }

    /// The VM is gone.
    pub fn forget(&mut self, id: &VmId) {
        self.waiting.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(power: PowerState, ips: &[&str]) -> VmState {
        VmState {
            id: VmId::from("vm-1"),
            power,
            ips: ips.iter().map(ToString::to_string).collect(),
            ..VmState::default()
        }
    }

    #[test]
    fn the_time_runs_from_the_start_to_the_first_address() {
        let mut addresses = Addresses::default();
        let at = |second| Timestamp::from_second(second).expect("a time");
        assert_eq!(addresses.told(&vm(PowerState::Off, &[]), at(0)), None);
        assert_eq!(addresses.told(&vm(PowerState::On, &[]), at(10)), None);
        assert_eq!(addresses.told(&vm(PowerState::On, &[]), at(12)), None);
        let running = vm(PowerState::On, &["10.0.0.1"]);
        let took = Some(Duration::from_secs(5));
        assert_eq!(addresses.told(&running, at(15)), took);
        assert_eq!(addresses.told(&running, at(20)), None);
    }

    #[test]
    fn a_start_that_was_given_up_does_not_count() {
        let mut addresses = Addresses::default();
        let at = |second| Timestamp::from_second(second).expect("a time");
        addresses.told(&vm(PowerState::On, &[]), at(1));
        addresses.told(&vm(PowerState::Off, &[]), at(2));
        let again = vm(PowerState::On, &["10.0.0.1"]);
        assert_eq!(addresses.told(&again, at(9)), None);
    }
}
