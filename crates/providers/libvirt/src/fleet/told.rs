//! What a fleet tells of its VMs: one stream of many, and "unknown" for those of a host that is away.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use polyvirt_contract::model::{PowerState, VmState};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{Result, VmId};

use crate::core::{Core, Known};
use crate::provider::Libvirt;

/// A daemon that restarts is back before that.
const LOST_AFTER: Duration = Duration::from_secs(15);
/// Pause before a host that has never answered is asked again for its VMs.
const AGAIN: Duration = Duration::from_secs(1);

/// Tells that VMs are unknown when their host stays away.
pub(super) fn tell_of_loss(host: &Arc<Libvirt>) {
    let (core, stop) = (Arc::downgrade(&host.core), host.core.stop.clone());
    let watches = async move {
        loop {
            let Some(link) = core.upgrade().map(|core| core.link.clone()) else {
                return;
            };
            link.closed().await;
            let back = tokio::time::timeout(LOST_AFTER, link.opened()).await;
            let Some(core) = core.upgrade() else { return };
            if back.is_err() {
                core.lose().await;
                drop(core);
                link.opened().await;
            }
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = watches => {}
        }
    });
}

/// The state of a VM whose host does not answer.
pub(super) fn unknown(state: VmState) -> VmState {
    VmState {
        power: PowerState::Unknown,
        ..state
    }
}

impl Core {
    /// Nobody knows how the VMs are, only that they were there.
    async fn lose(&self) {
        for vm in self.all() {
            let _alone = vm.look.lock().await;
            // It came back while we waited.
            if self.link.is_open() {
                return;
            }
            let known = vm.known();
            let state = unknown(known.state.clone());
            self.keep(&vm, Known { state, ..known });
        }
    }
}

/// Whether another host has the VM by now, and this one nothing, or what a move has left of it.
pub(super) fn stands_back<'a>(
    cores: impl Iterator<Item = &'a Core>,
    place: usize,
    id: &VmId,
) -> bool {
    let (mut has_it, mut elsewhere) = (false, false);
    for (other, core) in cores.enumerate() {
        let stays = core.seen(id).is_some_and(|vm| !vm.leaves());
        has_it |= stays && other == place;
        elsewhere |= stays && other != place;
    }
    elsewhere && !has_it
}

/// Whether an event of one host is still true of the whole.
fn holds(cores: &[Arc<Core>], place: usize, event: &VmEvent) -> bool {
    let all = || cores.iter().map(AsRef::as_ref);
    match event {
        VmEvent::State(state) => !stands_back(all(), place, &state.id),
        VmEvent::Gone { id, revision, .. } => {
            let newer = |core: &Core| {
                let seen = core.seen(id);
                seen.is_some_and(|vm| vm.state().revision > *revision)
            };
            !stands_back(all(), place, id) && !all().any(newer)
        }
        _ => true,
    }
}

/// The VMs of one host and what happens to them, from the moment on at which all of them are known.
async fn of_host(host: Arc<Libvirt>) -> BoxStream<'static, Result<VmEvent>> {
    while !host.core.has_told_all() {
        if host.core.list().await.is_err() {
            tokio::time::sleep(AGAIN).await;
        }
    }
    let core = host.core.clone();
    let stop = host.core.stop.clone();
    host.core.hub.subscribe(move || core.states(), stop)
}

/// All streams as one. It is whole when the last host has told its VMs, so one that has never answered holds that up, and
/// nothing else.
pub(super) fn merged(hosts: &[Arc<Libvirt>]) -> BoxStream<'static, Result<VmEvent>> {
    let count = hosts.len();
    let cores: Arc<[Arc<Core>]> = hosts.iter().map(|host| host.core.clone()).collect();
    let each = hosts.iter().cloned().enumerate().map(|(place, host)| {
        let cores = cores.clone();
        let true_now = move |event: &Result<VmEvent>| {
            let event = event.as_ref();
            std::future::ready(event.map_or(true, |event| holds(&cores, place, event)))
        };
        let stream = stream::once(of_host(host)).flatten();
        stream.filter(true_now).boxed()
    });
    let mut synced = 0;
    stream::select_all(each)
        .filter_map(move |event| {
            let part = matches!(event, Ok(VmEvent::Synced));
            synced += usize::from(part);
            let told = (!part || synced == count).then_some(event);
            std::future::ready(told)
        })
        .boxed()
}
