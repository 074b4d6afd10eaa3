//! Moving a machine that runs to another node: a VirtualMachineInstanceMigration, which KubeVirt carries out.
//!
//! ```text
//!   Pending ─► Scheduling ─► Scheduled ─► PreparingTarget ─► TargetReady ─► Running ─► Succeeded
//!                                                                               └────► Failed: the machine goes on where it was
//! ```
//!
//! The object is named after the request and the instance that it moves, so a request that is sent again finds its own. Who dies
//! in between is asked again and finds it under way, or done. How it may go is said before, by a [`policy`].

mod policy;
mod tls;
mod unbind;

use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::DynamicObject;
use polyvirt_contract::model::{
    MigrateVm, MigrationMode, MigrationPhase, MigrationProgress, VmRef,
};
use polyvirt_contract::{ErrorKind, ProviderError, RequestId, Result, TaskId};
use polyvirt_provider_kit::tasks::Progress;
use serde_json::json;

use crate::cluster::Others;
use crate::errors;
use crate::kinds::{
    HOSTNAME, IDENTITY, Kind, LAST_REQUEST, MANAGED_BY, MANAGER, VM, VmKey, annotation, label, text,
};
use crate::names;
use crate::snapshot::served;
use crate::vm::{Core, carried_out};

/// How long KubeVirt may take to forget a move that failed.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// How long a move is watched before it is looked at anew. There is no longest time for a move: who has asked for it says when it
/// has been long enough, and cancels it.
const TURN: Duration = Duration::from_mins(10);
/// The pause after a look that failed.
const PAUSE: Duration = Duration::from_secs(2);

/// A move: of which machine, and whereto.
struct Move {
    vm: VmRef,
    key: VmKey,
    place: VmKey,
    target: String,
    /// What selectors know the target by.
    label: String,
    request: Option<RequestId>,
}

/// Moves the machine. One that is there already is moved.
pub(crate) async fn migrate(
    core: &Arc<Core>,
    vm: &VmRef,
    request: MigrateVm,
) -> Result<Option<TaskId>> {
    honour(&request)?;
    let (key, found) = core.allowed(vm).await?;
    let served_before = request.request.as_ref().map(RequestId::as_str);
    if served_before.is_some() && served_before == annotation(&found, LAST_REQUEST) {
        return Ok(None);
    }
    let instance = running(core, &key).await?;
    let node = text(&instance.data, "/status/nodeName");
    if !request.target_host.is_empty() && node == request.target_host {
        finish(core, vm, request.request.as_ref()).await?;
        return Ok(None);
    }
    served(core, Kind::Migration, "moves between nodes").await?;
    if request.encrypted {
        tls::check(core).await?;
    }
    policy::set(core, &key, &found, &request).await?;
    unbind::unbind(core, &key, &instance, &request.target_host).await?;
    let wish = Move {
        vm: vm.clone(),
        place: VmKey::new(&key.namespace, name(&key, &instance, &request)),
        label: hostname(core, &request.target_host).await?,
        target: request.target_host,
        request: request.request,
        key,
    };
    begin(core, &wish, &found).await?;
    let (task, core_of_task) = (wish.place.to_string(), core.clone());
    let begun = core.begin_open(&format!("migrate {task}"), |progress| async move {
        let ended = follow(&core_of_task, &wish, &progress).await;
        // One that is left acts on nothing: the next move writes its own, or takes it away.
        if let Err(error) = policy::lift(&core_of_task, &wish.key).await {
            tracing::warn!(vm = %wish.key, %error, "a MigrationPolicy is left");
        }
        ended
    });
    core.moves.remember(begun.id(), &task);
    begun.answer().await
}

/// Stops a move: KubeVirt does so when its object is deleted.
pub(crate) async fn cancel(core: &Core, vm: &VmRef, request: &RequestId) -> Result<()> {
    let (key, _) = core.allowed(vm).await?;
    let Some(object) = at_work(core, &key, request).await? else {
        return Err(ProviderError::not_found(format!(
            "A move for the request {request}"
        )));
    };
    core.cluster.delete(Kind::Migration, &object).await
}

