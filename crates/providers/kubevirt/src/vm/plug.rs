//! Disks that come and go while the machine runs, and how KubeVirt takes them; and cards that go.
//!
//! | its feature gate          | a disk that the VirtualMachine names                       |
//! |---------------------------|------------------------------------------------------------|
//! | HotplugVolumes            | is plugged in when the instance is asked, and not before   |
//! | DeclarativeHotplugVolumes | is plugged in                                              |
//! | neither                   | comes with the next start                                  |
//!
//! KubeVirt never says of a disk that calls itself hotpluggable that it waits for a restart, so nothing is called so in vain:
//! the instance is asked first, for nothing to be done.

use kube::core::DynamicObject;
use polyvirt_contract::Result;
use serde_json::{Value, json};

use crate::errors;
use crate::facts::is_hot;
use crate::kinds::{Kind, VmKey, items, text};
use crate::map::layout::{Disk, Source};
use crate::map::to_kubevirt::Hot;
use crate::map::unplug::{self, Leaving};
use crate::subresource::{self, Answer};
use crate::version;
use crate::vm::Core;
use crate::vm::create::Plan;

const VOLUMES: &str = "/spec/volumes";
const DISKS: &str = "/spec/domain/devices/disks";
const TEMPLATE: &str = "/spec/template";
/// The first KubeVirt that unplugs cards whatever its feature gates are.
const UNPLUGS_CARDS: (u32, u32) = (1, 4);

/// How a machine gets disks now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It is off.
    Off,
    /// By a request for each.
    Asked,
    /// KubeVirt sees to it.
    Declared,
    /// When it starts again.
    AtRestart,
}

impl Way {
    /// Whether disks that come are called hotpluggable.
    pub(super) const fn hot(self) -> Hot {
        match self {
            Self::Asked | Self::Declared => Hot::Running,
            Self::Off | Self::AtRestart => Hot::Stopped,
        }
    }
}

/// The way of the disks that the plan adds to the VM.
pub(super) async fn way(core: &Core, plan: &Plan, live: &DynamicObject) -> Result<Way> {
    if core.cluster.get(Kind::Vmi, &plan.key).await?.is_none() {
        return Ok(Way::Off);
    }
    let there = items(&live.data, "/spec/template/spec/volumes");
    let is_new = |disk: &&Disk| !there.iter().any(|v| text(v, "/name") == disk.volume);
    let Some(disk) = plan.layout.others.iter().find(is_new) else {
        return Ok(Way::Asked);
    };
    let answer = put(core, &plan.key, "addvolume", &trial(disk)).await?;
    read(&answer).ok_or_else(|| refused(&answer))
}

/// The cards that KubeVirt is told to unplug; the others that the plan does not have wait for a restart.
pub(super) async fn leaving(
    core: &Core,
    plan: &Plan,
    live: &DynamicObject,
) -> Result<Vec<Leaving>> {
    let Some(instance) = core.cluster.get(Kind::Vmi, &plan.key).await? else {
        return Ok(Vec::new());
    };
    let leaving = unplug::leaving(&live.data, &instance.data, &plan.cards);
    if leaving.is_empty() || version::is_at_least(&core.cluster, UNPLUGS_CARDS).await {
        return Ok(leaving);
    }
    Ok(Vec::new())
}

/// What the answer to a trial says; `None` if it says nothing.
fn read(answer: &Answer) -> Option<Way> {
    let Err(status) = answer else {
        return Some(Way::Asked);
    };
    let says = |words: &str| status.message.contains(words);
    match status.code {
        400 if says("is owned by a VM") => Some(Way::Declared),
        409 if says("already exists") => Some(Way::Asked),
        400 | 403 | 404 | 409 | 422 => Some(Way::AtRestart),
        _ => None,
    }
}

fn refused(answer: &Answer) -> polyvirt_contract::ProviderError {
    match answer {
        Err(status) => errors::answered("Plugging in a disk", status),
        Ok(()) => errors::internal("Plugging in a disk"),
    }
}

fn trial(disk: &Disk) -> Value {
    let name = disk.claim.name();
    let source = match disk.source {
        Source::Empty => json!({"persistentVolumeClaim": {"claimName": name}}),
        _ => json!({"dataVolume": {"name": name}}),
    };
    json!({
        "name": disk.volume,
        "disk": {"disk": {"bus": "scsi"}},
        "volumeSource": source,
        "dryRun": ["All"],
    })
}

