//! On, off, again, and by the guest's own will.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::model::{PowerOp, PowerRequest, PowerState};
use polyvirt_contract::{ErrorKind, ProviderError, RequestId, Result, TaskId};

use crate::core::{Core, Vm};
use crate::create::{must_be_whole, set_marks};
use crate::reconfigure;
use crate::rpc::{Domain, Session, code, flags};
use crate::{errors, remove};

/// A guest that may not have heard is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Changes the power state. A request that was carried out before is not carried out again.
pub(crate) async fn power(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    request: PowerRequest,
) -> Result<Option<TaskId>> {
    if served(&vm, request.request.as_ref()) {
        return Ok(None);
    }
    let key = format!("power {} {:?} {:?}", vm.uuid, request.op, request.request);
    let core_of_task = core.clone();
    let begun = core.tasks.begin(&key, move |_| async move {
        carry_out(&core_of_task, &vm, request).await
    });
    begun.answer().await
}

pub(crate) fn served(vm: &Vm, request: Option<&RequestId>) -> bool {
    request.is_some() && vm.state().last_request.as_ref() == request
}

async fn carry_out(core: &Arc<Core>, vm: &Arc<Vm>, request: PowerRequest) -> Result<()> {
    if let PowerOp::ShutdownGraceful { timeout } = request.op {
        let down = tokio::time::timeout(timeout, shut_down(core, vm, request.request.as_ref()));
        return down.await.unwrap_or_else(|_| Err(too_late()));
    }
    let _alone = vm.change.lock().await;
    core.look(vm).await?.ok_or_else(|| errors::no_vm(vm.uuid))?;
    must_be_whole(vm)?;
    if served(vm, request.request.as_ref()) {
        return Ok(());
    }
    let session = core.session().await?;
    match request.op {
        PowerOp::On => switch_on(core, &session, vm).await?,
        PowerOp::Off => remove::stop(&session, &Domain::of(vm.uuid)).await?,
        PowerOp::Reboot => return reboot(core, &session, vm, request.request.as_ref()).await,
        PowerOp::Pause => pause(&session, vm).await?,
        PowerOp::ShutdownGraceful { .. } => {}
    }
    remember(core, vm, request.request.as_ref()).await?;
    core.look(vm).await.map(drop)
}

/// Starts a domain that is off, or lets one go on that is paused.
pub(crate) async fn switch_on(core: &Arc<Core>, session: &Session, vm: &Arc<Vm>) -> Result<()> {
    let domain = Domain::of(vm.uuid);
    match vm.state().power {
        PowerState::On => Ok(()),
        PowerState::Suspended => Ok(session.resume(&domain).await?),
        PowerState::Off | PowerState::Unknown => {
            reconfigure::fit_disks(core, session, vm).await?;
            match session.start_domain(&domain).await {
                // Somebody was faster.
                Err(error) if error.is(code::OPERATION_INVALID) => {
                    came_up(core, vm, error.into()).await
                }
                other => Ok(other?),
            }
        }
    }
}

/// Stops the processors of a domain that runs.
async fn pause(session: &Session, vm: &Vm) -> Result<()> {
    match vm.state().power {
        PowerState::Suspended => Ok(()),
        PowerState::On => Ok(session.suspend(&Domain::of(vm.uuid)).await?),
        PowerState::Off | PowerState::Unknown => {
            let message = format!("The VM {} is off; start it before it is paused", vm.uuid);
            Err(errors::precondition(message))
        }
    }
}

async fn came_up(core: &Arc<Core>, vm: &Arc<Vm>, error: ProviderError) -> Result<()> {
    let state = core.look(vm).await?;
    let runs = state.is_some_and(|state| state.power != PowerState::Off);
    if runs { Ok(()) } else { Err(error) }
}

/// A machine with changes that wait for a start is started anew, any other is only reset. The request is written down first:
/// a reset that was lost is better than one that nobody asked for.
async fn reboot(
    core: &Arc<Core>,
    session: &Session,
    vm: &Arc<Vm>,
    request: Option<&RequestId>,
) -> Result<()> {
    let state = vm.state();
    if state.power == PowerState::Off {
        let message = format!(
            "The VM {} is off; start it instead of restarting it",
            vm.uuid
        );
        return Err(errors::precondition(message));
    }
    remember(core, vm, request).await?;
    let domain = Domain::of(vm.uuid);
    if state.restart_required.is_empty() {
        session.reset(&domain).await?;
        if state.power == PowerState::Suspended {
            session.resume(&domain).await?;
        }
    } else {
        remove::stop(session, &domain).await?;
        core.look(vm).await?;
        switch_on(core, session, vm).await?;
    }
    core.look(vm).await.map(drop)
}

/// Asks the guest to shut down and waits until it has. The plug is never pulled here: whoever asked decides what follows.
async fn shut_down(core: &Arc<Core>, vm: &Arc<Vm>, request: Option<&RequestId>) -> Result<()> {
    ask_guest(core, vm).await?;
    remember(core, vm, request).await?;
    loop {
        let changed = vm.changed.notified();
        let off = core
            .look(vm)
            .await?
            .is_none_or(|state| state.power == PowerState::Off);
        if off {
            return Ok(());
        }
        if tokio::time::timeout(ASK_AGAIN, changed).await.is_err() {
            // It may have booted only now, and not have felt the button before.
            ask_guest(core, vm).await?;
        }
    }
}

/// By the agent if it listens, else by the power button.
async fn ask_guest(core: &Arc<Core>, vm: &Arc<Vm>) -> Result<()> {
    let _alone = vm.change.lock().await;
    must_be_whole(vm)?;
    let session = core.session().await?;
    let domain = Domain::of(vm.uuid);
    let Some(live) = vm.live() else { return Ok(()) };
    if live.agent == Some(true) && session.shutdown(&domain, flags::BY_AGENT).await.is_ok() {
        return Ok(());
    }
    match session.shutdown(&domain, flags::BY_BUTTON).await {
        Err(error) if error.is(code::OPERATION_INVALID) => Ok(()),
        other => Ok(other?),
    }
}

fn too_late() -> ProviderError {
    let message = "The guest has not shut down in time; switch it off, or wait and ask again";
    ProviderError::new(ErrorKind::Timeout, message)
}

/// Writes the request down with the domain.
pub(crate) async fn remember(
    core: &Arc<Core>,
    vm: &Arc<Vm>,
    request: Option<&RequestId>,
) -> Result<()> {
    let Some(request) = request.filter(|_| !served(vm, request)) else {
        return Ok(());
    };
    let mut marks = vm.config()?.marks.unwrap_or_default();
    marks.request = Some(request.clone());
    set_marks(core, vm.uuid, &marks, flags::CONFIG).await?;
    core.look(vm).await.map(drop)
}
