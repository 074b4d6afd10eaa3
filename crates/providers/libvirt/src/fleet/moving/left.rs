//! What an earlier life has left on its way.
//!
//! ```text
//!   connected ─► a VM leaves ─► the other host is ours ────────────► settle
//!                                 ├─ is not, the guest runs here ───► it stays
//!                                 ├─ is not, and is said to be lost ► it stays
//!                                 └─ is not ────────────────────────► its VM tells what to do; the next life looks again
//! ```

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::Result;
use polyvirt_provider_kit::fleet::moves::{key, unless_stopped};
use polyvirt_provider_kit::guest::Told;
use polyvirt_provider_kit::turns;
use polyvirt_provider_kit::uuid::Uuid;

use super::settle::OtherEnd;
use super::{Route, Verdict, came_to_nothing, settle, unsettled};
use crate::core::Core;
use crate::errors;

/// Pause before a host that has not told its name is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Settles what an earlier life has left on its way, whenever a host is connected.
pub(crate) fn keep_settled(cores: &Arc<[Arc<Core>]>) {
    for core in cores.iter() {
        let (core, cores, stop) = (core.clone(), cores.clone(), core.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = settle_at_connect(&core, &cores) => {}
            }
        });
    }
}

async fn settle_at_connect(core: &Arc<Core>, cores: &Arc<[Arc<Core>]>) {
    loop {
        core.link.opened().await;
        if core.list().await.is_err() {
            tokio::time::sleep(AGAIN).await;
            continue;
        }
        for (vm, peer) in unsettled(core) {
            settle_later(core, cores, vm.uuid, peer);
        }
        core.link.closed().await;
    }
}

/// A move of this life that is under way settles itself: it has the same key.
fn settle_later(source: &Arc<Core>, cores: &Arc<[Arc<Core>]>, uuid: Uuid, peer: String) {
    let (source, cores) = (source.clone(), cores.clone());
    let tasks = source.tasks.clone();
    tasks.begin(&key(&uuid), |_| async move {
        let stop = source.stop.clone();
        let settled = Box::pin(settle_alone(source, &cores, uuid, peer));
        unless_stopped(stop, settled).await
    });
}

async fn settle_alone(
    source: Arc<Core>,
    cores: &[Arc<Core>],
    uuid: Uuid,
    peer: String,
) -> Result<()> {
    tracing::info!(vm = %uuid, host = peer, "A move was cut short; looking who has the VM");
    let Some(target) = called(cores, &peer).await else {
        return settle_without(&source, cores, uuid, &peer).await;
    };
    let route = Route {
        target,
        source_host: String::new(),
        target_host: peer,
        source,
        uuid,
        told: Told::default(),
    };
    let (vm, there) = (route.source.entry(uuid), route.target.entry(uuid));
    // Another migration may go the other way between the same hosts.
    let _alone = turns::both(&vm.change, &there.change).await;
    match settle(&route).await {
        Verdict::Target => Ok(()),
        _ => Err(came_to_nothing(uuid)),
    }
}

/// The VM was on its way to a host that none of ours is.
async fn settle_without(
    source: &Arc<Core>,
    cores: &[Arc<Core>],
    uuid: Uuid,
    peer: &str,
) -> Result<()> {
    let vm = source.entry(uuid);
    let _alone = vm.change.lock().await;
    let is_lost = |core: &Arc<Core>| core.config.lost_hosts.iter().any(|name| name == peer);
    let other = if cores.iter().any(is_lost) {
        OtherEnd::Lost
    } else {
        OtherEnd::Unseen
    };
    if source.settle_without_target(uuid, other).await? {
        tracing::warn!(vm = %uuid, host = peer, "A VM that was on its way to a host that this provider does not have stays where it is; what was made for it there is left");
        return Err(came_to_nothing(uuid));
    }
    let why = stranded(peer);
    tracing::error!(vm = %uuid, host = peer, "{why}");
    vm.is_in_trouble(why.clone());
    source.look(&vm).await?;
    Err(errors::precondition(why))
}

/// What a person has to do about a VM that stands still.
fn stranded(peer: &str) -> String {
    format!(
        "The VM was being moved to the host {peer}, where it may run, and stands still here until that is known: put {peer} back into the Provider's endpoint; if that host is lost for good, add lostHosts={peer} to the endpoint, and the VM goes on here"
    )
}

/// The host of that name, as soon as it has told it; `None` if all have told theirs and it is none of them.
async fn called(cores: &[Arc<Core>], name: &str) -> Option<Arc<Core>> {
    loop {
        let tells = |core: &&Arc<Core>| core.host.get().is_some_and(|host| host.name == name);
        if let Some(core) = cores.iter().find(tells) {
            return Some(core.clone());
        }
        if cores.iter().all(|core| core.host.get().is_some()) {
            return None;
        }
        tokio::time::sleep(AGAIN).await;
        for core in cores {
            if let Ok(session) = core.session().await {
                // It is kept when it is known; if not, it is asked again.
                let _ = core.host_facts(&session).await;
            }
        }
    }
}
