//! Moves between nodes, as virt-controller and virt-handler carry them out.

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use super::cluster::{Kind, World};
use super::{FAULT, seats};

/// Phases, each a step of the simulator after the one before it.
const PHASES: [&str; 6] = [
    "Pending",
    "Scheduling",
    "Scheduled",
    "PreparingTarget",
    "TargetReady",
    "Running",
];

pub(super) async fn pass(world: &World, object: &DynamicObject) -> kube::Result<Action> {
    let phase = object.data.pointer("/status/phase");
    let phase = phase.and_then(Value::as_str).unwrap_or_default();
    let is_over = matches!(phase, "Succeeded" | "Failed");
    if is_over || object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    tokio::time::sleep(world.step).await;
    let vmi = object.data.pointer("/spec/vmiName").and_then(Value::as_str);
    let instance = world
        .beside(Kind::Vmi, object, vmi.unwrap_or_default())
        .await?;
    let Some(instance) = instance else {
        return end(
            world,
            object,
            "Failed",
            json!({"failureReason": "the instance is gone"}),
        )
        .await;
    };
    let source = instance.data.pointer("/status/nodeName");
    let source = source.and_then(Value::as_str).unwrap_or_default();
    let target = seats::target(&instance.data["spec"], asked(object), source);
    let mut state = json!({"sourceNode": source, "targetNode": target, "mode": "PreCopy"});
    obey(world, &instance, &mut state).await?;
    let next = PHASES
        .iter()
        .position(|p| *p == phase)
        .map_or(0, |place| place + 1);
    match PHASES.get(next) {
        // No such node, or the machine may not be there: it is never scheduled.
        Some(_) if phase == "Scheduling" && target.is_none() => Ok(Action::requeue(world.step * 5)),
        Some(next) => end(world, object, next, state).await,
        None if instance
            .annotations()
            .get(FAULT)
            .is_some_and(|f| f == "Immovable") =>
        {
            // The move itself is told of the reason only when it is over.
            let told = state.clone();
            state["failed"] = json!(true);
            state["migrationUid"] = json!(object.uid());
            state["failureReason"] = json!("the machine writes faster than it can be copied");
            let stays = json!({"status": {"migrationState": state}});
            world.change(Kind::Vmi, &instance, &stays).await?;
            end(world, object, "Failed", told).await
        }
        None => {
            state["completed"] = json!(true);
            let moved = json!({"status": {"nodeName": target, "migrationState": state}});
            world.change(Kind::Vmi, &instance, &moved).await?;
            end(world, object, "Succeeded", state).await
        }
    }
}

/// Moves go as the policy says that names the machine by most labels.
async fn obey(world: &World, instance: &DynamicObject, state: &mut Value) -> kube::Result<()> {
    let kind = ["migrations.kubevirt.io", "v1alpha1", "MigrationPolicy"];
    let policies = world.all_of(kind).await?;
    let fits = |policy: &DynamicObject| {
        let selector = policy
            .data
            .pointer("/spec/selectors/virtualMachineInstanceSelector")?
            .as_object()?;
        let has = |(key, value): (&String, &Value)| {
            instance.labels().get(key).map(String::as_str) == value.as_str()
        };
        selector.iter().all(has).then_some(selector.len())
    };
    // What a move before this one went by is forgotten.
    state["migrationPolicyName"] = Value::Null;
    state["migrationConfiguration"] = Value::Null;
    let matching = policies.iter().filter_map(|p| Some((fits(p)?, p)));
    if let Some((_, policy)) = matching.max_by_key(|(labels, _)| *labels) {
        state["migrationPolicyName"] = json!(policy.name_any());
        state["migrationConfiguration"] = policy.data["spec"].clone();
        if let Some(told) = state["migrationConfiguration"].as_object_mut() {
            told.remove("selectors");
        }
    }
    Ok(())
}

async fn end(
    world: &World,
    object: &DynamicObject,
    phase: &str,
    state: Value,
) -> kube::Result<Action> {
    let status = json!({"phase": phase, "migrationState": state});
    world.tell(Kind::Migration, object, &status).await?;
    Ok(Action::await_change())
}

fn asked(object: &DynamicObject) -> Option<&str> {
    let pointer = "/spec/addedNodeSelector/kubernetes.io~1hostname";
    object.data.pointer(pointer).and_then(Value::as_str)
}
