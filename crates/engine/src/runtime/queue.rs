//! What is to be looked at next: by lane, by urgency, each object once, never twice at the same time.
//!
//! A lane is a provider (or the control plane's own work). Each lane has a limit of passes in flight, so a provider that hangs
//! holds its own VMs up and nobody else's. Lanes take turns. In a lane a user's edit goes before background work, and
//! finds room: what nobody waits for takes a part of the lane only, so that neither the lane nor the API server is full of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::runtime::key::{Key, ObjectKey};

/// How urgent a pass is; the first is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// A person waits.
    User,
    /// Something happened.
    Event,
    /// Nobody waits: start-up, resync.
    Background,
}

/// Whose limit a pass counts against.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Work that touches Kubernetes only.
    Control,
    /// Work that waits for what several providers say, slow ones too.
    Search,
    /// Work on the VMs of one provider.
    Provider(ObjectKey),
}

/// The part of a lane that passes may take for which no person waits.
const UNWATCHED_PART: usize = 4;

#[derive(Default)]
struct LaneState {
    ready: BTreeSet<(Urgency, u64, Key)>,
    running: usize,
    /// Those of them for which no person waits.
    unwatched: usize,
}

/// What a lane has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Objects that wait.
    pub waiting: usize,
    /// Objects that are worked on.
    pub running: usize,
}

impl LaneState {
    fn load(&self) -> Load {
        Load {
            waiting: self.ready.len(),
            running: self.running,
        }
    }

    fn has_room_for(&self, urgency: Urgency, limit: usize) -> bool {
        let unwatched_limit = (limit / UNWATCHED_PART).max(1);
        self.running < limit && (urgency == Urgency::User || self.unwatched < unwatched_limit)
    }

    /// The most urgent, if there is room for it.
    fn take(&mut self, limit: usize) -> Option<(Key, Urgency)> {
        let (urgency, ..) = *self.ready.first()?;
        if !self.has_room_for(urgency, limit) {
            return None;
        }
        let (_, _, key) = self.ready.pop_first()?;
        self.running += 1;
        self.unwatched += usize::from(urgency != Urgency::User);
        Some((key, urgency))
    }

    fn finish(&mut self, urgency: Urgency) {
        self.running -= 1;
        self.unwatched -= usize::from(urgency != Urgency::User);
    }
}

struct Queued {
    lane: Lane,
    urgency: Urgency,
    number: u64,
    since: Instant,
}

/// What is taken out, and how long it was in.
struct Taken {
    key: Key,
    lane: Lane,
    urgency: Urgency,
    since: Instant,
}

#[derive(Default)]
struct Inner {
    lanes: HashMap<Lane, LaneState>,
    /// Lanes with something ready, in the order of their turns.
    turns: VecDeque<Lane>,
    queued: HashMap<Key, Queued>,
    /// Running, and with which urgency to run again.
    running: HashMap<Key, Option<(Lane, Urgency)>>,
    delayed: BTreeMap<(Instant, u64), (Key, Lane, Urgency)>,
    due: HashMap<Key, (Instant, u64)>,
    counter: u64,
}

/// The queue. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    inner: Arc<Mutex<Inner>>,
    wake: Arc<Notify>,
    lane_limit: usize,
}

/// The right to work on an object. Dropping it ends the pass.
pub struct Ticket {
    /// The object.
    pub key: Key,
    /// The lane that the pass counts against.
    pub lane: Lane,
    /// How urgent it was.
    pub urgency: Urgency,
    /// How long it has waited.
    pub waited: Duration,
    queue: Queue,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.queue.finish(&self.key, &self.lane, self.urgency);
    }
}

impl Queue {
    /// A queue with at most this many passes of a lane in flight.
    pub fn new(lane_limit: usize) -> Self {
        Self {
            inner: Arc::default(),
            wake: Arc::default(),
            lane_limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object is to be looked at now. Often is once.
    pub fn add(&self, key: Key, lane: Lane, urgency: Urgency) {
        self.lock().add(key, lane, urgency);
        self.wake.notify_one();
    }

    /// The object is to be looked at after a time, unless it is earlier. Of two times the earlier counts.
    pub fn add_after(&self, key: Key, lane: Lane, urgency: Urgency, delay: Duration) {
        let at = Instant::now() + delay;
        let mut inner = self.lock();
        if inner.due.get(&key).is_some_and(|(due, _)| *due <= at) {
            return;
        }
        inner.undelay(&key);
        inner.counter += 1;
        let slot = (at, inner.counter);
        inner.due.insert(key.clone(), slot);
        inner.delayed.insert(slot, (key, lane, urgency));
        drop(inner);
        self.wake.notify_one();
    }

    /// The object is to be looked at after a time, unless a time for it is set or it waits already.
    pub fn add_if_idle(&self, key: Key, lane: Lane, urgency: Urgency, delay: Duration) {
        let known = {
            let inner = self.lock();
            inner.due.contains_key(&key) || inner.queued.contains_key(&key)
        };
        if !known {
            self.add_after(key, lane, urgency, delay);
        }
    }

    /// The next object to look at. Waits until there is one.
    pub async fn pop(&self) -> Ticket {
        loop {
            let woken = self.wake.notified();
            let (next, due) = {
                let mut inner = self.lock();
                inner.promote(Instant::now());
                (
                    inner.take(self.lane_limit),
                    inner.delayed.keys().next().map(|(at, _)| *at),
                )
            };
            if let Some(taken) = next {
                return Ticket {
                    key: taken.key,
                    lane: taken.lane,
                    urgency: taken.urgency,
                    waited: taken.since.elapsed(),
                    queue: self.clone(),
                };
            }
            match due {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, woken).await;
                }
                None => woken.await,
            }
        }
    }

