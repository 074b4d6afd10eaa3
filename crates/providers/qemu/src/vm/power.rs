//! On, off, again, and by the guest's own will.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::model::{PowerOp, PowerRequest};
use polyvirt_contract::{ErrorKind, ProviderError, RequestId, Result, TaskId};

use crate::agent;
use crate::core::Core;
use crate::errors;
use crate::vm::Vm;
use crate::vm::start::Begin;

/// A guest that may not have heard is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Changes the power state. A request that was carried out before is not carried out again.
pub(crate) async fn power(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    request: PowerRequest,
) -> Result<Option<TaskId>> {
    let served = |record: &crate::state::Record| {
        request.request.is_some() && record.last_request == request.request
    };
    if vm.record(served) {
        return Ok(None);
    }
    let runs = vm.live().is_some();
    if request.op == PowerOp::Reboot && !runs && vm.change.try_lock().is_ok() {
        return Err(is_off(&vm));
    }
    let key = format!("power {} {:?} {:?}", vm.uuid(), request.op, request.request);
    let core_of_task = core.clone();
    let begun = core.tasks.begin(&key, move |_| async move {
        carry_out(&core_of_task, &vm, request).await
    });
    begun.answer().await
}

async fn carry_out(core: &Arc<Core>, vm: &Arc<Vm>, request: PowerRequest) -> Result<()> {
    if let PowerOp::ShutdownGraceful { timeout } = request.op {
        let down = tokio::time::timeout(timeout, shut_down(core, vm, request.request));
        return down.await.unwrap_or_else(|_| Err(too_late()));
    }
    let _alone = vm.change.lock().await;
    vm.must_be_whole()?;
    let served = request.request.is_some() && vm.record(|r| r.last_request == request.request);
    if served {
        return Ok(());
    }
    match request.op {
        PowerOp::On => switch_on(core, vm).await?,
        PowerOp::Off => vm.halt().await?,
        PowerOp::Reboot => return reboot(core, vm, request.request).await,
        PowerOp::Pause => pause(vm).await?,
        PowerOp::ShutdownGraceful { .. } => {}
    }
    remember(core, vm, request.request)
}

async fn switch_on(core: &Arc<Core>, vm: &Arc<Vm>) -> Result<()> {
    match vm.live() {
        None => vm.start(core, Begin::Boot).await,
        Some(live) if live.paused() => Ok(live.qmp.ask("cont").await.map(drop)?),
        Some(_) => Ok(()),
    }
}

/// Stops the processors of a machine that runs.
async fn pause(vm: &Vm) -> Result<()> {
    let Some(live) = vm.live() else {
        let message = format!("The VM {} is off; start it before it is paused", vm.uuid());
        return Err(errors::precondition(message));
    };
    Ok(live.qmp.ask("stop").await.map(drop)?)
}

/// A machine with changes that wait for a start is started anew, any other is only reset. The request is written down
/// first: a reset that was lost is better than one that nobody asked for.
async fn reboot(core: &Arc<Core>, vm: &Arc<Vm>, request: Option<RequestId>) -> Result<()> {
    let live = vm.live().ok_or_else(|| is_off(vm))?;
    remember(core, vm, request)?;
    if vm.record(|record| record.pending.is_some()) {
        vm.halt().await?;
        return vm.start(core, Begin::Boot).await;
    }
    live.qmp.ask("system_reset").await?;
    if live.paused() {
        live.qmp.ask("cont").await?;
    }
    Ok(())
}

/// Whether the guest has certainly heard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Yes,
    /// The power button was pressed; a guest that still boots does not feel it.
    Perhaps,
}

/// Asks the guest to shut down and waits until it has. The plug is never pulled here: whoever asked decides what follows.
async fn shut_down(core: &Core, vm: &Vm, request: Option<RequestId>) -> Result<()> {
    let mut heard = ask_guest(vm).await?;
    remember(core, vm, request)?;
    while tokio::time::timeout(ASK_AGAIN, vm.stopped()).await.is_err() {
        if heard == Heard::Perhaps {
            heard = ask_guest(vm).await?;
        }
    }
    Ok(())
}

/// By the agent if it listens, else by the power button.
async fn ask_guest(vm: &Vm) -> Result<Heard> {
    let _alone = vm.change.lock().await;
    vm.must_be_whole()?;
    let Some(live) = vm.live() else {
        return Ok(Heard::Yes);
    };
    if vm.agent_is_open() && agent::shut_down(vm).await.is_ok() {
        return Ok(Heard::Yes);
    }
    live.qmp.ask("system_powerdown").await?;
    Ok(Heard::Perhaps)
}

fn too_late() -> ProviderError {
    let message = "The guest has not shut down in time; switch it off, or wait and ask again";
    ProviderError::new(ErrorKind::Timeout, message)
}

fn remember(core: &Core, vm: &Vm, request: Option<RequestId>) -> Result<()> {
    if request.is_none() || vm.record(|record| record.last_request == request) {
        return Ok(());
    }
    vm.update(core, |record| record.last_request = request)
}

fn is_off(vm: &Vm) -> ProviderError {
    let message = format!(
        "The VM {} is off; start it instead of restarting it",
        vm.uuid()
    );
    errors::precondition(message)
}
