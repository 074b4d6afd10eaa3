//! What a provider has told about its VMs: the newest word of each, whatever the order in which the words came.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::model::{PowerState, VmState};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{Identity, TaskId, VmId};

use super::addresses::Addresses;
use super::remembered::Remembered;
use super::sources::{Source, Sources, Taken, merged};
use crate::runtime::key::ObjectKey;

/// How long a stream may be silent about a task before the provider is asked: it may have forgotten the task.
pub const TASK_SILENCE: Duration = Duration::from_secs(60);

/// Whom a word of the provider concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerns {
    /// A VM, by its id and by its identity where it has one.
    Vm(VmId, Option<Identity>),
    /// The object that waits for a task.
    Object(ObjectKey),
    /// Every VM of the provider: the picture is complete for the first time, or again.
    Everyone,
}

/// A point in the order of questions and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// The newest word about each VM of one provider.
#[derive(Default)]
pub struct Observations {
    vms: HashMap<VmId, Arc<VmState>>,
    by_identity: HashMap<Identity, VmId>,
    gone: Remembered<VmId, u64>,
    tasks: Remembered<TaskId, TaskState>,
    /// Who waits for the word of a task's end, and since when.
    waiting: HashMap<TaskId, (ObjectKey, Timestamp)>,
    /// Who waits for a name that a VM of somebody else has.
    crowded_out: HashSet<ObjectKey>,
    /// VMs that were there before the present stream and have not been told in it yet.
    untold: Option<HashSet<VmId>>,
    /// When a VM without revisions was last told in answer to a question of its own.
    answered: HashMap<VmId, Moment>,
    moment: Moment,
    /// Which call told what of VMs without revisions.
    sources: Sources,
    addresses: Addresses,
    synced: bool,
    /// Whether the picture was ever complete.
    complete_once: bool,
}

impl Observations {
    /// Whether the picture was complete at least once since the link was made.
    pub const fn complete_once(&self) -> bool {
        self.complete_once
    }

    /// Whether a VM that is not in here is not on the hypervisor, as far as the stream knows.
    pub const fn synced(&self) -> bool {
        self.synced
    }

    /// The VM of that id.
    pub fn get(&self, id: &VmId) -> Option<Arc<VmState>> {
        self.vms.get(id).cloned()
    }

    /// The VM that carries the identity.
    pub fn find(&self, identity: &Identity) -> Option<Arc<VmState>> {
        self.by_identity.get(identity).and_then(|id| self.get(id))
    }

    /// The VMs that are there, each with the host whose memory it is in; empty if it is in none.
    pub fn in_memory(&self) -> HashMap<VmId, String> {
        let host = |vm: &VmState| match vm.power {
            PowerState::On | PowerState::Suspended => vm.host.clone(),
            PowerState::Off | PowerState::Unknown => String::new(),
        };
        let vms = self.vms.values();
        vms.map(|vm| (vm.id.clone(), host(vm))).collect()
    }

    /// How many VMs the provider has told of.
    pub fn len(&self) -> usize {
        self.vms.len()
    }

    /// Who is said to own the VMs.
    pub fn identities(&self) -> Vec<Identity> {
        let owners = self.vms.values().filter_map(|vm| vm.owner.as_ref());
        owners.map(|owner| owner.identity.clone()).collect()
    }

