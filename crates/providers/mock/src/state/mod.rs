//! The hypervisor that is not there: a synchronous, deterministic state machine.
//!
//! ```text
//!            create              due            power on             up
//!   (none) ────────► Creating ────────► Ready/Off ────────► Booting ─────► On
//!      ▲               │ crash           │  ▲  ▲               │           │
//!      └───────────────┴──── delete ─────┘  │  └── power off, guest off ───┘
//!                            (Deleting)     └── crash: the deletion is forgotten
//! ```
//!
//! Time comes in with every call, as the time since the beginning; chance comes from one seeded generator; nothing that
//! can be seen depends on the order of a hash table. What changed is collected in [`State::take_changes`] for the shell
//! to store and to tell.

mod check;
mod clone;
mod create;
mod disks;
mod images;
mod journal;
mod migrate;
mod power;
mod reconfigure;
mod recover;
mod seed;
mod snapshots;
mod strange;
mod tasks;
mod usage;
mod view;
mod vm;

pub(crate) mod hosts;

use std::collections::BTreeMap;
use std::time::Duration;

use polyvirt_contract::model::{Inventory, VmRef, VmState};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{ErrorKind, Identity, ProviderError, Result, TaskId, VmId};

use crate::config::{MockConfig, Resize, TaskMode, Times};
use crate::faults::Faults;
use crate::hub::ReaderNumber;
use crate::state::hosts::Hosts;
use crate::state::images::Images;
use crate::state::journal::Journal;
use crate::state::tasks::{Action, Tasks};

pub(crate) use disks::Content;
pub use journal::{Happened, LogEntry};
pub use seed::digest;
pub(crate) use seed::{Seed, sha256};
pub(crate) use strange::Meddling;
pub(crate) use tasks::{Due, TaskKey};
pub(crate) use vm::{Power, Vm, VmKey};

/// Something that the shell must store or tell.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A VM is new or not what it was.
    Vm(VmKey),
    /// A VM is gone.
    Gone(VmKey, Option<Identity>, u64),
    /// A task ended.
    Task(TaskId, TaskState),
    /// A message that was held back is due.
    Message(Box<VmEvent>, ReaderNumber),
}

/// Numbers that must not be given twice, even to the next life of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Numbers {
    pub(crate) vm: u32,
    pub(crate) life: u32,
}

/// All VMs, tasks, images and hosts.
#[derive(Debug)]
pub(crate) struct State {
    mode: TaskMode,
    resize: Resize,
    times: Times,
    /// Boxed: a map that grows at its end leaves half of each node empty.
    vms: BTreeMap<VmKey, Box<Vm>>,
    by_identity: BTreeMap<Identity, VmKey>,
    by_name: BTreeMap<Box<str>, VmKey>,
    hosts: Hosts,
    images: Images,
    tasks: Tasks,
    numbers: Numbers,
    revision: u64,
    snapshots_taken: u64,
    changes: Vec<Change>,
    journal: Journal,
    pub(crate) faults: Faults,
}

impl State {
    pub(crate) fn new(config: &MockConfig) -> Self {
        Self {
            mode: config.tasks,
            resize: config.resize,
            times: config.times,
            vms: BTreeMap::new(),
            by_identity: BTreeMap::new(),
            by_name: BTreeMap::new(),
            hosts: Hosts::new(config.hosts),
            images: Images::new(config),
            tasks: Tasks::default(),
            numbers: Numbers::default(),
            revision: 0,
            snapshots_taken: 0,
            changes: Vec::new(),
            journal: Journal::default(),
            faults: Faults::new(config.seed, &config.faults),
        }
    }

    /// Puts a VM into all indexes and takes its room.
    fn index(&mut self, vm: Vm) {
        if let Some(owner) = &vm.owner {
            self.by_identity.insert(owner.identity.clone(), vm.key);
        }
        self.by_name.insert(vm.name.clone(), vm.key);
        self.hosts.take(vm.host, vm.reserved());
        self.vms.insert(vm.key, Box::new(vm));
    }

