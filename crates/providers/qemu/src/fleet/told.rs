//! What hosts have told of their VMs, and what is told of it onwards: each VM once, by the host that has it.
//!
//! Hosts count changes each for itself. What goes out is counted here, for all of them together, so that of two states of a VM
//! the newer one is known wherever it came from.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use polyvirt_contract::model::{PowerState, Stage, VmState};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{TaskId, VmId};
use polyvirt_provider_kit::hub::Hub;
use tokio::sync::watch;

use crate::vm::MOVES_TO;

/// Stands between the place of a host and the name that it has for a task.
const OF_HOST: char = ':';

/// A VM as a host told it last.
struct Entry {
    /// The number that the host gave it.
    theirs: u64,
    /// With the number that was given here.
    state: VmState,
}

/// VMs that are gone and whose numbers are remembered, for each host.
const GONE: usize = 1024;

#[derive(Default)]
struct HostTold {
    vms: BTreeMap<VmId, Entry>,
    /// What is told of these with a smaller number is late.
    gone: VecDeque<(VmId, u64)>,
}

#[derive(Default)]
struct Inside {
    last: u64,
    hosts: Vec<HostTold>,
}

/// All that was told.
pub(super) struct Told {
    inside: Mutex<Inside>,
    pub(super) hub: Hub,
    /// Hosts that have told all their VMs once.
    whole: watch::Sender<BTreeSet<usize>>,
    count: usize,
}