    /// How many tasks are waited for.
    pub fn tasks_awaited(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the provider has told of none.
    pub fn is_empty(&self) -> bool {
        self.vms.is_empty()
    }

    /// A new stream begins: every VM will be told again, but no task that ended before it.
    pub fn begin_stream(&mut self) {
        self.synced = false;
        self.waiting.clear();
        self.untold = Some(self.vms.keys().cloned().collect());
    }

    /// The stream broke: what is here may be old.
    pub fn end_stream(&mut self) {
        self.synced = false;
        self.waiting.clear();
    }

    /// Takes a message of the stream. While the picture is incomplete nobody is concerned: everybody will be, when it is.
    pub fn apply(&mut self, event: VmEvent) -> Vec<Concerns> {
        let early = !self.synced && matches!(event, VmEvent::State(_) | VmEvent::Gone { .. });
        let mut concerns = self.take(event);
        concerns.retain(|_| !early);
        concerns
    }

    fn take(&mut self, event: VmEvent) -> Vec<Concerns> {
        match event {
            VmEvent::State(state) => {
                if let Some(untold) = &mut self.untold {
                    untold.remove(&state.id);
                }
                let renamed = (self.vms.get(&state.id)).is_some_and(|old| old.name != state.name);
                let mut concerns: Vec<_> = self.put(state).into_iter().collect();
                if renamed {
                    concerns.extend(self.name_freed());
                }
                concerns
            }
            VmEvent::Gone {
                id,
                identity,
                revision,
            } => {
                let removed = self.remove(&id, identity, revision);
                removed.into_iter().chain(self.name_freed()).collect()
            }
            VmEvent::Task { id, state } => self.task(id, state).into_iter().collect(),
            VmEvent::Synced => self.complete(),
            VmEvent::Heartbeat => Vec::new(),
        }
    }

    /// How long a VM has run without an address, if the message tells of its first.
    pub fn first_address(&mut self, event: &VmEvent, now: Timestamp) -> Option<Duration> {
        match event {
            VmEvent::State(vm) if self.synced => self.addresses.told(vm, now),
            VmEvent::Gone { id, .. } => {
                self.addresses.forget(id);
                None
            }
            _ => None,
        }
    }

    /// Where we are in the order of questions and answers: a list that is asked for now is as old as this.
    pub const fn moment(&self) -> Moment {
        self.moment
    }

    /// Takes the answer to a question about one VM; it is the truth of its moment.
    pub fn answer(&mut self, state: VmState) {
        if state.revision == 0 {
            self.moment.0 += 1;
            self.answered.insert(state.id.clone(), self.moment);
            self.sources.described(&state);
        }
        self.put(state);
    }

    /// As [`Self::answer`], if nothing was sent to the VM since the list: what the answer does not tell is as the list told it.
    /// Returns the VM as it is known now.
    pub fn confirm(&mut self, state: VmState) -> VmState {
        let listed = self
            .vms
            .get(&state.id)
            .filter(|_| !self.is_described(&state.id));
        let known = match listed {
            Some(list) if state.revision == 0 && list.revision == 0 => merged(&state, list),
            _ => state,
        };
        self.answer(known.clone());
        known
    }

    /// Whether the newest word of the VM is an answer to a question of its own, and not that of a list.
    pub fn is_described(&self, id: &VmId) -> bool {
        self.sources.newest(id) == Source::Describe
    }

    /// In what the provider contradicts itself, if the list has said one thing of the VM before and after its own answer said
    /// another.
    pub fn contradiction(&self, id: &VmId) -> Option<String> {
        self.sources.contradiction(id, self.vms.get(id)?)
    }

    /// Takes a whole list, from a provider that cannot stream. Of a VM that was asked for since the list was, it knows
    /// nothing new.
    pub fn replace(&mut self, mut list: Vec<VmState>, asked: Moment) -> Vec<Concerns> {
        let first = !self.synced;
        self.begin_stream();
        self.synced = !first;
        self.answered.retain(|_, at| *at > asked);
        list.retain(|vm| !self.answered.contains_key(&vm.id));
        if let Some(untold) = &mut self.untold {
            untold.retain(|id| !self.answered.contains_key(id));
        }
        self.sources.keep(|id| self.vms.contains_key(id));
        let mut concerns = Vec::new();
        for vm in list {
            concerns.extend(self.listed(vm));
        }
        concerns.extend(self.complete());
        concerns
    }

    /// Takes the word of a list. What the list said before is no news: it does not overrule an answer that came since. If the two
    /// differ, the VM is asked for once more before the provider is said to contradict itself.
    fn listed(&mut self, vm: VmState) -> Vec<Concerns> {
        let known = self.vms.get(&vm.id).cloned();
        let taken = match &known {
            Some(known) if vm.revision == 0 => self.sources.listed(&vm, known),
            _ => Taken::News,
        };
        match (taken, known) {
            (Taken::News, _) => return self.apply(VmEvent::State(vm)),
            (Taken::Beside, Some(known)) => {
                return self.apply(VmEvent::State(merged(&known, &vm)));
            }
            _ => {}
        }
        if let Some(untold) = &mut self.untold {
            untold.remove(&vm.id);
        }
        let identity = vm.owner.as_ref().map(|owner| owner.identity.clone());
        let concerned = Concerns::Vm(vm.id.clone(), identity);
        match taken {
            Taken::News | Taken::Beside | Taken::Known => Vec::new(),
            Taken::Contradiction => vec![concerned],
            Taken::Doubtful => {
                self.forget(&vm.id);
                vec![concerned]
            }
        }
    }

    fn put(&mut self, state: VmState) -> Option<Concerns> {
        let old = self.vms.get(&state.id);
        let known = old
            .map_or(0, |vm| vm.revision)
            .max(self.gone.get(&state.id).copied().unwrap_or(0));
        let newer = state.revision == 0 || state.revision > known;
        if !newer || old.is_some_and(|old| **old == state) {
            return None;
        }
        self.gone.forget(&state.id);
        let identity = state.owner.as_ref().map(|o| o.identity.clone());
        if let Some(identity) = &identity {
            self.by_identity.insert(identity.clone(), state.id.clone());
        }
        let id = state.id.clone();
        self.vms.insert(id.clone(), Arc::new(state));
        Some(Concerns::Vm(id, identity))
    }

    /// What was told of the VM is not relied on any more; it may be there or not.
    pub fn forget(&mut self, id: &VmId) {
        if let Some(vm) = self.vms.remove(id) {
            // Its last word may be told again; what is older may not.
            self.gone.put(id.clone(), vm.revision.saturating_sub(1));
        }
    }

    /// The provider has looked and the VM is not there.
    pub fn absent(&mut self, id: &VmId) {
        let revision = self.vms.get(id).map_or(0, |vm| vm.revision);
        self.remove(id, None, revision);
    }

    fn remove(&mut self, id: &VmId, identity: Option<Identity>, revision: u64) -> Option<Concerns> {
        let known = self.vms.get(id).map_or(0, |vm| vm.revision);
        if revision != 0 && revision < known {
            return None;
        }
        let told = self.gone.get(id).copied().unwrap_or(0);
        self.gone.put(id.clone(), revision.max(known).max(told));
        self.sources.forget(id);
        let old = self.vms.remove(id);
        let identity =
            identity.or_else(|| old.as_ref()?.owner.as_ref().map(|o| o.identity.clone()));
        if let Some(identity) = &identity
            && self.by_identity.get(identity) == Some(id)
        {
            self.by_identity.remove(identity);
        }
        Some(Concerns::Vm(id.clone(), identity))
    }

    fn complete(&mut self) -> Vec<Concerns> {
        let first = !self.synced;
        self.synced = true;
        self.complete_once = true;
        let untold = self.untold.take().unwrap_or_default();
        let mut concerns: Vec<_> = untold
            .into_iter()
            .filter_map(|id| self.remove(&id, None, 0))
            .collect();
        concerns.extend(self.name_freed());
        if first {
            concerns.push(Concerns::Everyone);
        }
        concerns
    }

    fn task(&mut self, id: TaskId, state: TaskState) -> Option<Concerns> {
        if matches!(state, TaskState::Running { .. }) {
            return None;
        }
        let waiter = self.waiting.remove(&id);
        self.tasks.put(id, state);
        waiter.map(|(object, _)| Concerns::Object(object))
    }

    /// Wake this object when a VM goes or is renamed: the name that it needs may be free then.
    pub fn await_name(&mut self, object: &ObjectKey) {
        self.crowded_out.insert(object.clone());
    }

    fn name_freed(&mut self) -> Vec<Concerns> {
        self.crowded_out.drain().map(Concerns::Object).collect()
    }

    /// Whether the stream can still be relied on to tell of the task's end.
    pub fn awaits(&self, task: &TaskId, now: Timestamp) -> bool {
        let silent =
            |since: &Timestamp| Duration::try_from(now.duration_since(*since)).unwrap_or_default();
        self.synced
            && self
                .waiting
                .get(task)
                .is_some_and(|(_, since)| silent(since) < TASK_SILENCE)
    }

    /// Wake this object when the task ends. The provider has just said that it runs.
    pub fn await_task(&mut self, task: &TaskId, object: &ObjectKey, now: Timestamp) {
        self.waiting.insert(task.clone(), (object.clone(), now));
    }

    /// How the task ended, if the stream has told.
    pub fn take_task(&mut self, task: &TaskId) -> Option<TaskState> {
        let state = self.tasks.take(task)?;
        self.waiting.remove(task);
        Some(state)
    }
}

#[cfg(test)]
mod tests;
