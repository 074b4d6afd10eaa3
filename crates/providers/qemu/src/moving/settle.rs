//! What becomes of this host's side of a move, once it is decided. Each can be done again, and cut short anywhere.
//!
//! ```text
//!   go:    the guest runs here; the mark stays
//!   keep:  the guest is as it was before ─► the mark goes      here is the VM
//!   drop:  on its way out (written) ─► QEMU, disks, record     the other host has it
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use polyvirt_contract::model::{MoveDecision, SettleMove};
use polyvirt_contract::{ProviderError, Result};

use super::send::call_back;
use super::{find, key, query};
use crate::core::Core;
use crate::errors;
use crate::qmp::Qmp;
use crate::state::{Moving, Side, Was};
use crate::vm::{self, Live, Vm};

/// Carries out what was decided.
pub(crate) async fn settle(core: &Arc<Core>, settle: &SettleMove) -> Result<()> {
    let vm = match find(core, &settle.vm) {
        Err(_) if settle.decision == MoveDecision::Drop => return Ok(()),
        found => found?,
    };
    let _alone = vm.change.lock().await;
    let moving = match vm.record(|record| record.moving.clone()) {
        Some(moving) if moving.id == settle.id => moving,
        None if settle.decision != MoveDecision::Drop => return Ok(()),
        _ => return Err(not_this(&vm)),
    };
    match settle.decision {
        MoveDecision::Go => go(&vm, &moving).await,
        MoveDecision::Keep if moving.side == Side::Comes => arrives(core, &vm, moving).await,
        MoveDecision::Keep => stays(core, &vm, &moving).await,
        MoveDecision::Drop => leave(core, &vm).await,
    }
}

fn not_this(vm: &Vm) -> ProviderError {
    errors::precondition(format!(
        "The VM {} is not on its way by this move, and is not touched for it",
        vm.uuid()
    ))
}

/// Lets the guest run on here.
async fn go(vm: &Vm, moving: &Moving) -> Result<()> {
    let live = vm.must_live()?;
    close_doors(&live.qmp).await;
    if moving.was == Was::On {
        live.qmp.ask("cont").await?;
    }
    Ok(())
}

/// Nobody else writes to the disks from here on.
async fn close_doors(qmp: &Qmp) {
    // They may be closed already.
    let _ = qmp.ask("nbd-server-stop").await;
}

/// The VM is here now, and told of.
async fn arrives(core: &Arc<Core>, vm: &Arc<Vm>, moving: Moving) -> Result<()> {
    let mut fault = None;
    if let Some(live) = vm.live() {
        fault = land(vm, &live, moving.was).await?;
    }
    key::forget(vm);
    let live = vm.live();
    if let Some(live) = &live {
        vm::hear_agent(core, vm, live).await;
    }
    vm.update(core, |record| {
        record.moving = None;
        record.running = live.is_some();
        record.last_request = moving.request.or_else(|| record.last_request.take());
        if let Some(fault) = fault {
            record.fault = fault;
        }
    })
}

/// Brings the guest to how it was. One of which a half is lost ends, and why is told.
async fn land(vm: &Vm, live: &Live, was: Was) -> Result<Option<String>> {
    let migration = query(&live.qmp).await?;
    let status = migration["status"].as_str().unwrap_or_default().to_owned();
    if status.starts_with("postcopy") {
        vm.halt().await?;
        let why = "The host that it came from was lost before all of its memory was here";
        return Ok(Some(why.to_owned()));
    }
    key::take_away(vm, &live.qmp).await;
    close_doors(&live.qmp).await;
    match was {
        Was::On => go_on(live).await?,
        Was::Suspended => {
            live.set_paused(true);
        }
        Was::Off => vm.halt().await?,
    }
    Ok(None)
}

async fn go_on(live: &Live) -> Result<()> {
    let status = live.qmp.ask("query-status").await?;
    if status["status"] != "running" {
        live.qmp.ask("cont").await?;
    }
    live.set_paused(false);
    Ok(())
}

/// The VM stays: nothing is left of its move.
async fn stays(core: &Core, vm: &Vm, moving: &Moving) -> Result<()> {
    call_back(vm).await;
    match (vm.live(), moving.was) {
        (Some(live), Was::On) => go_on(&live).await?,
        (Some(_), Was::Off) => vm.halt().await?,
        _ => {}
    }
    vm.update(core, |record| record.moving = None)
}

/// The other host has it, and tells of it.
async fn leave(core: &Arc<Core>, vm: &Vm) -> Result<()> {
    vm.silent.store(true, Ordering::Relaxed);
    key::forget(vm);
    vm::remove(core, vm).await
}
