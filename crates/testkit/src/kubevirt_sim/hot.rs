//! What changes while a machine runs, as virt-controller and virt-handler change it.

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::cluster::{HotPlug, Kind, World};
use super::machine::{TEMPLATE, list, needs_restart};
use super::{FAULT, cards, seats};

/// Where a machine names its disks.
pub(super) const DISKS: &str = "/spec/domain/devices/disks";
/// A machine with less gets no more while it runs.
const LEAST_MEMORY: u64 = 1 << 30;
/// Conditions of a machine that gets something by a move to another node, and where the VirtualMachine says what.
const BY_MOVE: [(&str, &str); 2] = [
    ("HotVCPUChange", "/domain/cpu/sockets"),
    ("HotMemoryChange", "/domain/memory/guest"),
];

/// Brings to the machine what can be brought to it.
pub(super) async fn bring(
    world: &World,
    vm: &DynamicObject,
    instance: &DynamicObject,
) -> kube::Result<()> {
    plug_in(world, vm, instance).await?;
    cards::bring(world, vm, instance).await?;
    seats::bring(world, vm, instance).await?;
    if needs_restart(vm, instance) {
        return Ok(());
    }
    resize(world, vm, instance).await
}

/// Disks that say so come and go as the VirtualMachine says, if KubeVirt is told to see to it.
async fn plug_in(world: &World, vm: &DynamicObject, instance: &DynamicObject) -> kube::Result<()> {
    let wanted = list(&vm.data, &format!("{TEMPLATE}/volumes"));
    let has = list(&instance.data, "/spec/volumes");
    let missing = wanted.iter().filter(|volume| is_hot(volume));
    let missing = missing.filter(|volume| !has.contains(volume));
    let missing: Vec<Value> = missing.cloned().collect();
    let stays = |volume: &&Value| !is_hot(volume) || wanted.contains(volume);
    let kept: Vec<Value> = has.iter().filter(stays).cloned().collect();
    let same = missing.is_empty() && kept.len() == has.len();
    if same || world.hot_plug().await? != HotPlug::Declared {
        return Ok(());
    }
    let volumes: Vec<Value> = kept.into_iter().chain(missing).collect();
    let known = [
        list(&instance.data, DISKS),
        list(&vm.data, &format!("{TEMPLATE}/domain/devices/disks")),
    ];
    let known = known.concat();
    let disk = |volume: &Value| known.iter().find(|disk| disk["name"] == volume["name"]);
    let disks: Vec<&Value> = volumes.iter().filter_map(disk).collect();
    let change = json!({"spec": {
        "volumes": volumes,
        "domain": {"devices": {"disks": disks}},
    }});
    world.change(Kind::Vmi, instance, &change).await
}

pub(super) fn is_hot(volume: &Value) -> bool {
    let flags = [
        "/persistentVolumeClaim/hotpluggable",
        "/dataVolume/hotpluggable",
    ];
    flags
        .iter()
        .any(|flag| volume.pointer(flag) == Some(&json!(true)))
}

/// What is told of disks that came while the machine ran, when each is a step further; `None` if nothing changes. Where pods have
/// no token of an account KubeVirt makes the pod that holds a disk over and over, and the disk never comes.
pub(super) fn plugged(instance: &DynamicObject) -> Option<Value> {
    let fault = instance.annotations().get(FAULT).map(String::as_str);
    let told = list(&instance.data, "/status/volumeStatus");
    let wanted = list(&instance.data, "/spec/volumes");
    let state = |volume: &Value| {
        let known = told.iter().find(|known| known["name"] == volume["name"]);
        let (phase, message) = match known.map(|known| &known["phase"]) {
            None => ("Bound", "PVC is in phase Bound"),
            Some(_) if fault == Some("Tokenless") => ("Bound", "PVC is in phase Bound"),
            Some(_) => ("Ready", "Successfully attach hotplugged volume to VM"),
        };
        json!({"name": volume["name"], "phase": phase, "message": message, "hotplugVolume": {}})
    };
    let becomes: Vec<Value> = wanted.iter().filter(|v| is_hot(v)).map(state).collect();
    (becomes != told).then(|| json!({"status": {"volumeStatus": becomes}}))
}

