//! Moves between hosts.

use std::time::Duration;

use polyvirt_contract::model::{
    MigrateVm, MigrationMode, MigrationPhase, MigrationProgress, VmRef,
};
use polyvirt_contract::{ErrorKind, ProviderError, RequestId, Result, TaskId};

use crate::state::tasks::Action;
use crate::state::vm::VmKey;
use crate::state::{Happened, State};

const MIB: u64 = 1 << 20;

impl State {
    /// Moves the VM. A request that was carried out before is not carried out again.
    pub(crate) fn migrate(
        &mut self,
        now: Duration,
        vm: &VmRef,
        request: &MigrateVm,
    ) -> Result<Option<TaskId>> {
        let key = self.authorised(vm)?;
        let vm = self.vm(key)?;
        if request.request.is_some() && vm.last_request == request.request {
            return Ok(None);
        }
        if request.mode == MigrationMode::Live && !vm.runs() && vm.volatile.busy.is_none() {
            let message = "A VM that is off cannot be moved live; start it, or ask for a cold move";
            return Err(ProviderError::new(ErrorKind::Precondition, message));
        }
        if self.hosts.name(vm.host) == request.target_host {
            self.remember(key, request.request.clone());
            return Ok(None);
        }
        let host = self
            .hosts
            .elsewhere(vm.host, vm.reserved(), &request.target_host)?;
        let action = Action::Migrate(key, host, request.request.clone());
        self.perform(now, action, self.times.reconfigure)
    }

    pub(super) fn apply_migrate(
        &mut self,
        key: VmKey,
        host: u16,
        request: Option<RequestId>,
    ) -> Result<()> {
        let vm = self.vm(key)?;
        let (from, claims) = (vm.host, vm.reserved().clone());
        if request.is_some() && vm.last_request == request {
            return Ok(());
        }
        self.hosts.give_back(from, &claims);
        self.hosts.take(host, &claims);
        self.vm_mut(key)?.host = host;
        self.touch(key, Happened::Migrated);
        self.remember(key, request);
        Ok(())
    }

    /// How far a move is; the memory of the VM is what moves.
    pub(crate) fn migration_progress(
        &self,
        now: Duration,
        id: &TaskId,
    ) -> Result<MigrationProgress> {
        let unknown = || ProviderError::not_found(format!("The move {id}"));
        let (task, percent) = self.tasks.in_flight(now, id).ok_or_else(unknown)?;
        let Action::Migrate(key, host, _) = task.action else {
            return Err(unknown());
        };
        let vm = self.vm(key)?;
        let total = vm.hardware.memory_mib * MIB;
        Ok(MigrationProgress {
            phase: MigrationPhase::Copying,
            source_host: self.hosts.name(vm.host).to_owned(),
            target_host: self.hosts.name(host).to_owned(),
            total_bytes: Some(total),
            remaining_bytes: Some(total - total / 100 * u64::from(percent)),
            ..MigrationProgress::default()
        })
    }
}
