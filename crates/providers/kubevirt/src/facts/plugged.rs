//! Disks of a machine that runs: those that are in it, and those that are on their way.

use serde_json::Value;

use crate::kinds::{items, text};

const VOLUME_STATUS: &str = "/status/volumeStatus";

/// Volumes of the disks that are in the machine.
pub(super) fn disks(data: &Value) -> Vec<String> {
    let coming = coming(data);
    let is_coming = |name: &String| coming.iter().any(|(other, _)| other == name);
    let names = super::disks(data, "/spec")
        .into_iter()
        .map(|(name, _)| name);
    names.filter(|name| !is_coming(name)).collect()
}

/// KubeVirt plugs in a disk by a pod that holds it, and says of each such disk how far it is. One that never gets there stays
/// in the instance's wishes all the same.
pub(super) fn coming(data: &Value) -> Vec<(String, String)> {
    let Some(told) = data.pointer(VOLUME_STATUS).and_then(Value::as_array) else {
        return Vec::new();
    };
    let hot = items(data, "/spec/volumes").iter().filter(|v| is_hot(v));
    let state = |volume: &Value| {
        let name = text(volume, "/name");
        let known = told.iter().find(|known| text(known, "/name") == name);
        let ready = known.is_some_and(|known| text(known, "/phase") == "Ready");
        let said = known.map_or("", |known| text(known, "/message"));
        (!ready).then(|| (name.to_owned(), said.to_owned()))
    };
    hot.filter_map(state).collect()
}

/// Whether a volume calls itself one that is plugged in while the machine runs.
pub(crate) fn is_hot(volume: &Value) -> bool {
    let kinds = ["persistentVolumeClaim", "dataVolume"];
    let flag = |kind: &&str| volume.pointer(&format!("/{kind}/hotpluggable"));
    let mut flags = kinds.iter().filter_map(flag);
    flags.any(|flag| *flag == Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As virt-controller 1.7 tells it.
    #[test]
    fn a_disk_is_there_when_it_is_in_the_machine() {
        let hot = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": true}});
        let disk = |name: &str| json!({"name": name});
        let told = |name: &str, phase: &str| json!({"name": name, "phase": phase, "message": "PVC is in phase Bound", "hotplugVolume": {}});
        let mut instance = json!({"spec": {
            "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}, hot("data"), hot("new")],
            "domain": {"devices": {"disks": [disk("root"), disk("data"), disk("new")]}},
        }});
        let names = |instance: &Value| disks(instance);
        assert_eq!(names(&instance), ["root", "data", "new"], "nothing is told");
        instance["status"]["volumeStatus"] = json!([told("data", "Bound"), told("old", "Ready")]);
        assert_eq!(names(&instance), ["root"]);
        let on_their_way = coming(&instance);
        let words = ("data".to_owned(), "PVC is in phase Bound".to_owned());
        assert_eq!(on_their_way, [words, ("new".to_owned(), String::new())]);
        instance["status"]["volumeStatus"] = json!([told("data", "Ready"), told("new", "Ready")]);
        assert_eq!(names(&instance), ["root", "data", "new"]);
    }
}
