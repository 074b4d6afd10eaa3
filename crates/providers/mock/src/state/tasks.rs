//! Work that outlives its call: tasks, and everything else that is due later.

use std::collections::BTreeMap;
use std::time::Duration;

use polyvirt_contract::model::{CreateVm, MigrationProgress};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{ProviderError, RequestId, SnapshotId, TaskId};

use crate::hub::ReaderNumber;
use crate::state::vm::{Snapshot, VmKey};

/// Ended tasks that are remembered; a real provider forgets too.
const REMEMBERED: usize = 16_384;

/// A task's number in this life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskKey(pub(crate) u64);

/// A change of power that a task makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
    Reboot,
    Pause,
}

/// What a task does when it is due.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    FinishCreate(VmKey),
    Delete(VmKey),
    Power(VmKey, Switch, Option<RequestId>),
    /// Ends when the guest has shut down, or too late.
    AwaitOff(VmKey),
    Reconfigure(VmKey, Box<CreateVm>),
    Upgrade(VmKey, i32),
    SnapshotTake(VmKey, Box<Snapshot>),
    SnapshotDelete(VmKey, SnapshotId),
    SnapshotRevert(VmKey, SnapshotId),
    /// To the host of that number.
    Migrate(VmKey, u16, Option<RequestId>),
    FinishImage(String),
    /// The work was done when it was asked for; only the word of it comes later.
    Tell,
}

impl Action {
    /// The VM whose queue the task stands in.
    pub(crate) const fn vm(&self) -> Option<VmKey> {
        match self {
            Self::FinishCreate(key)
            | Self::Delete(key)
            | Self::Power(key, ..)
            | Self::AwaitOff(key)
            | Self::Reconfigure(key, _)
            | Self::Upgrade(key, _)
            | Self::Migrate(key, ..)
            | Self::SnapshotTake(key, _)
            | Self::SnapshotDelete(key, _)
            | Self::SnapshotRevert(key, _) => Some(*key),
            Self::FinishImage(_) | Self::Tell => None,
        }
    }
}

/// A task in flight.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) action: Action,
    pub(crate) since: Duration,
    pub(crate) due: Duration,
}

/// What happens later without anybody's asking.
#[derive(Clone, Debug)]
pub(crate) enum Due {
    Task(TaskKey),
    /// The guest of this boot has its address.
    GuestUp(VmKey, u32),
    /// The guest of this boot has shut down.
    GuestOff(VmKey, u32),
    /// A watch message that was held back.
    Message(Box<VmEvent>, ReaderNumber),
}

/// All tasks, and the calendar of everything that is due.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// Which life of the process this is: a task of another life is unknown.
    life: u32,
    last: u64,
    running: BTreeMap<TaskKey, Task>,
    ended: BTreeMap<TaskKey, Option<Box<ProviderError>>>,
    /// The last figures of moves that ended.
    moved: BTreeMap<TaskKey, MigrationProgress>,
    calendar: BTreeMap<(Duration, u64), Due>,
    entries: u64,
}

impl Tasks {
    pub(crate) fn id(&self, key: TaskKey) -> TaskId {
        TaskId::from(format!("task-{}-{}", self.life, key.0))
    }

    fn parse(&self, id: &TaskId) -> Option<TaskKey> {
        let (life, number) = id.as_str().strip_prefix("task-")?.split_once('-')?;
        (life.parse() == Ok(self.life)).then(|| number.parse().ok().map(TaskKey))?
    }

    /// Accepts work that will be done after `duration`, but not before `not_before`.
    pub(crate) fn accept(&mut self, now: Duration, due: Duration, action: Action) -> TaskKey {
        self.last += 1;
        let key = TaskKey(self.last);
        let since = now;
        self.running.insert(key, Task { action, since, due });
        self.later(due, Due::Task(key));
        key
    }

    pub(crate) fn running(&self, key: TaskKey) -> Option<&Task> {
        self.running.get(&key)
    }

    /// The task of that id while it is in flight, and the bytes of a hundred that it has moved.
    pub(crate) fn in_flight(&self, now: Duration, id: &TaskId) -> Option<(&Task, u8)> {
        let task = self.running.get(&self.parse(id)?)?;
        Some((task, percent(task, now)))
    }

