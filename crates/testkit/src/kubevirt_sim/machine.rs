//! VirtualMachines, as virt-controller treats them.

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use super::cluster::{Kind, World};
use super::{FAULT, cards, hot};

const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// KubeVirt's own finalizer of instances.
pub(super) const INSTANCE_FINALIZER: &str = "foregroundDeleteVirtualMachine";
pub(super) const TEMPLATE: &str = "/spec/template/spec";

/// Whether its volumes can be used.
enum Volumes {
    Ready,
    Filling,
    Missing(String),
    Broken(String),
}

pub(super) async fn pass(world: &World, vm: &DynamicObject) -> kube::Result<Action> {
    let instance = world.beside(Kind::Vmi, vm, &vm.name_any()).await?;
    if vm.metadata.deletion_timestamp.is_some() {
        return end(world, vm, instance.as_ref()).await;
    }
    if !vm.finalizers().iter().any(|name| name == FINALIZER) {
        world.hold(Kind::Vm, vm, FINALIZER).await?;
        return Ok(Action::await_change());
    }
    let volumes = volumes(world, vm).await?;
    match (&instance, wants_to_run(vm)) {
        (None, true) if matches!(volumes, Volumes::Ready) => {
            world.create(Kind::Vmi, &new_instance(vm)).await?;
        }
        (Some(running), false) if running.metadata.deletion_timestamp.is_none() => {
            world.delete(Kind::Vmi, running).await?;
        }
        (Some(running), true) => hot::bring(world, vm, running).await?,
        (None, false) => cards::strike(world, vm, &[]).await?,
        _ => {}
    }
    let status = status(vm, instance.as_ref(), &volumes);
    world.tell(Kind::Vm, vm, &status).await?;
    Ok(match volumes {
        Volumes::Ready => Action::await_change(),
        _ => Action::requeue(world.step * 2),
    })
}

fn wants_to_run(vm: &DynamicObject) -> bool {
    let strategy = vm.data.pointer("/spec/runStrategy").and_then(Value::as_str);
    matches!(strategy, Some("Always" | "RerunOnFailure" | "Once"))
}

async fn end(
    world: &World,
    vm: &DynamicObject,
    instance: Option<&DynamicObject>,
) -> kube::Result<Action> {
    match instance {
        Some(instance) => world.delete(Kind::Vmi, instance).await?,
        None => world.release(Kind::Vm, vm, FINALIZER).await?,
    }
    Ok(Action::await_change())
}

async fn volumes(world: &World, vm: &DynamicObject) -> kube::Result<Volumes> {
    let all = vm.data.pointer(&format!("{TEMPLATE}/volumes"));
    for volume in all.and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = volume.pointer("/dataVolume/name").and_then(Value::as_str) {
            let found = world.beside(Kind::DataVolume, vm, name).await?;
            let phase = found.as_ref().and_then(|v| v.data.pointer("/status/phase"));
            match phase.and_then(Value::as_str) {
                Some("Succeeded") => {}
                Some("Failed") => return Ok(Volumes::Broken(name.to_owned())),
                _ => return Ok(Volumes::Filling),
            }
        }
        let claim = volume.pointer("/persistentVolumeClaim/claimName");
        if let Some(name) = claim.and_then(Value::as_str)
            && world.beside(Kind::Claim, vm, name).await?.is_none()
        {
            return Ok(Volumes::Missing(name.to_owned()));
        }
    }
    Ok(Volumes::Ready)
}

fn new_instance(vm: &DynamicObject) -> Value {
    let labels = vm.data.pointer("/spec/template/metadata/labels");
    let fault = vm.annotations().get(FAULT);
    let annotations = fault.map_or_else(|| json!({}), |fault| json!({FAULT: fault}));
    json!({
        "apiVersion": Kind::Vmi.api_version(),
        "kind": Kind::Vmi.name(),
        "metadata": {
            "name": vm.name_any(),
            "namespace": vm.namespace(),
            "labels": labels.cloned().unwrap_or_else(|| json!({})),
            "annotations": annotations,
            "finalizers": [INSTANCE_FINALIZER],
            "ownerReferences": [{
                "apiVersion": Kind::Vm.api_version(),
                "kind": Kind::Vm.name(),
                "name": vm.name_any(),
                "uid": vm.uid(),
                "controller": true,
            }],
        },
        "spec": vm.data.pointer(TEMPLATE).cloned().unwrap_or_default(),
    })
}