impl Told {
    pub(super) fn new(hosts: usize) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let micros = now.unwrap_or_default().as_micros();
        Self {
            inside: Mutex::new(Inside {
                // Higher than any number of an earlier life.
                last: u64::try_from(micros).unwrap_or(0),
                hosts: (0..hosts).map(|_| HostTold::default()).collect(),
            }),
            hub: Hub::new(),
            whole: watch::channel(BTreeSet::new()).0,
            count: hosts,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the host has told all its VMs once.
    pub(super) fn is_whole(&self, place: usize) -> bool {
        self.whole.borrow().contains(&place)
    }

    /// Waits until all hosts have.
    pub(super) async fn all_whole(&self) {
        let mut whole = self.whole.subscribe();
        let _ = whole.wait_for(|hosts| hosts.len() == self.count).await;
    }

    /// The host that has the VM.
    pub(super) fn holder(&self, id: &VmId) -> Option<usize> {
        self.lock().holder(id)
    }

    /// All VMs, each as the host that has it told it.
    pub(super) fn states(&self) -> Vec<VmState> {
        let inside = self.lock();
        let hosts = inside.hosts.iter().enumerate();
        let all = hosts.flat_map(|(place, host)| {
            let entries = host.vms.values();
            entries.map(move |entry| (place, entry))
        });
        let held = all.filter(|(place, entry)| inside.holder(&entry.state.id) == Some(*place));
        held.map(|(_, entry)| entry.state.clone()).collect()
    }

    /// VMs that a host has told of.
    pub(super) fn of_host(&self, place: usize) -> Vec<VmState> {
        let inside = self.lock();
        let states = inside.hosts[place].vms.values();
        states.map(|entry| entry.state.clone()).collect()
    }

    /// Takes in what a host says of a VM, and gives it with the number that it has here; `None` if it is gone by now.
    pub(super) fn state(&self, place: usize, state: VmState) -> Option<VmState> {
        let mut inside = self.lock();
        if inside.hosts[place].is_gone(&state) {
            return None;
        }
        if let Some(known) = inside.hosts[place].vms.get(&state.id)
            && !known.is_older_than(&state)
        {
            return Some(known.state.clone());
        }
        Some(inside.put(place, state.revision, state, &self.hub))
    }

    /// The host says that the VM is gone from there.
    pub(super) fn gone(&self, place: usize, id: &VmId, revision: u64) {
        let mut inside = self.lock();
        let gone = &mut inside.hosts[place].gone;
        gone.push_back((id.clone(), revision));
        let over = gone.len().saturating_sub(GONE);
        gone.drain(..over);
        inside.remove(place, id, &self.hub);
    }

    /// All VMs of a host, whatever it told before.
    pub(super) fn all_of_host(&self, place: usize, listed: Vec<VmState>) {
        let there: BTreeSet<VmId> = listed.iter().map(|state| state.id.clone()).collect();
        let mut inside = self.lock();
        let known: Vec<VmId> = inside.hosts[place].vms.keys().cloned().collect();
        for id in known.iter().filter(|id| !there.contains(id)) {
            inside.remove(place, id, &self.hub);
        }
        for state in listed {
            let known = inside.hosts[place].vms.get(&state.id);
            if known.is_none_or(|known| !known.is_same(&state)) {
                inside.put(place, state.revision, state, &self.hub);
            }
        }
        drop(inside);
        self.whole.send_modify(|hosts| {
            hosts.insert(place);
        });
    }

    /// Nobody knows how the VMs of a host are, only that they were there.
    pub(super) fn lost(&self, place: usize) {
        let mut inside = self.lock();
        let known: Vec<_> = inside.hosts[place]
            .vms
            .values()
            .filter(|entry| entry.state.power != PowerState::Unknown)
            .map(|entry| (entry.theirs, unknown(entry.state.clone())))
            .collect();
        for (theirs, state) in known {
            inside.put(place, theirs, state, &self.hub);
        }
    }

    /// A task of a host, told under the name that it has here.
    pub(super) fn task(&self, place: usize, id: &TaskId, state: TaskState) {
        let id = task_of_host(place, id);
        self.hub.publish(VmEvent::Task { id, state });
    }
}

/// The state of a VM whose host does not answer.
fn unknown(state: VmState) -> VmState {
    VmState {
        power: PowerState::Unknown,
        ..state
    }
}

/// The name that a task of a host has here.
pub(super) fn task_of_host(place: usize, id: &TaskId) -> TaskId {
    TaskId::from(format!("{place}{OF_HOST}{id}"))
}

/// The host of a task, and the name that it has there.
pub(super) fn host_of_task(id: &TaskId) -> Option<(usize, TaskId)> {
    let (place, theirs) = id.as_str().split_once(OF_HOST)?;
    Some((place.parse().ok()?, TaskId::from(theirs)))
}

impl Entry {
    fn is_same(&self, state: &VmState) -> bool {
        let ours = VmState {
            revision: state.revision,
            ..self.state.clone()
        };
        self.theirs == state.revision && ours == *state
    }

    /// What is told of a host that is back has the number that it had before.
    fn is_older_than(&self, state: &VmState) -> bool {
        self.theirs < state.revision || self.theirs == state.revision && !self.is_same(state)
    }
}

impl HostTold {
    fn is_gone(&self, state: &VmState) -> bool {
        let of_vm = self.gone.iter().filter(|(id, _)| *id == state.id);
        of_vm.map(|(_, revision)| *revision).max() > Some(state.revision)
    }
}

impl Inside {
    /// Of several the one from which it does not leave, and of these the one that told it last.
    fn holder(&self, id: &VmId) -> Option<usize> {
        let hosts = self.hosts.iter().enumerate();
        let have = hosts.filter_map(|(place, host)| Some((place, &host.vms.get(id)?.state)));
        let best = have.max_by_key(|(_, state)| {
            let stays = state.stage != Stage::Deleting && !state.details.contains_key(MOVES_TO);
            (stays, state.revision)
        });
        best.map(|(place, _)| place)
    }

    fn put(&mut self, place: usize, theirs: u64, state: VmState, hub: &Hub) -> VmState {
        self.last += 1;
        let state = VmState {
            revision: self.last,
            ..state
        };
        let id = state.id.clone();
        let entry = Entry {
            theirs,
            state: state.clone(),
        };
        self.hosts[place].vms.insert(id.clone(), entry);
        if self.holder(&id) == Some(place) {
            hub.publish(VmEvent::State(state.clone()));
        }
        state
    }

