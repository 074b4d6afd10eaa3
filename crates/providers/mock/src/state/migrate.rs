//! Moves between hosts.

use std::time::Duration;

use polyvirt_contract::model::{
    MigrateVm, MigrationMode, MigrationPhase, MigrationProgress, VmRef,
};
use polyvirt_contract::{ErrorKind, ProviderError, RequestId, Result, TaskId};

use crate::state::tasks::{Action, TaskKey};
use crate::state::vm::VmKey;
use crate::state::{Happened, State};

const MIB: u64 = 1 << 20;
/// What a guest is told to stand still for.
const EXPECTED_DOWNTIME: Duration = Duration::from_millis(300);
/// What it stands still for.
const DOWNTIME: Duration = Duration::from_millis(120);

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

    /// Stops a move that is in flight. Only the last task of a VM can be taken away: others may wait for it.
    pub(crate) fn cancel_migration(&mut self, vm: &VmRef, request: &RequestId) -> Result<()> {
        let key = self.authorised(vm)?;
        let none = || ProviderError::not_found(format!("A move for the request {request}"));
        let busy = self.vm(key)?.volatile.busy.ok_or_else(none)?;
        let task = self.tasks.running(busy).ok_or_else(none)?;
        let Action::Migrate(_, _, asked) = &task.action else {
            return Err(none());
        };
        if asked.as_ref() != Some(request) {
            return Err(none());
        }
        let message = "The move was stopped; the VM goes on where it was";
        self.give_up(busy, ProviderError::new(ErrorKind::Cancelled, message));
        Ok(())
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
        if let Some(figures) = self.tasks.figures(id) {
            return Ok(figures.clone());
        }
        let (task, percent) = self.tasks.in_flight(now, id).ok_or_else(unknown)?;
        let Action::Migrate(key, host, _) = task.action else {
            return Err(unknown());
        };
        self.figures(key, host, percent)
    }

    fn figures(&self, key: VmKey, host: u16, percent: u8) -> Result<MigrationProgress> {
        let vm = self.vm(key)?;
        let total = vm.hardware.memory_mib * MIB;
        Ok(MigrationProgress {
            phase: MigrationPhase::Copying,
            source_host: self.hosts.name(vm.host).to_owned(),
            target_host: self.hosts.name(host).to_owned(),
            total_bytes: Some(total),
            remaining_bytes: Some(total - total / 100 * u64::from(percent)),
            downtime: Some(EXPECTED_DOWNTIME),
            ..MigrationProgress::default()
        })
    }

    /// A move that ends leaves its figures behind, while the VM is still where it was.
    pub(super) fn keep_figures(&mut self, task: TaskKey, action: &Action) {
        let Action::Migrate(key, host, _) = action else {
            return;
        };
        if let Ok(last) = self.figures(*key, *host, 100) {
            let figures = MigrationProgress {
                phase: MigrationPhase::Finishing,
                remaining_bytes: Some(0),
                downtime: Some(DOWNTIME),
                ..last
            };
            self.tasks.moved(task, figures);
        }
    }
}
