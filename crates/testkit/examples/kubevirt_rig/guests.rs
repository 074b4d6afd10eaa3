//! Instances, as virt-handler and virt-launcher treat them; no guest boots.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use crate::world::{GUEST, POD, STEP, World, is_leaving, list, now, text};
use crate::{cards, moves, pods};

/// The label of a pod that says whose it is.
const CREATED_BY: &str = "kubevirt.io/created-by";

pub async fn pass(world: Arc<World>, guest: Arc<DynamicObject>) -> kube::Result<Action> {
    match text(&guest, "/status/phase") {
        "Scheduled" | "Running" if is_leaving(&guest) => {
            tokio::time::sleep(STEP).await;
            stop(&world, &guest).await?;
        }
        "Scheduled" => {
            tokio::time::sleep(STEP).await;
            let change = json!({"status": up(&guest)});
            world.change(GUEST, &guest, change).await?;
        }
        "Running" => {
            if let Some(change) = moves::settle(&guest).or_else(|| settle(&guest)) {
                tokio::time::sleep(STEP).await;
                world.change(GUEST, &guest, change).await?;
            } else {
                end_pods(&world, &guest, Ended::Elsewhere).await?;
            }
        }
        "Succeeded" | "Failed" => end_pods(&world, &guest, Ended::Everywhere).await?,
        _ => {}
    }
    Ok(Action::await_change())
}

async fn stop(world: &World, guest: &DynamicObject) -> kube::Result<()> {
    let times = reached(guest, "Succeeded");
    let change = json!({"status": {"phase": "Succeeded", "phaseTransitionTimestamps": times}});
    world.change(GUEST, guest, change).await
}

/// When it came to each phase. virt-controller takes a guest of which nobody says that it ran for one that failed to start, and
/// waits before it starts the next.
fn reached(guest: &DynamicObject, phase: &str) -> Vec<Value> {
    let mut all = list(guest, "/status/phaseTransitionTimestamps");
    all.push(json!({"phase": phase, "phaseTransitionTimestamp": now()}));
    all
}

/// Where the pods of a guest have nothing left to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// On the node that it has left.
    Elsewhere,
    Everywhere,
}

async fn end_pods(world: &World, guest: &DynamicObject, ended: Ended) -> kube::Result<()> {
    if ended == Ended::Elsewhere && !moves::has_left(guest) {
        return Ok(());
    }
    for pod in pods_of(world, guest).await? {
        let is_over = ended == Ended::Everywhere || moves::is_source(guest, &pod);
        let runs = text(&pod, "/status/phase") == "Running" && !is_leaving(&pod);
        if is_over && runs {
            pods::finish(world, &pod).await?;
        }
    }
    Ok(())
}

async fn pods_of(world: &World, guest: &DynamicObject) -> kube::Result<Vec<DynamicObject>> {
    let labels = format!("{CREATED_BY}={}", guest.uid().unwrap_or_default());
    let wanted = ListParams::default().labels(&labels);
    let found = world.beside(POD, guest).list(&wanted).await?;
    Ok(found.items.into_iter().filter(pods::is_launcher).collect())
}

/// Whether the guest of a pod that is told to end is down; if it is not, it goes down.
pub async fn is_down(world: &World, pod: &DynamicObject) -> kube::Result<bool> {
    let name = pod.annotations().get("kubevirt.io/domain");
    let Some(name) = name.map(String::as_str) else {
        return Ok(true);
    };
    let Some(guest) = world.beside(GUEST, pod).get_opt(name).await? else {
        return Ok(true);
    };
    let is_its = pod.labels().get(CREATED_BY) == guest.uid().as_ref();
    let is_here = text(pod, "/spec/nodeName") == text(&guest, "/status/nodeName");
    let runs = matches!(text(&guest, "/status/phase"), "Scheduled" | "Running");
    if !(is_its && is_here && runs) {
        return Ok(true);
    }
    stop(world, &guest).await?;
    Ok(false)
}

