//! A machine that may be at one node only cannot leave it: what KubeVirt is told of a move adds to what the machine says, and
//! never takes the place of it. So the VirtualMachine is freed first, and KubeVirt brings that to the machine.
//!
//! ```text
//!   1 write down that the VM has left its node      changes do not bind it again
//!   2 strike the node from selector and affinity
//!   3 wait for the machine to be free               where KubeVirt keeps changes back for a restart: say so
//! ```
//!
//! Whoever dies in between is asked again, and goes on where the machine or the VirtualMachine is still bound. A move that fails
//! leaves the VM free: it goes on where it is, and may be anywhere after a restart.

use std::time::Duration;

use kube::core::DynamicObject;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::Value;

use crate::errors;
use crate::kinds::{Kind, PLACED, VmKey};
use crate::map::seat::{Seat, bound_to, freed};
use crate::vm::Core;

const TEMPLATE: &str = "/spec/template/spec";
/// How long KubeVirt may take to tell the machine.
const FREED: Duration = Duration::from_secs(15);

/// Lets the machine go from the node that it is bound to, unless that is where it goes.
pub(super) async fn unbind(
    core: &Core,
    key: &VmKey,
    instance: &DynamicObject,
    target: &str,
) -> Result<()> {
    let stays = |spec: &Value| bound_to(spec).is_none_or(|node| node == target);
    let free = |instance: Option<&DynamicObject>| {
        instance.is_none_or(|i| i.data.get("spec").is_none_or(stays))
    };
    if free(Some(instance)) {
        return Ok(());
    }
    let absent = || ProviderError::not_found(format!("The VM {key}"));
    let vm = core.cluster.get(Kind::Vm, key).await?.ok_or_else(absent)?;
    if let Some(template) = vm
        .data
        .pointer(TEMPLATE)
        .filter(|template| !stays(template))
    {
        loosen(core, &vm, template).await?;
    }
    match core.until(Kind::Vmi, key, FREED, free).await {
        Err(error) if error.kind == ErrorKind::Timeout => Err(held(key)),
        answer => answer,
    }
}

async fn loosen(core: &Core, vm: &DynamicObject, template: &Value) -> Result<()> {
    let seat = Seat::read(vm).freed();
    let written = seat.text().unwrap_or_default();
    core.cluster
        .annotate(Kind::Vm, vm, PLACED, &written)
        .await?;
    let (selector, affinity) = freed(template);
    for (field, value) in [("nodeSelector", selector), ("affinity", affinity)] {
        let is = template.get(field);
        if is.is_some_and(|is| *is != value) {
            let pointer = format!("{TEMPLATE}/{field}");
            core.cluster.replace(Kind::Vm, vm, &pointer, &value).await?;
        }
    }
    Ok(())
}

fn held(key: &VmKey) -> ProviderError {
    errors::precondition(format!(
        "The VM {key} was bound to its node when it was started, and KubeVirt brings the change to it with a restart only; restart it, \
         or set vmRolloutStrategy: LiveUpdate in the configuration of KubeVirt, and move it then"
    ))
}
