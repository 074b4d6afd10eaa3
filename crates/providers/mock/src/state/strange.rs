//! What people do to VMs behind everybody's back.

use std::time::Duration;

use polyvirt_contract::model::{ClassSpec, CreateVm, HostHealth};
use polyvirt_contract::{ErrorKind, ProviderError, Result, VmId};

use crate::state::vm::{Stage, Vm, VmKey};
use crate::state::{Happened, State, check};

/// A change that nobody asked the provider for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meddling {
    Start,
    Stop,
    Delete,
}

impl State {
    pub(crate) fn meddle(&mut self, now: Duration, id: &VmId, how: Meddling) -> Result<()> {
        let key = self.key(id)?;
        match how {
            Meddling::Start if self.vm(key)?.runs() => Ok(()),
            Meddling::Start => self.start(now, key, Happened::OutOfBand),
            Meddling::Stop if !self.vm(key)?.runs() => Ok(()),
            Meddling::Stop => self.stop(key),
            Meddling::Delete => {
                self.remove(key, Happened::OutOfBand);
                Ok(())
            }
        }
    }

    /// Changes the size at once, running or not.
    pub(crate) fn resize_behind(&mut self, id: &VmId, cpu: u32, memory_mib: u64) -> Result<()> {
        let key = self.key(id)?;
        let vm = self.vm(key)?;
        let (host, old) = (vm.host, vm.reserved().clone());
        let mut new = vm.hardware.clone();
        (new.cpu, new.memory_mib) = (cpu, memory_mib);
        self.hosts.exchange(host, &old, &new)?;
        let vm = self.vm_mut(key)?;
        vm.hardware = new;
        vm.pending = None;
        self.touch(key, Happened::OutOfBand);
        Ok(())
    }

    pub(crate) fn rename_behind(&mut self, id: &VmId, name: &str) -> Result<()> {
        let key = self.key(id)?;
        self.name_is_free(name)?;
        let vm = self.vm_mut(key)?;
        let old = std::mem::replace(&mut vm.name, name.into());
        self.by_name.remove(&old);
        self.by_name.insert(name.into(), key);
        self.touch(key, Happened::OutOfBand);
        Ok(())
    }

    /// A VM that nobody marked.
    pub(crate) fn stranger(&mut self, name: &str, cpu: u32, memory_mib: u64) -> Result<VmId> {
        self.name_is_free(name)?;
        let request = CreateVm {
            name: name.to_owned(),
            class: ClassSpec {
                cpu,
                memory_mib,
                ..ClassSpec::default()
            },
            ..CreateVm::default()
        };
        check::request(&request)?;
        let key = VmKey(self.numbers.vm + 1);
        let mut vm = Vm::new(key, &request, 0);
        vm.host = self.hosts.place(&vm.hardware, "")?;
        vm.stage = Stage::Ready;
        self.numbers.vm = key.0;
        self.index(vm);
        self.touch(key, Happened::OutOfBand);
        Ok(key.id())
    }

    fn name_is_free(&self, name: &str) -> Result<()> {
        if self.by_name.contains_key(name) {
            let message = format!("The name {name} is taken");
            return Err(ProviderError::new(ErrorKind::NameConflict, message));
        }
        Ok(())
    }

    /// Whether the guest ignores requests to shut down and commands.
    pub(crate) fn hang_guest(&mut self, id: &VmId, hung: bool) -> Result<()> {
        let key = self.key(id)?;
        self.vm_mut(key)?.volatile.hung = hung;
        Ok(())
    }

    pub(crate) fn host_health(&mut self, name: &str, health: HostHealth) -> Result<()> {
        if self.hosts.set_health(name, health) {
            return Ok(());
        }
        Err(ProviderError::not_found(format!("The host {name}")))
    }
}
