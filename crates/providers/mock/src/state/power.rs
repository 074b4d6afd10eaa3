//! Starting and stopping, and the guest that takes its time or does not listen.

use std::time::Duration;

use polyvirt_contract::model::{PowerOp, PowerRequest, VmRef};
use polyvirt_contract::{ErrorKind, ProviderError, RequestId, Result, TaskId};

use crate::config::TaskMode;
use crate::state::tasks::{Action, Due, Switch};
use crate::state::vm::{Power, VmKey};
use crate::state::{Happened, State};

impl State {
    /// Changes the power state. A request that was carried out before is not carried out again.
    pub(crate) fn power(
        &mut self,
        now: Duration,
        vm: &VmRef,
        request: PowerRequest,
    ) -> Result<Option<TaskId>> {
        let key = self.authorised(vm)?;
        let vm = self.vm(key)?;
        if request.request.is_some() && vm.last_request == request.request {
            return Ok(None);
        }
        let idle = vm.volatile.busy.is_none();
        let runs = vm.runs();
        let switch = match request.op {
            PowerOp::ShutdownGraceful { timeout } => {
                return self.shut_down(now, key, timeout, request.request);
            }
            PowerOp::Reboot | PowerOp::Pause if idle && !runs => return Err(is_off(key)),
            PowerOp::On => Switch::On,
            PowerOp::Off => Switch::Off,
            PowerOp::Reboot => Switch::Reboot,
            PowerOp::Pause => Switch::Pause,
        };
        let paused = vm.power == Power::Paused;
        let there = match switch {
            Switch::On => runs && !paused,
            Switch::Off => !runs,
            Switch::Pause => paused,
            Switch::Reboot => false,
        };
        if idle && there {
            self.remember(key, request.request);
            return Ok(None);
        }
        let action = Action::Power(key, switch, request.request);
        self.perform(now, action, self.times.power)
    }

    pub(super) fn switch(
        &mut self,
        now: Duration,
        key: VmKey,
        switch: Switch,
        request: Option<RequestId>,
    ) -> Result<()> {
        let vm = self.vm(key)?;
        let runs = vm.runs();
        if request.is_some() && vm.last_request == request {
            return Ok(());
        }
        match switch {
            Switch::On if vm.power == Power::Paused => self.stand(key, Power::On)?,
            Switch::Pause if runs => self.stand(key, Power::Paused)?,
            Switch::On if !runs => self.start(now, key, Happened::Started)?,
            Switch::Off if runs => self.stop(key)?,
            Switch::Reboot if runs => self.start(now, key, Happened::Restarted)?,
            Switch::Reboot | Switch::Pause => return Err(is_off(key)),
            Switch::On | Switch::Off => {}
        }
        self.remember(key, request);
        Ok(())
    }

    /// Lets a machine that is in memory stand still, or go on.
    fn stand(&mut self, key: VmKey, power: Power) -> Result<()> {
        let vm = self.vm_mut(key)?;
        let how = match power {
            Power::Paused => Happened::Paused,
            _ => Happened::Resumed,
        };
        if vm.power != power {
            vm.power = power;
            self.touch(key, how);
        }
        Ok(())
    }

    /// Starts the machine anew: what waited for that acts now, and the guest is up after a while.
    pub(super) fn start(&mut self, now: Duration, key: VmKey, how: Happened) -> Result<()> {
        let boot_time = self.times.boot;
        let vm = self.vm_mut(key)?;
        apply_pending(vm);
        vm.boots += 1;
        vm.volatile.shutdown = None;
        vm.power = if boot_time.is_zero() {
            Power::On
        } else {
            Power::Booting
        };
        let up = Due::GuestUp(key, vm.boots);
        if !boot_time.is_zero() {
            self.tasks.later(now + boot_time, up);
        }
        self.touch(key, how);
        Ok(())
    }

    pub(super) fn stop(&mut self, key: VmKey) -> Result<()> {
        let vm = self.vm_mut(key)?;
        apply_pending(vm);
        vm.power = Power::Off;
        vm.volatile.hung = false;
        self.touch(key, Happened::Stopped);
        Ok(())
    }

    pub(super) fn guest_up(&mut self, key: VmKey, boot: u32) {
        if let Some(vm) = self.vms.get_mut(&key)
            && vm.boots == boot
            && vm.power == Power::Booting
        {
            vm.power = Power::On;
            self.touch(key, Happened::GuestUp);
        }
    }

    pub(super) fn guest_off(&mut self, key: VmKey, boot: u32) {
        let same = |vm: &crate::state::Vm| vm.boots == boot && vm.runs() && !vm.volatile.hung;
        if self.get(key).is_some_and(same) {
            // The VM was looked up just above, so stopping it cannot miss.
            let _ = self.stop(key);
        }
    }

    /// Asks the guest. It obeys after its time, or never if it hangs; asked twice, it is asked once.
    fn shut_down(
        &mut self,
        now: Duration,
        key: VmKey,
        timeout: Duration,
        request: Option<RequestId>,
    ) -> Result<Option<TaskId>> {
        let vm = self.vm(key)?;
        let (boot, hung, runs) = (vm.boots, vm.volatile.hung, vm.runs());
        if let Some(task) = vm
            .volatile
            .shutdown
            .filter(|task| self.tasks.running(*task).is_some())
        {
            return Ok(Some(self.tasks.id(task)));
        }
        self.remember(key, request);
        if !runs {
            return Ok(None);
        }
        let takes = self.times.shutdown;
        if self.mode == TaskMode::Immediate && takes.is_zero() {
            self.guest_off(key, boot);
            return Ok(None);
        }
        if !hung {
            self.tasks.later(now + takes, Due::GuestOff(key, boot));
        }
        if self.mode == TaskMode::Immediate {
            return Ok(None);
        }
        let wait = if hung { timeout } else { takes.min(timeout) };
        let task = self.tasks.accept(now, now + wait, Action::AwaitOff(key));
        self.vm_mut(key)?.volatile.shutdown = Some(task);
        Ok(Some(self.tasks.id(task)))
    }

    pub(super) fn await_off(&mut self, key: VmKey) -> Result<()> {
        let vm = self.vm_mut(key)?;
        vm.volatile.shutdown = None;
        if !vm.runs() {
            return Ok(());
        }
        let message = "The guest has not shut down in time; switch it off, or wait and ask again";
        Err(ProviderError::new(ErrorKind::Timeout, message))
    }

    /// Writes down that a request was carried out.
    pub(super) fn remember(&mut self, key: VmKey, request: Option<RequestId>) {
        let Some(vm) = self
            .vms
            .get_mut(&key)
            .filter(|vm| request.is_some() && vm.last_request != request)
        else {
            return;
        };
        vm.last_request = request;
        let already_told = matches!(self.changes.last(), Some(super::Change::Vm(k)) if *k == key);
        if !already_told {
            self.touch(key, Happened::Reconfigured);
        }
    }
}

fn apply_pending(vm: &mut crate::state::Vm) {
    if let Some(hardware) = vm.pending.take() {
        vm.hardware = *hardware;
    }
}

fn is_off(key: VmKey) -> ProviderError {
    let message = format!("The VM {} is off; start it instead", key.id());
    ProviderError::new(ErrorKind::Precondition, message)
}
