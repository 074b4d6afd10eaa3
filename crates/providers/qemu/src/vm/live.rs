//! What is there only while QEMU runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::console::Serial;
use crate::process::Process;
use crate::qmp::Qmp;

/// A running QEMU.
pub(crate) struct Live {
    pub(crate) qmp: Qmp,
    pub(crate) process: Process,
    pub(crate) serial: Arc<Serial>,
    paused: AtomicBool,
    /// Whether QEMU has said that it is going to end.
    ending: AtomicBool,
}

impl Live {
    pub(crate) const fn new(qmp: Qmp, process: Process, serial: Arc<Serial>) -> Self {
        Self {
            qmp,
            process,
            serial,
            paused: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        }
    }

    pub(crate) fn paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Remembers whether the machine stands still; true if that is new.
    pub(crate) fn set_paused(&self, paused: bool) -> bool {
        self.paused.swap(paused, Ordering::Relaxed) != paused
    }

    pub(crate) fn ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}

/// What is known of the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guest {
    /// Whether its agent listens.
    pub(crate) agent: bool,
    pub(crate) hostname: String,
    /// Addresses by MAC address.
    pub(crate) addresses: BTreeMap<String, Vec<String>>,
    /// Why the machine was stopped by QEMU; empty if it was not.
    pub(crate) trouble: String,
    /// Why its file systems are still frozen; empty if they are not.
    pub(crate) frozen: String,
}
