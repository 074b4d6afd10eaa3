//! What is behind the mock's lock: the state, and where its changes go.

use std::time::Duration;

use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, ProviderError, Result};

use crate::config::MockConfig;
use crate::console::Consoles;
use crate::faults::Stutter;
use crate::hub::Hub;
use crate::rpc::Counts;
use crate::state::{Change, Numbers, State, VmKey};
use crate::store::{Store, StoreError};

/// The state with its folder, its readers and its counters.
pub(crate) struct Inner {
    pub(crate) state: State,
    pub(crate) store: Store,
    pub(crate) hub: Hub,
    pub(crate) consoles: Consoles,
    pub(crate) counts: Counts,
    /// Why the folder cannot be used; then every call says so.
    broken: Option<String>,
    stored: Numbers,
    /// When the timer will look again; `None` while none runs.
    pub(crate) timer: Option<Duration>,
}

impl Inner {
    /// An empty hypervisor, or what its folder holds.
    pub(crate) fn open(config: &MockConfig) -> Self {
        let mut inner = Self {
            state: State::new(config),
            store: Store::new(&config.storage),
            hub: Hub::new(config.watch_buffer),
            consoles: Consoles::default(),
            counts: Counts::default(),
            broken: None,
            stored: Numbers::default(),
            timer: None,
        };
        inner.reopen();
        inner
    }

    /// Reads the folder, where there is one.
    pub(crate) fn reopen(&mut self) {
        self.broken = None;
        match self.store.open() {
            Ok(None) => {}
            Ok(Some(contents)) => {
                self.stored = contents.numbers;
                self.state.load(contents.numbers, contents.vms);
                for (name, sha256, length) in contents.disks {
                    self.state.know_import(&name, sha256.into(), length);
                }
                self.flush(Duration::ZERO);
            }
            Err(error) => self.broken = Some(error.to_string()),
        }
    }

    pub(crate) fn usable(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(why) => Err(ProviderError::new(ErrorKind::Unavailable, why.clone())),
        }
    }

    /// Stores and tells what changed.
    pub(crate) fn flush(&mut self, now: Duration) {
        let changes = self.state.take_changes();
        let mut last = None;
        for change in changes {
            let same = matches!(change, Change::Vm(key) if last == Some(key));
            last = match change {
                Change::Vm(key) => Some(key),
                _ => None,
            };
            if !same {
                self.keep(&change);
                self.tell(now, change);
            }
        }
        self.keep_numbers();
    }

    fn keep(&mut self, change: &Change) {
        let kept = match change {
            Change::Vm(key) => self
                .state
                .get(*key)
                .map_or(Ok(()), |vm| self.store.save(vm)),
            Change::Gone(key, ..) => self.store.remove(*key),
            Change::Task(..) | Change::Message(..) => Ok(()),
        };
        self.note(kept);
    }

    fn keep_numbers(&mut self) {
        let numbers = self.state.numbers();
        if numbers != self.stored {
            self.stored = numbers;
            let kept = self.store.save_numbers(numbers);
            self.note(kept);
        }
    }

    pub(crate) fn note(&mut self, kept: std::result::Result<(), StoreError>) {
        if let Err(error) = kept {
            tracing::error!(%error, "Cannot keep a change");
            self.broken = Some(error.to_string());
        }
    }

    fn tell(&mut self, now: Duration, change: Change) {
        self.consoles.follow(&self.state, &change);
        if !self.hub.has_readers() {
            return;
        }
        match change {
            Change::Vm(key) => {
                if let Some(state) = self.state.state_of(key) {
                    self.send(now, VmEvent::State(state));
                }
            }
            Change::Gone(key, identity, revision) => {
                let id = key.id();
                self.send(
                    now,
                    VmEvent::Gone {
                        id,
                        identity,
                        revision,
                    },
                );
            }
            Change::Task(id, state) => self.send(now, VmEvent::Task { id, state }),
            Change::Message(event, up_to) => self.hub.publish_late(*event, up_to),
        }
    }

    /// Sends a message, or whatever the faults make of it.
    fn send(&mut self, now: Duration, event: VmEvent) {
        match self.state.faults.stutter() {
            None | Some(Stutter::Reorder) => self.hub.publish(event),
            Some(Stutter::Duplicate) => {
                self.hub.publish(event.clone());
                self.hub.publish(event);
            }
            Some(Stutter::Late(delay)) => {
                let readers = self.hub.last_reader();
                self.state.delay(now + delay, event, readers);
            }
            Some(Stutter::Break) => {
                self.hub.publish(event);
                self.hub
                    .break_all("The mock was told to break the watch; open a new one");
            }
        }
    }

    /// The VM as a watch stream tells it.
    pub(crate) fn look(&self, key: VmKey) -> Option<VmEvent> {
        self.state.state_of(key).map(VmEvent::State)
    }
}
