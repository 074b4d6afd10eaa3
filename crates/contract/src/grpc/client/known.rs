//! What a peer without our extensions must be told again, or tells only once: kept as long as the client lives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::capabilities::Capabilities;
use crate::ids::VmId;
use crate::model::{PowerState, VmState};

/// What a change that waits for a restart is called where the peer does not name its fields.
const UNNAMED_CHANGE: &str = "spec.resources";

/// What is known of the peer and of its VMs.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// It wants to be told the host of each VM.
    clustering: AtomicBool,
    /// It finds images by identity.
    artifacts: AtomicBool,
    vms: Mutex<HashMap<VmId, KnownVm>>,
}

#[derive(Clone, Debug, Default)]
struct KnownVm {
    host: String,
    waits_for_restart: bool,
}

impl Known {
    /// Takes note of what a peer without our extensions can do. One with them knows itself where its VMs are, and would take a
    /// host of an earlier time for a mistake.
    pub(super) fn learn(&self, can: &Capabilities) {
        self.clustering.store(can.clustering, Ordering::Relaxed);
        self.artifacts
            .store(can.image_artifact_identity, Ordering::Relaxed);
    }

    pub(super) fn finds_artifacts(&self) -> bool {
        self.artifacts.load(Ordering::Relaxed)
    }

    /// What goes into `target_host_id` for a VM that is to be created on this host.
    pub(super) fn target(&self, host: &str) -> String {
        if self.clustering.load(Ordering::Relaxed) {
            host.to_owned()
        } else {
            String::new()
        }
    }

    /// What goes into `target_host_id` for this VM; empty for peers that do not ask for it.
    pub(super) fn host_of(&self, vm: &VmId) -> String {
        if !self.clustering.load(Ordering::Relaxed) {
            return String::new();
        }
        let known = self.lock().get(vm).map(|vm| vm.host.clone());
        known.unwrap_or_default()
    }

    pub(super) fn is_on(&self, vm: &VmId, host: &str) {
        if !host.is_empty() {
            host.clone_into(&mut self.lock().entry(vm.clone()).or_default().host);
        }
    }

    pub(super) fn changed(&self, vm: &VmId, waits_for_restart: bool) {
        let mut vms = self.lock();
        if waits_for_restart || vms.contains_key(vm) {
            vms.entry(vm.clone()).or_default().waits_for_restart = waits_for_restart;
        }
    }

    pub(super) fn forget(&self, vm: &VmId) {
        self.lock().remove(vm);
    }

    /// The state with what the message cannot carry. A VM that is off has nothing left to wait for.
    pub(super) fn complete(&self, mut state: VmState) -> VmState {
        let mut vms = self.lock();
        let Some(known) = vms.get_mut(&state.id) else {
            return state;
        };
        if state.power == PowerState::Off {
            known.waits_for_restart = false;
        }
        if known.waits_for_restart && state.restart_required.is_empty() {
            state.restart_required = vec![UNNAMED_CHANGE.to_owned()];
        }
        if state.host.is_empty() {
            state.host.clone_from(&known.host);
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<VmId, KnownVm>> {
        self.vms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