    fn remove(&mut self, place: usize, id: &VmId, hub: &Hub) {
        let Some(entry) = self.hosts[place].vms.remove(id) else {
            return;
        };
        if self.holder(id).is_none() {
            self.last += 1;
            hub.publish(VmEvent::Gone {
                id: id.clone(),
                identity: entry.state.owner.map(|owner| owner.identity),
                revision: self.last,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn vm(host: &str, revision: u64) -> VmState {
        VmState {
            id: "vm".into(),
            host: host.to_owned(),
            revision,
            power: PowerState::On,
            ..VmState::default()
        }
    }

    fn leaving(revision: u64) -> VmState {
        VmState {
            details: [(MOVES_TO.to_owned(), "b".to_owned())].into(),
            ..vm("a", revision)
        }
    }

    async fn heard(told: &Told, act: impl FnOnce()) -> Vec<String> {
        let stop = CancellationToken::new();
        let stream = told.hub.subscribe(Vec::new, stop.clone());
        act();
        let mut stream = stream.skip(1);
        let mut words = Vec::new();
        while let Ok(Some(Ok(event))) =
            tokio::time::timeout(std::time::Duration::from_millis(1), stream.next()).await
        {
            words.push(match event {
                VmEvent::State(state) => format!("{} {:?}", state.host, state.power),
                VmEvent::Gone { .. } => "gone".to_owned(),
                other => format!("{other:?}"),
            });
        }
        words
    }

    #[tokio::test]
    async fn one_that_moves_is_told_of_by_one_host_and_is_never_gone() {
        let told = Told::new(2);
        let words = heard(&told, || {
            told.state(0, vm("a", 900));
            told.state(0, leaving(901));
            // The numbers of the other host are smaller.
            told.state(1, vm("b", 5));
            told.state(0, leaving(902));
            told.gone(0, &"vm".into(), 903);
        })
        .await;
        assert_eq!(words, ["a On", "a On", "b On"]);
        assert_eq!(told.holder(&"vm".into()), Some(1));
        let words = heard(&told, || told.gone(1, &"vm".into(), 6)).await;
        assert_eq!(words, ["gone"]);
        assert_eq!(told.state(1, vm("b", 5)), None, "this is late");
        assert!(told.state(1, vm("b", 7)).is_some(), "made anew");
    }

    #[tokio::test]
    async fn the_vms_of_a_host_that_is_away_are_unknown_until_it_is_back() {
        let told = Told::new(1);
        told.all_of_host(0, vec![vm("a", 7)]);
        assert!(told.is_whole(0));
        let words = heard(&told, || {
            told.lost(0);
            told.lost(0);
            told.all_of_host(0, vec![vm("a", 7)]);
            told.all_of_host(0, vec![vm("a", 7)]);
            told.all_of_host(0, Vec::new());
        })
        .await;
        assert_eq!(words, ["a Unknown", "a On", "gone"]);
    }

    #[test]
    fn what_is_old_is_not_told_again_and_numbers_only_grow() {
        let told = Told::new(1);
        let first = told.state(0, vm("a", 7)).expect("there");
        let old = VmState {
            name: "old".to_owned(),
            ..vm("a", 6)
        };
        assert_eq!(told.state(0, old).as_ref(), Some(&first));
        assert_eq!(told.state(0, vm("a", 7)).as_ref(), Some(&first));
        let next = told.state(0, vm("a", 8)).expect("there");
        assert!(next.revision > first.revision);
    }

    #[test]
    fn tasks_are_known_by_their_host() {
        let id = task_of_host(3, &"task-1".into());
        assert_eq!(host_of_task(&id), Some((3, "task-1".into())));
        assert_eq!(host_of_task(&"fleet-1".into()), None);
    }
}
