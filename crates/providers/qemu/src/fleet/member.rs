//! One host of a fleet: the way to it, and what it tells.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use polyvirt_contract::model::{Host, HostHealth, Inventory};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{Provider, Result, grpc};
use tokio::time::Instant;

use super::Fleet;
use super::config::{HostConfig, Link};

/// Pause before a host that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// A host that restarts is back before that.
const LOST_AFTER: Duration = Duration::from_secs(15);

/// A host.
pub(super) struct Member {
    pub(super) place: usize,
    pub(super) provider: Arc<dyn Provider>,
    /// Where other hosts reach it, unless it says otherwise.
    pub(super) address: String,
    pub(super) link: Link,
    /// What it told of itself last.
    facts: Mutex<Option<Host>>,
}

impl Member {
    pub(super) fn connect(place: usize, config: HostConfig) -> Result<Self> {
        let provider = Arc::new(grpc::connect(config.target)?);
        Ok(Self::new(place, provider, config.address, config.link))
    }

    pub(super) fn new(
        place: usize,
        provider: Arc<dyn Provider>,
        address: String,
        link: Link,
    ) -> Self {
        Self {
            place,
            provider,
            address,
            link,
            facts: Mutex::default(),
        }
    }

    /// What the host told of itself last; `None` if it has never answered.
    pub(super) fn facts(&self) -> Option<Host> {
        let facts = self.facts.lock();
        facts.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its name; empty if it has never answered.
    pub(super) fn name(&self) -> String {
        self.facts().map(|host| host.name).unwrap_or_default()
    }

    /// What it has. What it tells of itself is remembered.
    pub(super) async fn inventory(&self) -> Result<Inventory> {
        let inventory = self.provider.inventory().await?;
        if let Some(host) = inventory.hosts.first() {
            let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
            *facts = Some(host.clone());
        }
        Ok(inventory)
    }

    /// The same, or what is known of a host that does not answer.
    pub(super) async fn inventory_or_down(&self) -> Inventory {
        if let Ok(inventory) = self.inventory().await {
            return inventory;
        }
        let nameless = || Host {
            name: self.address.clone(),
            ..Host::default()
        };
        let host = Host {
            health: HostHealth::Down,
            ..self.facts().unwrap_or_else(nameless)
        };
        Inventory {
            hosts: vec![host],
            ..Inventory::default()
        }
    }
}

/// Listens to a host for as long as the fleet is there.
pub(super) async fn follow(fleet: Weak<Fleet>, place: usize) {
    let mut heard = Instant::now();
    loop {
        let Some(strong) = fleet.upgrade() else {
            return;
        };
        let member = strong.members[place].clone();
        drop(strong);
        match begin(&member).await {
            Ok(events) => {
                listen(&fleet, place, events).await;
                heard = Instant::now();
            }
            Err(error) => {
                tracing::debug!(host = member.address, %error, "The host does not answer");
            }
        }
        let Some(strong) = fleet.upgrade() else {
            return;
        };
        if heard.elapsed() > LOST_AFTER {
            strong.told.lost(place);
        }
        drop(strong);
        tokio::time::sleep(AGAIN).await;
    }
}

/// The name of a host is known before its VMs are.
async fn begin(member: &Member) -> Result<BoxStream<'static, Result<VmEvent>>> {
    member.inventory().await?;
    member.provider.watch().await
}

/// Takes in what a host tells until the stream ends.
async fn listen(
    fleet: &Weak<Fleet>,
    place: usize,
    mut events: BoxStream<'static, Result<VmEvent>>,
) {
    // All VMs come first, as one.
    let mut first = Some(Vec::new());
    while let Some(Ok(event)) = events.next().await {
        let Some(fleet) = fleet.upgrade() else {
            return;
        };
        match (event, &mut first) {
            (VmEvent::State(state), Some(listed)) => listed.push(state),
            (VmEvent::State(state), None) => drop(fleet.told.state(place, state)),
            (VmEvent::Synced, listed) => {
                fleet
                    .told
                    .all_of_host(place, listed.take().unwrap_or_default());
                fleet.settle_leftovers(place);
            }
            (VmEvent::Gone { id, revision, .. }, _) => fleet.told.gone(place, &id, revision),
            (VmEvent::Task { id, state }, _) => fleet.told.task(place, &id, state),
            // A place that was made too late is found when nothing else happens.
            (VmEvent::Heartbeat, _) => fleet.settle_leftovers(place),
        }
    }
}
