//! The stream of changes: one watch of each kind, merged into states of VMs.
//!
//! A stream lists everything first, which shows that the cluster answers. It ends with the first error: whoever reads it
//! opens another one, and that one tells whether the cluster is back.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream, SelectAll};
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::hub::Hub;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::books::Books;
use crate::cluster::Cluster;
use crate::errors;
use crate::facts::about;
use crate::kinds::{IDENTITY, Kind, VmKey, owner};

/// A silent stream says so.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A watch is begun anew after this many seconds, so that one which silently broke is found.
const WATCH_SECONDS: u32 = 120;

type Change = (Kind, watcher::Result<Event<DynamicObject>>);

/// Follows all VMs that carry an identity.
pub(crate) fn follow(
    cluster: &Cluster,
    kinds: &[Kind],
    books: Arc<Books>,
    hub: &Hub,
    stop: CancellationToken,
) -> BoxStream<'static, Result<VmEvent>> {
    let config = watcher::Config::default()
        .labels(IDENTITY)
        .timeout(WATCH_SECONDS);
    let one = |kind: Kind| {
        let changes = watcher(cluster.everywhere(kind), config.clone());
        changes.map(move |change| (kind, change)).boxed()
    };
    let reader = Reader {
        changes: stream::select_all(kinds.iter().map(|kind| one(*kind))),
        tasks: hub.changes(),
        books,
        stop,
        listing: kinds.iter().copied().collect(),
        vms: BTreeSet::new(),
        ready: VecDeque::new(),
        over: false,
    };
    stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((event, reader))
    })
    .boxed()
}

struct Reader {
    changes: SelectAll<BoxStream<'static, Change>>,
    tasks: broadcast::Receiver<VmEvent>,
    books: Arc<Books>,
    stop: CancellationToken,
    /// Kinds whose first list is not whole.
    listing: BTreeSet<Kind>,
    /// VMs that were there when the stream began.
    vms: BTreeSet<VmKey>,
    ready: VecDeque<VmEvent>,
    over: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<VmEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            if let Err(error) = self.read().await {
                self.over = true;
                return Some(Err(error));
            }
        }
    }

    /// Waits for something to happen, and makes ready what there is to tell of it.
    async fn read(&mut self) -> Result<()> {
        let ended = |text: &str| Err(ProviderError::new(ErrorKind::Unavailable, text));
        tokio::select! {
            () = self.stop.cancelled() => ended("The provider stopped; open a new watch"),
            () = tokio::time::sleep(HEARTBEAT) => {
                self.ready.push_back(VmEvent::Heartbeat);
                Ok(())
            }
            task = self.tasks.recv() => match task {
                Ok(event) => {
                    self.ready.push_back(event);
                    Ok(())
                }
                Err(_) => ended("The reader of the watch fell behind; open a new one"),
            },
            change = self.changes.next() => match change {
                Some((kind, Ok(event))) => {
                    self.take(kind, event);
                    Ok(())
                }
                Some((_, Err(error))) => Err(errors::watch(&error)),
                None => ended("The watch ended; open a new one"),
            },
        }
    }

    fn take(&mut self, kind: Kind, event: Event<DynamicObject>) {
        match event {
            Event::Init => {}
            Event::InitDone => self.listed(kind),
            Event::InitApply(object) | Event::Apply(object) => self.there(kind, &object),
            Event::Delete(object) => self.gone(kind, &object),
        }
    }

    fn there(&mut self, kind: Kind, object: &DynamicObject) {
        if kind == Kind::Vm
            && let Some(key) = about(kind, object)
        {
            self.vms.insert(key);
        }
        let changed = self.books.put(kind, object);
        self.tell(changed);
    }

    fn gone(&mut self, kind: Kind, object: &DynamicObject) {
        let changed = self.books.gone(kind, object);
        let key = about(kind, object).filter(|_| kind == Kind::Vm);
        let Some(key) = key else {
            return self.tell(changed);
        };
        // Somebody may have looked before the watch told: it is gone all the same.
        self.vms.remove(&key);
        if self.listing.is_empty() && self.books.state(&key).is_none() {
            self.ready.push_back(VmEvent::Gone {
                id: key.id(),
                identity: owner(object).map(|owner| owner.identity),
                revision: self.books.revision(&key),
            });
        }
    }

    fn tell(&mut self, changed: Option<VmKey>) {
        let Some(key) = changed.filter(|key| self.listing.is_empty() && self.vms.contains(key))
        else {
            return;
        };
        if let Some(state) = self.books.state(&key) {
            self.ready.push_back(VmEvent::State(state));
        }
    }

    fn listed(&mut self, kind: Kind) {
        if !self.listing.remove(&kind) || !self.listing.is_empty() {
            return;
        }
        let states = self.vms.iter().filter_map(|key| self.books.state(key));
        self.ready.extend(states.map(VmEvent::State));
        self.ready.push_back(VmEvent::Synced);
    }
}

#[cfg(test)]
mod tests;