    /// Takes a VM out of all indexes, gives back its room and tells that it is gone.
    fn remove(&mut self, key: VmKey, how: Happened) {
        let Some(vm) = self.vms.remove(&key) else {
            return;
        };
        self.hosts.give_back(vm.host, vm.reserved());
        self.by_name.remove(&vm.name);
        let identity = vm.owner.map(|owner| owner.identity);
        if let Some(identity) = &identity {
            self.by_identity.remove(identity);
        }
        self.revision += 1;
        self.journal.note(key, how);
        self.changes
            .push(Change::Gone(key, identity, self.revision));
    }

    /// Gives a VM a new revision and tells that it changed.
    fn touch(&mut self, key: VmKey, how: Happened) {
        let Some(vm) = self.vms.get_mut(&key) else {
            return;
        };
        self.revision += 1;
        vm.revision = self.revision;
        self.journal.note(key, how);
        self.changes.push(Change::Vm(key));
    }

    fn vm(&self, key: VmKey) -> Result<&Vm> {
        self.vms
            .get(&key)
            .map(AsRef::as_ref)
            .ok_or_else(|| not_there(&key.id()))
    }

    fn vm_mut(&mut self, key: VmKey) -> Result<&mut Vm> {
        self.vms
            .get_mut(&key)
            .map(AsMut::as_mut)
            .ok_or_else(|| not_there(&key.id()))
    }

    fn key(&self, id: &VmId) -> Result<VmKey> {
        VmKey::parse(id)
            .filter(|key| self.vms.contains_key(key))
            .ok_or_else(|| not_there(id))
    }

    /// The VM, if whoever asks may touch it.
    fn authorised(&self, vm: &VmRef) -> Result<VmKey> {
        let key = self.key(&vm.id)?;
        let (Some(asks), Some(holds)) = (&vm.owner, &self.vm(key)?.owner) else {
            return Ok(key);
        };
        if asks.identity == holds.identity {
            return Ok(key);
        }
        let message = format!(
            "The VM {} belongs to {}/{} and is not touched for {}/{}",
            vm.id, holds.namespace, holds.name, asks.namespace, asks.name
        );
        Err(ProviderError::new(ErrorKind::IdentityConflict, message))
    }

    /// The VM itself, if whoever asks may touch it.
    pub(crate) fn allowed(&self, vm: &VmRef) -> Result<&Vm> {
        self.vm(self.authorised(vm)?)
    }

    /// Does the work now, or accepts it as a task behind the VM's other tasks. The same work in flight is the same task.
    fn perform(
        &mut self,
        now: Duration,
        action: Action,
        takes: Duration,
    ) -> Result<Option<TaskId>> {
        let vm = action.vm().and_then(|key| self.vms.get(&key));
        let ahead = vm.and_then(|vm| vm.volatile.busy);
        let ahead = ahead.and_then(|key| self.tasks.running(key).map(|task| (key, task)));
        if let Some((key, task)) = ahead
            && task.action == action
        {
            return Ok(Some(self.tasks.id(key)));
        }
        if self.mode == TaskMode::Immediate && ahead.is_none() {
            return self.apply(now, action).map(|()| None);
        }
        let start = ahead.map_or(now, |(_, task)| task.due);
        let vm = action.vm();
        let key = self.tasks.accept(now, start + takes, action);
        if let Some(vm) = vm.and_then(|vm| self.vms.get_mut(&vm)) {
            vm.volatile.busy = Some(key);
        }
        Ok(Some(self.tasks.id(key)))
    }

    fn apply(&mut self, now: Duration, action: Action) -> Result<()> {
        match action {
            Action::FinishCreate(key) => self.finish_create(key),
            Action::Delete(key) => {
                self.vm(key)?;
                self.remove(key, Happened::Deleted);
                Ok(())
            }
            Action::Power(key, switch, request) => self.switch(now, key, switch, request),
            Action::AwaitOff(key) => self.await_off(key),
            Action::Reconfigure(key, desired) => self.apply_desired(key, &desired),
            Action::Upgrade(key, version) => self.apply_upgrade(key, version),
            Action::Migrate(key, host, request) => self.apply_migrate(key, host, request),
            Action::SnapshotTake(key, snapshot) => self.keep_snapshot(key, *snapshot),
            Action::SnapshotDelete(key, id) => self.drop_snapshot(key, &id),
            Action::SnapshotRevert(key, id) => self.go_back(now, key, &id),
            Action::FinishImage(source) => self.images.finish(&source),
            Action::Tell => Ok(()),
        }
    }

