//! What happened, in order: the trace that makes two runs comparable.

use std::collections::VecDeque;
use std::time::Duration;

use polyvirt_contract::VmId;

use crate::state::vm::VmKey;

/// Entries that are kept.
const KEPT: usize = 1024;

/// What happened to a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Its creation began.
    Accepted,
    /// It was created.
    Created,
    /// Its deletion began.
    Deleting,
    /// It was deleted.
    Deleted,
    /// It was started.
    Started,
    /// Its guest got its address.
    GuestUp,
    /// It was stopped.
    Stopped,
    /// It was restarted.
    Restarted,
    /// It was paused.
    Paused,
    /// It went on after a pause.
    Resumed,
    /// Its size, disks, networks, tags or owner changed.
    Reconfigured,
    /// Its virtual hardware was raised.
    Upgraded,
    /// It is on another host.
    Migrated,
    /// A snapshot was taken.
    SnapshotTaken,
    /// A snapshot was deleted.
    SnapshotDeleted,
    /// It went back to a snapshot.
    Reverted,
    /// It was found again after a crash.
    Recovered,
    /// Somebody changed it behind the contract's back.
    OutOfBand,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When, since the mock began.
    pub at: Duration,
    /// To which VM.
    pub vm: VmId,
    /// What.
    pub what: Happened,
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) now: Duration,
    entries: VecDeque<(Duration, VmKey, Happened)>,
}

impl Journal {
    pub(crate) fn note(&mut self, vm: VmKey, what: Happened) {
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back((self.now, vm, what));
    }

    pub(crate) fn entries(&self) -> Vec<LogEntry> {
        let entry = |&(at, vm, what): &(Duration, VmKey, Happened)| LogEntry {
            at,
            vm: vm.id(),
            what,
        };
        self.entries.iter().map(entry).collect()
    }
}