    /// How many objects wait now (not counting those with a time).
    pub fn waiting(&self) -> usize {
        self.lock().queued.len()
    }

    /// What each lane has to do; lanes with nothing to do are not there.
    pub fn loads(&self) -> Vec<(Lane, Load)> {
        let inner = self.lock();
        let lanes = inner.lanes.iter();
        lanes
            .map(|(lane, state)| (lane.clone(), state.load()))
            .collect()
    }

    /// How many passes run now.
    pub fn in_flight(&self) -> usize {
        self.lock().running.len()
    }

    /// Whether nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.queued.is_empty() && inner.running.is_empty()
    }

    fn finish(&self, key: &Key, lane: &Lane, urgency: Urgency) {
        let mut inner = self.lock();
        if let Some(state) = inner.lanes.get_mut(lane) {
            state.finish(urgency);
        }
        let again = inner.running.remove(key).flatten();
        if let Some((lane, urgency)) = again {
            inner.add(key.clone(), lane, urgency);
        }
        inner.drop_if_empty(lane);
        drop(inner);
        self.wake.notify_one();
    }
}

impl Inner {
    fn add(&mut self, key: Key, lane: Lane, urgency: Urgency) {
        if let Some(again) = self.running.get_mut(&key) {
            let sooner = again.as_ref().is_none_or(|(_, before)| urgency < *before);
            if sooner {
                *again = Some((lane, urgency));
            }
            return;
        }
        let mut since = Instant::now();
        if let Some(old) = self.queued.get(&key) {
            if old.urgency <= urgency && old.lane == lane {
                return;
            }
            since = old.since;
            self.unqueue(&key);
        }
        self.undelay(&key);
        self.enqueue(key, lane, urgency, since);
    }

    fn enqueue(&mut self, key: Key, lane: Lane, urgency: Urgency, since: Instant) {
        self.counter += 1;
        let number = self.counter;
        let queued = Queued {
            lane: lane.clone(),
            urgency,
            number,
            since,
        };
        self.queued.insert(key.clone(), queued);
        let state = self.lanes.entry(lane.clone()).or_default();
        state.ready.insert((urgency, number, key));
        if state.ready.len() == 1 {
            self.turns.push_back(lane);
        }
    }

    fn unqueue(&mut self, key: &Key) {
        let Some(old) = self.queued.remove(key) else {
            return;
        };
        if let Some(state) = self.lanes.get_mut(&old.lane) {
            state.ready.remove(&(old.urgency, old.number, key.clone()));
            if state.ready.is_empty() {
                self.turns.retain(|turn| *turn != old.lane);
            }
        }
    }

    fn undelay(&mut self, key: &Key) {
        if let Some(slot) = self.due.remove(key) {
            self.delayed.remove(&slot);
        }
    }

    /// What had a time that has come becomes ready.
    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let (key, lane, urgency) = entry.remove();
            self.due.remove(&key);
            self.add(key, lane, urgency);
        }
    }

    /// The most urgent of the first lane in turn that has room for it.
    fn take(&mut self, limit: usize) -> Option<Taken> {
        for _ in 0..self.turns.len() {
            let lane = self.turns.pop_front()?;
            let state = self.lanes.get_mut(&lane)?;
            let taken = state.take(limit);
            if !state.ready.is_empty() {
                self.turns.push_back(lane.clone());
            }
            if let Some((key, urgency)) = taken {
                let queued = self.queued.remove(&key);
                self.running.insert(key.clone(), None);
                return Some(Taken {
                    key,
                    lane,
                    urgency,
                    since: queued.map_or_else(Instant::now, |q| q.since),
                });
            }
        }
        None
    }

    fn drop_if_empty(&mut self, lane: &Lane) {
        if self
            .lanes
            .get(lane)
            .is_some_and(|s| s.running == 0 && s.ready.is_empty())
        {
            self.lanes.remove(lane);
        }
    }
}

#[cfg(test)]
mod tests;
