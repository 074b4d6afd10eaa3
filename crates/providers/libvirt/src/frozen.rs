//! Guests that were made quiet for a moment and do not go on: a fault of their VM until they do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polyvirt_contract::Result;
use polyvirt_contract::model::VmState;
use polyvirt_provider_kit::guest;

use crate::core::{Core, Vm};
use crate::domain::Machine;
use crate::rpc::Domain;

/// How often a guest is let go on that did not.
const AGAIN: Duration = Duration::from_secs(5);

/// Why a guest is still frozen; empty if it is not.
#[derive(Default)]
pub(crate) struct Frozen(Mutex<String>);

impl Frozen {
    pub(crate) fn set(&self, why: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn get(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn is_over(&self) -> bool {
        self.get().is_empty()
    }

    /// The VM with this fault, unless it has a worse one. A machine that ended is frozen no more.
    pub(crate) fn told_in(&self, mut state: VmState, live: Option<&Machine>) -> VmState {
        if live.is_none() {
            self.set(String::new());
        }
        if state.fault.is_empty() {
            state.fault = self.get();
        }
        state
    }
}

/// Lets a guest go on that was left frozen, for as long as it takes.
pub(crate) fn mend(core: &Arc<Core>, vm: &Arc<Vm>) {
    if vm.frozen.is_over() {
        return;
    }
    let (stop, core, vm) = (core.stop.clone(), core.clone(), vm.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = keep_thawing(&core, &vm) => {}
        }
    });
}

async fn keep_thawing(core: &Arc<Core>, vm: &Arc<Vm>) {
    while !vm.frozen.is_over() {
        tokio::time::sleep(AGAIN).await;
        let why = match thaw(core, vm).await {
            Ok(()) => String::new(),
            Err(error) => guest::still_quiet(&error),
        };
        vm.frozen.set(why);
        // A VM that is gone is seen to be; one that cannot be seen is looked at again in a moment.
        if matches!(core.look(vm).await, Ok(None)) {
            return;
        }
    }
}

async fn thaw(core: &Core, vm: &Vm) -> Result<()> {
    core.session().await?.thaw(&Domain::of(vm.uuid)).await?;
    Ok(())
}