pub(super) fn list(data: &Value, pointer: &str) -> Vec<Value> {
    let found = data.pointer(pointer).and_then(Value::as_array);
    found.cloned().unwrap_or_default()
}

/// What the running machine does not have and cannot get. Disks that call themselves hotpluggable are not looked at.
pub(super) fn needs_restart(vm: &DynamicObject, instance: &DynamicObject) -> bool {
    let both = |path: &str| {
        let wanted = vm.data.pointer(&format!("{TEMPLATE}{path}"));
        (wanted, instance.data.pointer(&format!("/spec{path}")))
    };
    let differs = |path: &&str| {
        let (wanted, has) = both(path);
        wanted != has
    };
    let fixed = ["/domain/cpu/cores", "/domain/firmware"];
    let sizes = ["/domain/cpu/sockets", "/domain/memory/guest"];
    let shrinks = |path: &&str| {
        let (wanted, has) = both(path);
        differs(path) && !wanted.is_some_and(|wanted| hot::grows(has, wanted))
    };
    let cold = |volumes: Vec<Value>| -> Vec<Value> {
        let all = volumes.iter().filter(|volume| !hot::is_hot(volume));
        all.map(|volume| volume["name"].clone()).collect()
    };
    let wanted = cold(list(&vm.data, &format!("{TEMPLATE}/volumes")));
    let has = cold(list(&instance.data, "/spec/volumes"));
    let changed = fixed.iter().any(differs) || sizes.iter().any(shrinks);
    changed || wanted != has || cards::need_restart(vm, instance)
}

fn status(vm: &DynamicObject, instance: Option<&DynamicObject>, volumes: &Volumes) -> Value {
    let phase = instance.and_then(|i| i.data.pointer("/status/phase")?.as_str());
    let leaving = instance.is_some_and(|i| i.metadata.deletion_timestamp.is_some());
    let paused = instance.is_some_and(|i| has_condition(&i.data, "Paused"));
    let unschedulable = vm
        .annotations()
        .get(FAULT)
        .is_some_and(|f| f == "Unschedulable");
    let printable = match (volumes, phase, leaving) {
        (_, _, true) => "Stopping",
        (_, Some("Running"), _) if paused => "Paused",
        (_, Some("Running"), _) => "Running",
        (Volumes::Broken(_), ..) => "DataVolumeError",
        (Volumes::Missing(_), ..) if wants_to_run(vm) => "ErrorPvcNotFound",
        (Volumes::Filling, ..) => "Provisioning",
        (_, Some(_), _) if unschedulable => "ErrorUnschedulable",
        (_, Some(_), _) => "Starting",
        (_, None, _) if wants_to_run(vm) => "Starting",
        _ => "Stopped",
    };
    let ready = printable == "Running";
    let mut status = json!({
        "printableStatus": printable,
        "created": instance.is_some(),
        "ready": ready,
        "runStrategy": vm.data.pointer("/spec/runStrategy"),
        "conditions": conditions(vm, instance, volumes, unschedulable),
    });
    let generation = instance.map_or_else(
        || vm.data.pointer("/status/desiredGeneration").cloned(),
        |_| Some(json!(vm.metadata.generation)),
    );
    if let Some(generation) = generation {
        status["desiredGeneration"] = generation;
    }
    status
}

fn has_condition(data: &Value, kind: &str) -> bool {
    let all = list(data, "/status/conditions");
    all.iter()
        .any(|c| c["type"] == kind && c["status"] == "True")
}

fn conditions(
    vm: &DynamicObject,
    instance: Option<&DynamicObject>,
    volumes: &Volumes,
    unschedulable: bool,
) -> Value {
    let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "message": message});
    let running =
        instance.is_some_and(|i| i.data.pointer("/status/phase") == Some(&json!("Running")));
    let mut found = vec![match (running, volumes) {
        (true, _) => condition("Ready", "True", ""),
        (false, Volumes::Broken(name)) => {
            condition("Ready", "False", &format!("the import of {name} failed"))
        }
        (false, Volumes::Missing(name)) => {
            condition("Ready", "False", &format!("PVC {name} does not exist"))
        }
        (false, _) => condition("Ready", "False", "VMI does not run"),
    }];
    if unschedulable && instance.is_some() && !running {
        let message = "0/2 nodes are available: 2 Insufficient memory.";
        found.push(condition("PodScheduled", "False", message));
    }
    if instance.is_some_and(|instance| needs_restart(vm, instance)) {
        let message = "a non-live-updatable field was changed in the template spec";
        found.push(condition("RestartRequired", "True", message));
    }
    Value::Array(found)
}