/// Sockets and memory that grow: the machine is told, and gets them by a move.
async fn resize(world: &World, vm: &DynamicObject, instance: &DynamicObject) -> kube::Result<()> {
    for (condition, path) in BY_MOVE {
        let wanted = vm.data.pointer(&format!("{TEMPLATE}{path}"));
        let has = instance.data.pointer(&format!("/spec{path}"));
        if let Some(wanted) = wanted.filter(|wanted| grows(has, wanted)) {
            let mut change = nested(path, wanted);
            change["status"] = json!({"conditions": with(&instance.data, condition)});
            return world.change_as_read(Kind::Vmi, instance, change).await;
        }
    }
    Ok(())
}

/// The value at that place of a machine.
fn nested(path: &str, value: &Value) -> Value {
    let parts = path.trim_start_matches('/').rsplit('/');
    let inner = parts.fold(value.clone(), |inner, part| json!({part: inner}));
    json!({"spec": inner})
}

/// Whether a number of sockets, or an amount of memory, becomes bigger in a way that KubeVirt knows: not beyond four times as
/// much, and no memory for a machine that has little.
pub(super) fn grows(has: Option<&Value>, wanted: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::String(text) => quantity(text).filter(|bytes| *bytes >= LEAST_MEMORY),
        value => value.as_u64(),
    };
    match (has.and_then(number), number(wanted)) {
        (Some(has), Some(wanted)) => wanted > has && wanted <= has * 4,
        _ => false,
    }
}

fn quantity(text: &str) -> Option<u64> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];
    let found = units
        .iter()
        .find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, *bits)));
    let (number, bits) = found.unwrap_or((text, 0));
    Some(number.parse::<u64>().ok()? << bits)
}

/// The conditions, with this one.
pub(super) fn with(data: &Value, kind: &str) -> Vec<Value> {
    let mut all = without(data, kind);
    all.push(
        json!({"type": kind, "status": "True", "lastTransitionTime": null, "lastProbeTime": null}),
    );
    all
}

/// The conditions, without this one.
pub(super) fn without(data: &Value, kind: &str) -> Vec<Value> {
    let all = list(data, "/status/conditions").into_iter();
    all.filter(|condition| condition["type"] != kind).collect()
}

/// The machine that has what it waited for; `None` if it waits for nothing, or cannot be moved.
pub(super) fn moved(instance: &DynamicObject) -> Option<Value> {
    let fault = instance.annotations().get(FAULT);
    let waits = |data: &Value| {
        let all = list(data, "/status/conditions");
        let open = |(kind, _): &(&str, &str)| all.iter().any(|c| c["type"] == *kind);
        BY_MOVE.iter().any(open)
    };
    if !waits(&instance.data) || fault.is_some_and(|fault| fault == "Immovable") {
        return None;
    }
    let conditions = list(&instance.data, "/status/conditions").into_iter();
    let over = |c: &Value| !BY_MOVE.iter().any(|(kind, _)| c["type"] == *kind);
    let mut status = sizes(instance);
    status["conditions"] = Value::Array(conditions.filter(over).collect());
    Some(json!({"status": status}))
}

/// What a machine says of its size.
pub(super) fn sizes(instance: &DynamicObject) -> Value {
    let cpu = instance.data.pointer("/spec/domain/cpu");
    let part = |name: &str| cpu.and_then(|cpu| cpu.get(name)).cloned();
    let one = || json!(1);
    let guest = instance.data.pointer("/spec/domain/memory/guest");
    json!({
        "currentCPUTopology": {
            "sockets": part("sockets").unwrap_or_else(one),
            "cores": part("cores").unwrap_or_else(one),
            "threads": part("threads").unwrap_or_else(one),
        },
        "memory": {"guestCurrent": guest, "guestRequested": guest},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_seen() {
        for (has, wanted, bigger) in [
            (json!(2), json!(3), true),
            (json!(3), json!(2), false),
            (json!(2), json!(9), false),
            (json!("1Gi"), json!("1536Mi"), true),
            (json!("1Gi"), json!("1024Mi"), false),
            (json!("512Mi"), json!("1Gi"), false),
        ] {
            assert_eq!(grows(Some(&has), &wanted), bigger, "{has} to {wanted}");
        }
        assert!(!grows(None, &json!(1)));
        assert_eq!(
            nested("/domain/cpu/sockets", &json!(3)),
            json!({"spec": {"domain": {"cpu": {"sockets": 3}}}})
        );
    }
}