/// Asks the instance for the disks that the VM names and it lacks, and to let those go that the VM names no more. Safe to do
/// again; what cannot be plugged waits for a restart.
pub(super) async fn plug(core: &Core, vm: &DynamicObject, key: &VmKey) -> Result<()> {
    let Some(instance) = core.cluster.get(Kind::Vmi, key).await? else {
        return Ok(());
    };
    for request in missing(&vm.data, &instance.data) {
        settle(&put(core, key, "addvolume", &request).await?)?;
    }
    for name in left_over(&vm.data, &instance.data) {
        let request = json!({"name": name});
        settle(&put(core, key, "removevolume", &request).await?)?;
    }
    Ok(())
}

/// A refusal is no failure of the change: the disk waits, and its state tells.
fn settle(answer: &Answer) -> Result<()> {
    match read(answer) {
        Some(_) => Ok(()),
        None => Err(refused(answer)),
    }
}

async fn put(core: &Core, key: &VmKey, what: &str, body: &Value) -> Result<Answer> {
    let path = subresource::path("virtualmachineinstances", key, what);
    subresource::put(core, &path, body, "Plugging in a disk").await
}

fn missing(vm: &Value, instance: &Value) -> Vec<Value> {
    let has = items(instance, VOLUMES);
    let named = items(vm, &format!("{TEMPLATE}{VOLUMES}")).iter();
    let disks = items(vm, &format!("{TEMPLATE}{DISKS}"));
    let request = |volume: &Value| {
        let name = text(volume, "/name");
        let disk = disks.iter().find(|disk| text(disk, "/name") == name)?;
        let mut source = volume.clone();
        source.as_object_mut()?.remove("name");
        Some(json!({"name": name, "disk": disk, "volumeSource": source}))
    };
    named
        .filter(|volume| is_hot(volume) && !names(has, text(volume, "/name")))
        .filter_map(request)
        .collect()
}

fn left_over(vm: &Value, instance: &Value) -> Vec<String> {
    let named = items(vm, &format!("{TEMPLATE}{VOLUMES}"));
    let has = items(instance, VOLUMES).iter();
    has.filter(|volume| is_hot(volume) && !names(named, text(volume, "/name")))
        .map(|volume| text(volume, "/name").to_owned())
        .collect()
}

fn names(volumes: &[Value], name: &str) -> bool {
    volumes.iter().any(|volume| text(volume, "/name") == name)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn says(code: u16, text: &str) -> Answer {
        Err(Box::new(Status::failure(text, "").with_code(code)))
    }

    /// The texts are those of KubeVirt 1.7.
    #[test]
    fn the_answer_to_a_trial_says_how_disks_come() {
        let gate =
            "Enable DeclarativeHotplugVolumes or HotplugVolumes feature gate to use this API.";
        let exists = "Unable to add volume [data] because volume with that name already exists";
        for (answer, way) in [
            (Ok(()), Some(Way::Asked)),
            (
                says(400, "VMI team/web is owned by a VM"),
                Some(Way::Declared),
            ),
            (says(409, exists), Some(Way::Asked)),
            (says(409, "VMI is not running"), Some(Way::AtRestart)),
            (says(400, gate), Some(Way::AtRestart)),
            (says(403, "User \"x\" cannot update"), Some(Way::AtRestart)),
            (
                says(404, "could not find the requested resource"),
                Some(Way::AtRestart),
            ),
            (says(503, "starting"), None),
        ] {
            assert_eq!(read(&answer), way, "{answer:?}");
        }
    }

    #[test]
    fn only_disks_that_can_be_plugged_are_asked_for() {
        let hot = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": true}});
        let cold = |name: &str| json!({"name": name, "dataVolume": {"name": name}});
        let disk = |name: &str| json!({"name": name, "disk": {"bus": "scsi"}});
        let vm = json!({"spec": {"template": {"spec": {
            "volumes": [cold("root"), cold("new"), hot("data"), hot("both")],
            "domain": {"devices": {"disks": [disk("root"), disk("new"), disk("data"), disk("both")]}},
        }}}});
        let instance =
            json!({"spec": {"volumes": [cold("root"), hot("both"), hot("gone"), cold("old")]}});
        let wanted = json!({
            "name": "data",
            "disk": {"name": "data", "disk": {"bus": "scsi"}},
            "volumeSource": {"persistentVolumeClaim": {"claimName": "data", "hotpluggable": true}},
        });
        assert_eq!(missing(&vm, &instance), [wanted]);
        assert_eq!(left_over(&vm, &instance), ["gone"]);
    }
}
