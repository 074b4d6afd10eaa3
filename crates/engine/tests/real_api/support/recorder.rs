//! Every state that was ever written of a VM, in order.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use polyvirt_api::infra::{VMPhase, VirtualMachine};

use super::look::condition;
use super::world::World;

/// What a status said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub name: String,
    pub phase: VMPhase,
    pub ready: String,
    pub reason: String,
}

/// Listens to the API server for as long as the test lasts.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<Said>>>);

impl Recorder {
    /// Listens to all VMs of the world.
    pub fn listen(world: &World) -> Self {
        let recorder = Self::default();
        let all = recorder.clone();
        let api = world.api::<VirtualMachine>();
        tokio::spawn(async move {
            let mut stream = watcher(api, watcher::Config::default())
                .default_backoff()
                .applied_objects()
                .boxed();
            while let Some(event) = stream.next().await {
                if let Ok(vm) = event {
                    all.hear(&vm);
                }
            }
        });
        recorder
    }

    fn hear(&self, vm: &VirtualMachine) {
        let (Some(phase), Some(ready)) = (super::phase(vm), condition(vm, "Ready")) else {
            return;
        };
        let said = Said {
            name: vm.metadata.name.clone().unwrap_or_default(),
            phase,
            ready: ready.status.clone(),
            reason: ready.reason.clone(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.iter().rev().find(|before| before.name == said.name);
        if last != Some(&said) {
            all.push(said);
        }
    }

    /// What was said of a VM so far, without repeats.
    pub fn of(&self, name: &str) -> Vec<Said> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter(|said| said.name == name)
            .cloned()
            .collect()
    }
}
