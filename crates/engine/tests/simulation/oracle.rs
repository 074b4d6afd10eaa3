//! What a VM should be, worked out from the manifests without any code of the engine.

use std::collections::BTreeSet;

use polyvirt_contract::model::{PowerState, VmState};
use serde_json::Value;

use crate::api_server::ApiServer;
use crate::objects;

/// What a manifest asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub power: PowerState,
    pub cpu: u64,
    pub memory_mib: u64,
    pub disks: BTreeSet<(String, u64)>,
    pub cards: BTreeSet<String>,
}

impl Wanted {
    pub fn of(vm: &Value, api: &ApiServer) -> Self {
        let spec = &vm["spec"];
        let shared = api
            .get(&objects::class())
            .map(|class| class["spec"].clone());
        let class = if spec["class"].is_object() {
            spec["class"].clone()
        } else {
            shared.unwrap_or_default()
        };
        let own = &spec["resources"];
        Self {
            power: if matches!(spec["powerState"].as_str(), None | Some("On")) {
                PowerState::On
            } else {
                PowerState::Off
            },
            cpu: own["cpu"].as_u64().or(class["cpu"].as_u64()).unwrap_or(0),
            memory_mib: own["memoryMiB"]
                .as_u64()
                .unwrap_or_else(|| mebibytes(&class["memory"])),
            disks: items(&spec["disks"])
                .map(|d| (text(&d["name"]), d["sizeGiB"].as_u64().unwrap_or(0)))
                .collect(),
            cards: items(&spec["networks"]).map(|n| text(&n["name"])).collect(),
        }
    }

    /// Fields in which the VM differs, in the words of the manifest.
    pub fn differences(&self, vm: &VmState) -> Vec<&'static str> {
        let disks = vm
            .disks
            .iter()
            .flatten()
            .map(|d| (d.name.clone(), u64::from(d.size_gib)))
            .collect();
        let cards = vm.nics.iter().flatten().map(|n| n.name.clone()).collect();
        [
            ("spec.resources.cpu", self.cpu != u64::from(vm.cpu)),
            ("spec.resources.memoryMiB", self.memory_mib != vm.memory_mib),
            ("spec.disks", self.disks != disks),
            ("spec.networks", self.cards != cards),
        ]
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect()
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Manifests of the simulation write memory in Gi only.
fn mebibytes(memory: &Value) -> u64 {
    let number = memory
        .as_str()
        .and_then(|text| text.strip_suffix("Gi")?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}
