//! What a fleet tells of its VMs: one stream of many, and "unknown" for those of a host that is away.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use polyvirt_contract::Result;
use polyvirt_contract::model::{PowerState, VmState};
use polyvirt_contract::watch::VmEvent;

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
    let each = hosts.iter().cloned().map(|host| {
        let stream = stream::once(of_host(host));
        stream.flatten().boxed()
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
