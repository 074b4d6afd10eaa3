//! One host's side of a move: a VM that leaves, or one that comes. Who moves it, and decides where it is, is elsewhere
//! ([`fleet`](crate::fleet), docs/adr/0011).
//!
//! ```text
//!   source:  pack ─► leaves (written) ─► send: disks mirrored ─► memory ─► stands still, last of both ─► released ─► drop
//!                                          │                                                                        ▲
//!   target:  receive ─► comes (written) ─► QEMU waits ───────────────────────────────► arrived, stands still ─► go ─┴► keep
//! ```
//!
//! * QEMU at the target starts the guest only when it is told to, and that is told only when QEMU at the source has given it
//!   away for good. So nothing that dies, and no link that is cut, makes it run twice.
//! * Whoever sends stops when nobody listens any more. The guest is called back, and goes on here.
//! * A provider that is killed leaves a QEMU that goes on by itself up to the moment before the guest stands still; its next
//!   life calls the guest back.
//! * What a move leaves behind has its mark, and whoever moves VMs settles it: see [`settle`].

mod figures;
mod keeper;
mod key;
mod luggage;
mod mirror;
mod receive;
mod send;
mod settle;
mod sight;
mod wish;

use std::sync::Arc;

use polyvirt_contract::model::{Handover, MigrationMode};
use polyvirt_contract::{ProviderError, Result, VmId};
use serde_json::json;

use crate::core::Core;
use crate::errors;
use crate::qmp::Qmp;
use crate::state::{Moving, Side, Was};
use crate::uuid::Uuid;
use crate::vm::Vm;

pub(crate) use luggage::pack;
pub(crate) use receive::receive;
pub(crate) use send::{call_back, send};
pub(crate) use settle::settle;
pub(crate) use sight::moves;

/// The VM of this id, told of or not.
fn find(core: &Core, id: &VmId) -> Result<Arc<Vm>> {
    let found = Uuid::parse(id.as_str()).and_then(|uuid| core.get(uuid));
    found.ok_or_else(|| ProviderError::not_found(format!("The VM {id}")))
}

/// How the VM is now, and so will be at the other end.
fn was(vm: &Vm) -> Was {
    match vm.live() {
        None => Was::Off,
        Some(live) if live.paused() => Was::Suspended,
        Some(_) => Was::On,
    }
}

/// What cannot be moved, or not so.
fn refuse(vm: &Vm, handover: &Handover) -> Result<()> {
    let record = vm.copy();
    let wish = &handover.wish;
    wish::check(wish)?;
    if was(vm) == Was::Off && wish.mode == MigrationMode::Live {
        return Err(errors::precondition(
            "The VM is off, and only a guest that runs moves live; start it, or move it cold",
        ));
    }
    if !record.snapshots.is_empty() {
        return Err(errors::precondition(format!(
            "The VM has {} snapshots, which are inside its disks and would not come along; delete them first",
            record.snapshots.len()
        )));
    }
    if !record.devices.is_empty() {
        return Err(errors::precondition(
            "The VM has devices of its host, which cannot come along; take them away first",
        ));
    }
    Ok(())
}

fn mark(handover: &Handover, side: Side, was: Was) -> Moving {
    let peer = match side {
        Side::Leaves => &handover.wish.target_host,
        Side::Comes => &handover.source_host,
    };
    Moving {
        id: handover.id.clone(),
        side,
        peer: peer.clone(),
        was,
        request: handover.wish.request.clone(),
    }
}

/// How QEMU's migration stands, and what it has counted.
async fn query(qmp: &Qmp) -> Result<serde_json::Value> {
    Ok(qmp.execute("query-migrate", json!({})).await?)
}