/// The move that goes on for the request. One of a machine that is gone does not: KubeVirt ends it.
async fn at_work(core: &Core, key: &VmKey, request: &RequestId) -> Result<Option<DynamicObject>> {
    let Some(instance) = core.cluster.get(Kind::Vmi, key).await? else {
        return Ok(None);
    };
    let place = VmKey::new(&key.namespace, name_of(key, &instance, request.as_str()));
    let found = core.cluster.get(Kind::Migration, &place).await?;
    let phase = |object: &DynamicObject| text(&object.data, "/status/phase").to_owned();
    Ok(found.filter(|object| !matches!(phase(object).as_str(), "Succeeded" | "Failed")))
}

/// What KubeVirt cannot do cannot be wished for.
fn honour(request: &MigrateVm) -> Result<()> {
    let refused = |field: &str, why: &str| {
        Err(ProviderError {
            field: Some(field.to_owned()),
            ..ProviderError::new(ErrorKind::Unsupported, why)
        })
    };
    match request {
        MigrateVm {
            mode: MigrationMode::Cold,
            ..
        } => refused(
            "live",
            "KubeVirt moves machines that run; one that is off starts wherever there is room",
        ),
        MigrateVm {
            compression: true, ..
        } => refused(
            "compression",
            "KubeVirt does not compress memory on its way; take the wish away",
        ),
        _ => Ok(()),
    }
}

/// The instance, which must be up.
async fn running(core: &Core, key: &VmKey) -> Result<DynamicObject> {
    let found = core.cluster.get(Kind::Vmi, key).await?;
    let up = found.filter(|instance| text(&instance.data, "/status/phase") == "Running");
    let message =
        format!("The VM {key} does not run, and only a VM that runs can be moved; start it");
    up.ok_or_else(|| errors::precondition(message))
}

/// The label of the node, which need not be its name; who may not see nodes takes it for the same.
async fn hostname(core: &Core, node: &str) -> Result<String> {
    if node.is_empty() {
        return Ok(String::new());
    }
    let one = ListParams::default().fields(&format!("metadata.name={node}"));
    let all = core.cluster.global(Kind::Node);
    let found = match core.cluster.list(Kind::Node, all, &one).await {
        Err(error) if error.kind == ErrorKind::PermissionDenied => None,
        listed => listed?.objects.pop(),
    };
    let told = found.as_ref().and_then(|node| label(node, HOSTNAME));
    Ok(told.unwrap_or(node).to_owned())
}

/// One request for one instance is one name; without a request one place that it leaves.
fn name(key: &VmKey, instance: &DynamicObject, request: &MigrateVm) -> String {
    let node = text(&instance.data, "/status/nodeName");
    match &request.request {
        Some(request) => name_of(key, instance, request.as_str()),
        None => name_of(key, instance, &format!("{node}/{}", request.target_host)),
    }
}

fn name_of(key: &VmKey, instance: &DynamicObject, id: &str) -> String {
    let uid = instance.metadata.uid.as_deref().unwrap_or_default();
    let hash = names::hash(&format!("{uid}/{id}"), 8);
    names::joined(&key.name, &format!("move-{hash}"))
}

/// Makes the object, unless it is there. One that failed is made anew: whoever asks again wants it tried again.
async fn begin(core: &Core, wish: &Move, vm: &DynamicObject) -> Result<()> {
    if let Some(there) = core.cluster.get(Kind::Migration, &wish.place).await? {
        if text(&there.data, "/status/phase") != "Failed" {
            return Ok(());
        }
        core.cluster.delete(Kind::Migration, &there).await?;
        let gone = |object: Option<&DynamicObject>| object.is_none();
        core.until(Kind::Migration, &wish.place, FORGOTTEN, gone)
            .await?;
    }
    let object = object(wish, vm);
    match core
        .cluster
        .apply(Kind::Migration, &object, Others::Respect)
        .await
    {
        Err(error) if error.message.contains("in-flight migration") => {
            Err(errors::precondition(format!(
                "The VM {} is being moved already; it is tried again",
                wish.key
            )))
        }
        answer => answer.map(drop),
    }
}

fn object(wish: &Move, vm: &DynamicObject) -> serde_json::Value {
    let mut object = json!({
        "apiVersion": Kind::Migration.api_version(),
        "kind": Kind::Migration.name(),
        "metadata": {
            "name": wish.place.name,
            "namespace": wish.place.namespace,
            "labels": {MANAGED_BY: MANAGER, IDENTITY: label(vm, IDENTITY)},
            "annotations": {VM: wish.key.name},
        },
        "spec": {"vmiName": wish.key.name},
    });
    if !wish.target.is_empty() {
        object["spec"]["addedNodeSelector"] = json!({HOSTNAME: wish.label});
    }
    object
}