    /// Does everything that is due by now, each thing at its own time.
    pub(crate) fn settle(&mut self, now: Duration) {
        self.journal.now = now;
        while let Some((at, due)) = self.tasks.pop_due(now) {
            match due {
                Due::Task(key) => self.finish(at, key),
                Due::GuestUp(key, boot) => self.guest_up(key, boot),
                Due::GuestOff(key, boot) => self.guest_off(key, boot),
                Due::Message(event, readers) => {
                    self.changes.push(Change::Message(event, readers));
                }
            }
        }
    }

    fn finish(&mut self, at: Duration, key: TaskKey) {
        if let Some(action) = self.take_task(key) {
            self.keep_figures(key, &action);
            let error = self.apply(at, action).err();
            self.tell_end(key, error);
        }
    }

    /// Ends a task that has done nothing yet.
    fn give_up(&mut self, key: TaskKey, error: ProviderError) {
        if self.take_task(key).is_some() {
            self.tell_end(key, Some(error));
        }
    }

    fn take_task(&mut self, key: TaskKey) -> Option<Action> {
        let task = self.tasks.take(key)?;
        if let Some(vm) = task.action.vm().and_then(|vm| self.vms.get_mut(&vm))
            && vm.volatile.busy == Some(key)
        {
            vm.volatile.busy = None;
        }
        Some(task.action)
    }

    fn tell_end(&mut self, key: TaskKey, error: Option<ProviderError>) {
        if self.faults.forgets_task() {
            return;
        }
        let state = error
            .clone()
            .map_or(TaskState::Succeeded, TaskState::Failed);
        self.tasks.ended(key, error);
        self.changes.push(Change::Task(self.tasks.id(key), state));
    }

    /// How a task stands.
    pub(crate) fn task_status(&self, now: Duration, id: &TaskId) -> Result<TaskState> {
        self.tasks
            .status(now, id)
            .ok_or_else(|| ProviderError::not_found(format!("The task {id}")))
    }

    pub(crate) fn describe(&self, id: &VmId) -> Option<VmState> {
        VmKey::parse(id).and_then(|key| self.state_of(key))
    }

    pub(crate) fn find(&self, identity: &Identity) -> Option<VmState> {
        let key = self.by_identity.get(identity)?;
        self.state_of(*key)
    }

    pub(crate) fn list(&self) -> Vec<VmState> {
        self.vms.values().map(|vm| self.view(vm)).collect()
    }

    /// The VM as the contract shows it.
    pub(crate) fn state_of(&self, key: VmKey) -> Option<VmState> {
        self.vms.get(&key).map(|vm| self.view(vm))
    }

    pub(crate) fn get(&self, key: VmKey) -> Option<&Vm> {
        self.vms.get(&key).map(AsRef::as_ref)
    }

    pub(crate) fn keys(&self) -> Vec<VmKey> {
        self.vms.keys().copied().collect()
    }

    pub(crate) fn inventory(&self) -> Inventory {
        view::inventory(self)
    }

    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.tasks.next_due()
    }

    /// Holds a watch message back.
    pub(crate) fn delay(&mut self, due: Duration, event: VmEvent, readers: ReaderNumber) {
        self.tasks
            .later(due, Due::Message(Box::new(event), readers));
    }

    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            life: self.tasks.life(),
            ..self.numbers
        }
    }

    /// Grows with every change and every accepted task: tells whether a call did anything.
    pub(crate) const fn progress(&self) -> u64 {
        self.revision + self.tasks.accepted() + self.images.changes()
    }

    pub(crate) fn journal(&self) -> Vec<LogEntry> {
        self.journal.entries()
    }
}

fn not_there(id: &VmId) -> ProviderError {
    ProviderError::not_found(format!("The VM {id}"))
}
