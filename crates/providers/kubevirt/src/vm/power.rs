//! On, off, and once more.
//!
//! A VirtualMachine runs because its `runStrategy` says so; that field is ours. How long the guest may take to end is said
//! by the subresource `stop`, where the cluster serves it.

use std::time::Duration;

use kube::core::DynamicObject;
use polyvirt_contract::model::{PowerOp, PowerRequest, VmRef};
use polyvirt_contract::{ErrorKind, RequestId, Result, TaskId};
use serde_json::json;

use crate::errors;
use crate::facts::has_condition;
use crate::kinds::{Kind, LAST_REQUEST, RESTART, VmKey, annotation, text};
use crate::map::to_kubevirt::Run;
use crate::subresource::{self, Asked};
use crate::vm::Core;

/// How often a change is tried against somebody who changes the VM at the same time.
const ATTEMPTS: usize = 5;

/// Changes the power state; a VM already there is a success.
pub(crate) async fn power(
    core: &Core,
    vm: &VmRef,
    request: PowerRequest,
) -> Result<Option<TaskId>> {
    let mut answer = Ok(());
    for _ in 0..ATTEMPTS {
        let (key, found) = core.allowed(vm).await?;
        answer = once(core, &key, found, &request).await;
        match &answer {
            Err(error) if error.kind == ErrorKind::Precondition => {}
            _ => break,
        }
    }
    answer.map(|()| None)
}

async fn once(core: &Core, key: &VmKey, vm: DynamicObject, request: &PowerRequest) -> Result<()> {
    let served = request.request.as_ref().map(RequestId::as_str);
    if served.is_some() && served == annotation(&vm, LAST_REQUEST) {
        return Ok(());
    }
    if vm.metadata.deletion_timestamp.is_some() {
        let message = format!("The VM {key} is being deleted");
        return Err(errors::precondition(message));
    }
    let vm = match request.op {
        PowerOp::On => on(core, key, vm).await?,
        PowerOp::Off => off(core, key, vm, Duration::ZERO).await?,
        PowerOp::ShutdownGraceful { timeout } => off(core, key, vm, timeout).await?,
        PowerOp::Reboot => restart(core, key, vm, served).await?,
        PowerOp::Pause => pause(core, key, vm).await?,
    };
    match served {
        Some(id) => carried_out(core, &vm, id).await,
        None => Ok(()),
    }
}

/// Starts the machine, or lets one go on that is paused.
async fn on(core: &Core, key: &VmKey, vm: DynamicObject) -> Result<DynamicObject> {
    if is_paused(core.cluster.get(Kind::Vmi, key).await?.as_ref()) {
        subresource::ask(core, key, Asked::Unpause).await?;
    }
    set(core, vm, &Run::Always).await
}

/// Stops the processors of a machine that runs.
async fn pause(core: &Core, key: &VmKey, vm: DynamicObject) -> Result<DynamicObject> {
    let instance = core.cluster.get(Kind::Vmi, key).await?;
    let runs = |instance: &DynamicObject| text(&instance.data, "/status/phase") == "Running";
    if !instance.as_ref().is_some_and(runs) {
        let message = format!("The VM {key} does not run and cannot be paused; start it first");
        return Err(errors::precondition(message));
    }
    if !is_paused(instance.as_ref()) {
        subresource::ask(core, key, Asked::Pause).await?;
    }
    Ok(vm)
}

fn is_paused(instance: Option<&DynamicObject>) -> bool {
    instance.is_some_and(|instance| has_condition(&instance.data, "Paused"))
}

/// Writes the strategy unless it is so.
async fn set(core: &Core, vm: DynamicObject, run: &Run) -> Result<DynamicObject> {
    let strategy = text(&vm.data, "/spec/runStrategy");
    let old_form = vm.data.pointer("/spec/running").is_some();
    if strategy == run.word() && !old_form {
        return Ok(vm);
    }
    let mut change = json!({"spec": {"runStrategy": run.word()}});
    if old_form {
        // KubeVirt takes one of the two only.
        change["spec"]["running"] = json!(null);
    }
    core.cluster.patch(Kind::Vm, &vm, change).await
}

/// Stops the machine; the guest may take so long to end by itself.
async fn off(
    core: &Core,
    key: &VmKey,
    vm: DynamicObject,
    grace: Duration,
) -> Result<DynamicObject> {
    if core.cluster.get(Kind::Vmi, key).await?.is_some() {
        subresource::stop(core, key, grace).await?;
    }
    // The request above has changed the VM, and perhaps not only that.
    let fresh = core.cluster.get(Kind::Vm, key).await?.unwrap_or(vm);
    set(core, fresh, &Run::Halted).await
}

/// Stops the machine for work on its disks.
pub(crate) async fn halt(core: &Core, vm: &VmRef) -> Result<()> {
    let timeout = Duration::from_mins(2);
    let op = PowerOp::ShutdownGraceful { timeout };
    power(core, vm, op.into()).await.map(drop)
}

/// Deletes the instance; KubeVirt makes another one. Which one was deleted is written down before, so that a request which
/// is sent again does not delete the next.
async fn restart(
    core: &Core,
    key: &VmKey,
    vm: DynamicObject,
    request: Option<&str>,
) -> Result<DynamicObject> {
    let vm = set(core, vm, &Run::Always).await?;
    let Some(instance) = core.cluster.get(Kind::Vmi, key).await? else {
        return Ok(vm);
    };
    let uid = instance.metadata.uid.clone().unwrap_or_default();
    let Some(request) = request else {
        core.cluster.delete(Kind::Vmi, &instance).await?;
        return Ok(vm);
    };
    let begun = annotation(&vm, RESTART).and_then(|text| text.split_once(' '));
    let vm = match begun {
        Some((id, _)) if id == request => vm.clone(),
        _ => note(core, &vm, RESTART, &format!("{request} {uid}")).await?,
    };
    let meant = annotation(&vm, RESTART).and_then(|text| text.split_once(' '));
    if meant.is_some_and(|(_, meant)| meant == uid) {
        core.cluster.delete(Kind::Vmi, &instance).await?;
    }
    Ok(vm)
}

/// Writes down that a request was carried out. KubeVirt writes to the VM at such moments, and that takes nothing back.
pub(crate) async fn carried_out(core: &Core, vm: &DynamicObject, request: &str) -> Result<()> {
    let cluster = &core.cluster;
    cluster.annotate(Kind::Vm, vm, LAST_REQUEST, request).await
}

/// Writes down an annotation, if nobody has changed the VM since it was read.
async fn note(core: &Core, vm: &DynamicObject, key: &str, value: &str) -> Result<DynamicObject> {
    let change = json!({"metadata": {"annotations": {key: value}}});
    core.cluster.patch(Kind::Vm, vm, change).await
}