/// Follows the move to its end, and tells how far it is.
async fn follow(core: &Core, wish: &Move, progress: &Progress) -> Result<()> {
    let over = |object: Option<&DynamicObject>| {
        let phase = object.map_or("", |object| text(&object.data, "/status/phase"));
        if let Some(object) = object {
            progress.at(percent(phase));
            core.moves.tell(&wish.place.to_string(), state(object));
        }
        object.is_none() || matches!(phase, "Succeeded" | "Failed")
    };
    while let Err(error) = core.until(Kind::Migration, &wish.place, TURN, &over).await {
        // Who cannot look for a while does not know of an end.
        if !error.kind.is_unanswered() || core.stop.is_cancelled() {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
    let object = core.cluster.get(Kind::Migration, &wish.place).await?;
    let phase = object.as_ref().map(|o| text(&o.data, "/status/phase"));
    match phase {
        Some("Succeeded") => finish(core, &wish.vm, wish.request.as_ref()).await,
        // KubeVirt forgets moves that are over; where the machine is tells how this one ended.
        None if is_there(core, wish).await? => finish(core, &wish.vm, wish.request.as_ref()).await,
        None => Err(stopped(wish)),
        _ => Err(failed(wish, &reason(core, wish, object.as_ref()).await?)),
    }
}

/// Why a move failed. The instance knows first; KubeVirt copies it to the move when that is over.
async fn reason(core: &Core, wish: &Move, object: Option<&DynamicObject>) -> Result<String> {
    let why = |o: &DynamicObject| text(&o.data, "/status/migrationState/failureReason").to_owned();
    let told = object.map(why).unwrap_or_default();
    if !told.is_empty() {
        return Ok(told);
    }
    let uid = object.and_then(|object| object.metadata.uid.clone());
    let instance = core.cluster.get(Kind::Vmi, &wish.key).await?;
    let same = |instance: &DynamicObject| {
        let of = text(&instance.data, "/status/migrationState/migrationUid");
        uid.as_deref() == Some(of)
    };
    Ok(instance.filter(same).as_ref().map(why).unwrap_or_default())
}

async fn is_there(core: &Core, wish: &Move) -> Result<bool> {
    let instance = running(core, &wish.key).await?;
    Ok(!wish.target.is_empty() && text(&instance.data, "/status/nodeName") == wish.target)
}

fn stopped(wish: &Move) -> ProviderError {
    let message = format!(
        "The move of the VM {} was stopped, and it goes on where it was",
        wish.key
    );
    ProviderError::new(ErrorKind::Cancelled, message)
}

fn failed(wish: &Move, why: &str) -> ProviderError {
    let why = if why.is_empty() {
        "KubeVirt does not say why"
    } else {
        why
    };
    errors::internal(format!(
        "The move of the VM {} failed, and it goes on where it was: {why}",
        wish.key
    ))
}

/// Writes down that the request was carried out.
async fn finish(core: &Core, vm: &VmRef, request: Option<&RequestId>) -> Result<()> {
    let Some(request) = request else {
        return Ok(());
    };
    let (_, found) = core.allowed(vm).await?;
    carried_out(core, &found, request.as_str()).await
}

/// KubeVirt tells steps, not bytes.
fn percent(phase: &str) -> u8 {
    match phase {
        "Scheduling" => 5,
        "Scheduled" => 10,
        "PreparingTarget" => 20,
        "TargetReady" => 30,
        "Running" | "Synchronizing" => 40,
        "Succeeded" | "Failed" => 99,
        _ => 0,
    }
}

fn state(object: &DynamicObject) -> MigrationProgress {
    let told =
        |field: &str| text(&object.data, &format!("/status/migrationState/{field}")).to_owned();
    let phase = match (text(&object.data, "/status/phase"), told("mode").as_str()) {
        ("Running", "PostCopy") => MigrationPhase::Fetching,
        ("Running" | "Synchronizing", _) => MigrationPhase::Copying,
        ("Succeeded" | "Failed", _) => MigrationPhase::Finishing,
        _ => MigrationPhase::Preparing,
    };
    MigrationProgress {
        phase,
        source_host: told("sourceNode"),
        target_host: told("targetNode"),
        ..MigrationProgress::default()
    }
}

#[cfg(test)]
mod tests;
