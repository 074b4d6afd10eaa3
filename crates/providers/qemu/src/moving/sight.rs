//! How a VM on its way looks from here.

use std::sync::Arc;

use polyvirt_contract::VmId;
use polyvirt_contract::model::{MoveRole, MoveSight, MoveState};

use super::{find, query};
use crate::core::Core;
use crate::state::{Record, Side};
use crate::vm::{Live, Vm};

/// All that are on their way, or the one that is named, whether it moves or not.
pub(crate) async fn moves(core: &Core, vm: Option<&VmId>) -> Vec<MoveState> {
    let moves = |vm: &Arc<Vm>| vm.record(|record| record.moving.is_some());
    let asked: Vec<Arc<Vm>> = if let Some(id) = vm {
        find(core, id).into_iter().collect()
    } else {
        core.all().into_iter().filter(moves).collect()
    };
    let mut states = Vec::new();
    for vm in asked {
        states.push(state(&vm).await);
    }
    states
}

async fn state(vm: &Arc<Vm>) -> MoveState {
    let record = vm.copy();
    let side = record.moving.as_ref().map(|moving| moving.side);
    let role = match side {
        None => MoveRole::None,
        Some(Side::Leaves) => MoveRole::Leaves,
        Some(Side::Comes) => MoveRole::Comes,
    };
    let moving = record.moving.clone();
    let (id, peer) = moving
        .map(|moving| (moving.id, moving.peer))
        .unwrap_or_default();
    MoveState {
        vm: record.uuid.vm_id(),
        id,
        role,
        peer,
        sight: sight(vm, &record).await,
    }
}

async fn sight(vm: &Arc<Vm>, record: &Record) -> MoveSight {
    // Whoever sends it, or makes a place for it, holds it.
    let at_work = vm.change.try_lock().is_err();
    match (vm.live(), record.moving.as_ref().map(|moving| moving.side)) {
        (_, Some(Side::Leaves)) if at_work => MoveSight::Sends,
        (_, Some(Side::Comes)) if at_work => MoveSight::Waits,
        (None, _) if record.fault.is_empty() => MoveSight::Ended,
        (None, _) => MoveSight::Off,
        (Some(live), side) => match (asked(&live).await, side) {
            (Some((runs, moves)), Some(side)) => seen(&runs, &moves, side),
            (Some((runs, _)), None) => standing(&runs),
            (None, _) => MoveSight::Unknown,
        },
    }
}

/// The words by which QEMU says how the machine and its migration are; `None` if it does not answer.
async fn asked(live: &Live) -> Option<(String, String)> {
    let machine = live.qmp.ask("query-status").await.ok()?;
    let migration = query(&live.qmp).await.ok()?;
    let word = |value: &serde_json::Value| value["status"].as_str().unwrap_or_default().to_owned();
    Some((word(&machine), word(&migration)))
}

/// From QEMU's words.
fn seen(machine: &str, migration: &str, side: Side) -> MoveSight {
    match (migration, side) {
        (
            "postcopy-active" | "postcopy-paused" | "postcopy-recover" | "postcopy-recover-setup",
            _,
        ) => MoveSight::Split,
        (
            "setup" | "active" | "cancelling" | "pre-switchover" | "device" | "wait-unplug",
            Side::Leaves,
        ) => MoveSight::Sends,
        ("completed", Side::Leaves) if machine == "postmigrate" => MoveSight::Sent,
        ("completed", Side::Comes) if machine != "running" => MoveSight::Arrived,
        (_, Side::Comes) if machine != "running" => MoveSight::Waits,
        _ => standing(machine),
    }
}

fn standing(machine: &str) -> MoveSight {
    match machine {
        "running" => MoveSight::Runs,
        _ => MoveSight::Paused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_words_are_read() {
        for (machine, migration, side, expected) in [
            ("running", "", Side::Leaves, MoveSight::Runs),
            ("running", "active", Side::Leaves, MoveSight::Sends),
            ("paused", "pre-switchover", Side::Leaves, MoveSight::Sends),
            ("finish-migrate", "device", Side::Leaves, MoveSight::Sends),
            ("postmigrate", "completed", Side::Leaves, MoveSight::Sent),
            ("running", "cancelled", Side::Leaves, MoveSight::Runs),
            // It was called back after all was sent.
            ("running", "completed", Side::Leaves, MoveSight::Runs),
            ("paused", "failed", Side::Leaves, MoveSight::Paused),
            ("inmigrate", "", Side::Comes, MoveSight::Waits),
            ("inmigrate", "active", Side::Comes, MoveSight::Waits),
            ("paused", "completed", Side::Comes, MoveSight::Arrived),
            ("prelaunch", "completed", Side::Comes, MoveSight::Arrived),
            ("running", "completed", Side::Comes, MoveSight::Runs),
            ("running", "postcopy-active", Side::Comes, MoveSight::Split),
        ] {
            assert_eq!(
                seen(machine, migration, side),
                expected,
                "{machine} {migration} {side:?}"
            );
        }
    }
}