    /// Takes a task out to be carried out.
    pub(crate) fn take(&mut self, key: TaskKey) -> Option<Task> {
        self.running.remove(&key)
    }

    /// Remembers how a task ended.
    pub(crate) fn ended(&mut self, key: TaskKey, error: Option<ProviderError>) {
        self.ended.insert(key, error.map(Box::new));
        if self.ended.len() > REMEMBERED {
            self.ended.pop_first();
        }
    }

    /// Remembers the last figures of a move.
    pub(crate) fn moved(&mut self, key: TaskKey, figures: MigrationProgress) {
        self.moved.insert(key, figures);
        if self.moved.len() > REMEMBERED {
            self.moved.pop_first();
        }
    }

    /// The last figures of a move that ended.
    pub(crate) fn figures(&self, id: &TaskId) -> Option<&MigrationProgress> {
        self.moved.get(&self.parse(id)?)
    }

    pub(crate) fn status(&self, now: Duration, id: &TaskId) -> Option<TaskState> {
        let key = self.parse(id)?;
        if let Some(task) = self.running.get(&key) {
            let percent = Some(percent(task, now));
            return Some(TaskState::Running { percent });
        }
        self.ended.get(&key).map(|error| match error {
            None => TaskState::Succeeded,
            Some(error) => TaskState::Failed((**error).clone()),
        })
    }

    /// Puts something into the calendar.
    pub(crate) fn later(&mut self, due: Duration, what: Due) {
        self.entries += 1;
        self.calendar.insert((due, self.entries), what);
    }

    /// When the next entry is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.calendar.first_key_value().map(|((due, _), _)| *due)
    }

    /// The first entry that is due by now.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<(Duration, Due)> {
        self.next_due().filter(|due| *due <= now)?;
        self.calendar
            .pop_first()
            .map(|((due, _), what)| (due, what))
    }

    /// The process dies and begins anew: its tasks and messages are lost, what guests do goes on.
    pub(crate) fn crash(&mut self) {
        self.life += 1;
        self.running.clear();
        self.ended.clear();
        self.moved.clear();
        self.calendar
            .retain(|_, due| matches!(due, Due::GuestUp(..) | Due::GuestOff(..)));
    }

    /// Says which life this is, where that is known from a folder.
    pub(crate) const fn set_life(&mut self, life: u32) {
        self.life = life;
    }

    pub(crate) const fn life(&self) -> u32 {
        self.life
    }

    /// How many tasks were accepted.
    pub(crate) const fn accepted(&self) -> u64 {
        self.last
    }

    /// The task that was accepted last.
    pub(crate) const fn last_key(&self) -> TaskKey {
        TaskKey(self.last)
    }
}

fn percent(task: &Task, now: Duration) -> u8 {
    let whole = task.due.saturating_sub(task.since).as_millis().max(1);
    let done = now.saturating_sub(task.since).as_millis();
    u8::try_from((done * 100 / whole).min(99)).unwrap_or(99)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_task_is_known_until_the_process_dies() {
        let mut tasks = Tasks::default();
        let key = tasks.accept(Duration::ZERO, 4 * SECOND, Action::Tell);
        let id = tasks.id(key);
        assert_eq!(
            tasks.status(SECOND, &id),
            Some(TaskState::Running { percent: Some(25) })
        );
        tasks.take(key);
        tasks.ended(key, None);
        assert_eq!(tasks.status(SECOND, &id), Some(TaskState::Succeeded));
        tasks.crash();
        assert_eq!(tasks.status(SECOND, &id), None);
        let again = tasks.accept(SECOND, SECOND, Action::Tell);
        assert_ne!(tasks.id(again), id);
    }

    #[test]
    fn the_calendar_keeps_the_order_of_entry_at_one_time() {
        let mut tasks = Tasks::default();
        tasks.later(SECOND, Due::GuestUp(VmKey(1), 1));
        tasks.later(SECOND, Due::GuestOff(VmKey(2), 1));
        assert!(tasks.pop_due(Duration::ZERO).is_none());
        assert!(matches!(tasks.pop_due(SECOND), Some((_, Due::GuestUp(..)))));
        assert!(matches!(
            tasks.pop_due(SECOND),
            Some((_, Due::GuestOff(..)))
        ));
    }
}