/// What a guest says of itself when it is up.
fn up(guest: &DynamicObject) -> Value {
    let mut status = sizes(guest);
    let yes = ["LiveMigratable", "StorageLiveMigratable", "AgentConnected"];
    let told = json!({
        "phase": "Running",
        "phaseTransitionTimestamps": reached(guest, "Running"),
        "machine": {"type": text(guest, "/spec/domain/machine/type")},
        "migrationMethod": "LiveMigration",
        "selinuxContext": "none",
        "interfaces": cards::settled(guest),
        "volumeStatus": volumes(guest),
        "guestOSInfo": {"prettyName": "Simulated Linux", "name": "Simulated", "kernelRelease": "6.1.0-sim"},
        "conditions": with(guest, &yes),
    });
    json_patch::merge(&mut status, &told);
    status["memory"]["guestAtBoot"] = status["memory"]["guestCurrent"].clone();
    status
}

/// What a guest says of its size.
pub fn sizes(guest: &DynamicObject) -> Value {
    let cpu = guest.data.pointer("/spec/domain/cpu");
    let part = |name: &str| cpu.and_then(|cpu| cpu.get(name)).cloned();
    let one = || json!(1);
    let memory = guest.data.pointer("/spec/domain/memory/guest");
    json!({
        "currentCPUTopology": {
            "sockets": part("sockets").unwrap_or_else(one),
            "cores": part("cores").unwrap_or_else(one),
            "threads": part("threads").unwrap_or_else(one),
        },
        "memory": {"guestCurrent": memory, "guestRequested": memory},
    })
}

/// The conditions, with these.
pub fn with(guest: &DynamicObject, kinds: &[&str]) -> Vec<Value> {
    let mut all = without(guest, kinds);
    for kind in kinds {
        all.push(json!({
            "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now(),
        }));
    }
    all
}

/// The conditions, without these.
pub fn without(guest: &DynamicObject, kinds: &[&str]) -> Vec<Value> {
    let all = list(guest, "/status/conditions").into_iter();
    all.filter(|condition| !kinds.iter().any(|kind| condition["type"] == *kind))
        .collect()
}

/// What comes next for disks and cards that come and go; `None` if all is as it should be.
fn settle(guest: &DynamicObject) -> Option<Value> {
    let (volumes, cards) = (volumes(guest), cards::settled(guest));
    let same = volumes == list(guest, "/status/volumeStatus")
        && cards == list(guest, "/status/interfaces");
    (!same).then(|| json!({"status": {"volumeStatus": volumes, "interfaces": cards}}))
}

/// The states of the volumes, each a step further.
fn volumes(guest: &DynamicObject) -> Vec<Value> {
    let spec = list(guest, "/spec/volumes");
    let wanted = |name: &Value| spec.iter().any(|volume| volume["name"] == *name);
    let mut all = list(guest, "/status/volumeStatus");
    for (place, volume) in all.iter_mut().enumerate() {
        if volume.get("hotplugVolume").is_some() {
            hot(volume, wanted(&volume["name"]), place);
        } else if volume.get("target").is_none() {
            volume["target"] = json!(device("vd", place));
        }
    }
    all
}

fn hot(volume: &mut Value, wanted: bool, place: usize) {
    let name = volume["name"].as_str().unwrap_or_default().to_owned();
    let phase = volume["phase"].as_str().unwrap_or_default();
    let (phase, reason, message) = match (phase, wanted) {
        ("AttachedToNode", true) => (
            "MountedToPod",
            "VolumeMountedToPod",
            format!("Volume {name} has been mounted in virt-launcher pod"),
        ),
        ("MountedToPod", true) => (
            "Ready",
            "VolumeReady",
            format!("Successfully attach hotplugged volume {name} to VM"),
        ),
        ("AttachedToNode" | "MountedToPod" | "Ready", false) => (
            "UnMountedFromPod",
            "VolumeUnMountedFromPod",
            format!("Volume {name} has been unmounted from virt-launcher pod"),
        ),
        _ => return,
    };
    let target = if phase == "Ready" {
        device("sd", place)
    } else {
        String::new()
    };
    volume["phase"] = json!(phase);
    volume["reason"] = json!(reason);
    volume["message"] = json!(message);
    volume["target"] = json!(target);
}

fn device(bus: &str, place: usize) -> String {
    let letter = u8::try_from(place % 26).unwrap_or(0) + b'a';
    format!("{bus}{}", char::from(letter))
}

/// An address that whoever has this identity keeps.
pub fn address(identity: &str, card: usize) -> String {
    let mut hasher = DefaultHasher::new();
    (identity, card).hash(&mut hasher);
    let [a, b, c, ..] = hasher.finish().to_le_bytes();
    format!("10.{a}.{b}.{c}")
}
