//! VMs of NovaCron, as its README writes them.

mod forms;
mod life;
mod loss;
mod many_providers;
mod moves;
mod trouble;

use std::sync::Arc;

use kube::api::{Patch, PatchParams, ValidationDirective};
use polyvirt_api::infra::{self, PowerState};
use polyvirt_api::novacron::{FINALIZER, VirtualMachine};
use polyvirt_provider_mock::Mock;
use serde_json::{Value, json};

use crate::world::World;

/// Where the README's image is, in tests that do not ask for it.
const CATALOGUE: &str = "polyvirt-image-catalogue";

/// The README's first VM, with a merge patch of its spec.
fn readme(name: &str, patch: Value) -> Value {
    let mut object = json!({
        "apiVersion": "novacron.io/v1alpha1", "kind": "VirtualMachine", "metadata": {"name": name},
        "spec": {"running": true, "template": {"spec": {
            "resources": {"cpu": 2, "memory": "4Gi", "disk": "50Gi"},
            "image": {"source": "marketplace://ubuntu-22.04-lts"},
            "networks": [{"name": "default", "type": "bridge", "ipv4": {"method": "dhcp"}}],
        }}},
    });
    merge(&mut object, &patch);
    object
}

fn merge(into: &mut Value, patch: &Value) {
    match patch {
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| merge(&mut into[name.as_str()], value)),
        other => *into = other.clone(),
    }
}

fn made_of(patch: Value) -> Value {
    json!({"spec": {"template": {"spec": patch}}})
}

/// A namespace with a hypervisor, the catalogue of the chart, and everybody at work.
async fn furnished(topic: &str) -> (World, Arc<Mock>) {
    let mut world = World::empty(topic).await;
    let mock = world.provider("kvm").await;
    catalogue(&world).await;
    world.start(|_| {}).await;
    (world, mock)
}

async fn catalogue(world: &World) {
    let url = "https://cloud-images.ubuntu.com/jammy/current/jammy-server-cloudimg-amd64.img";
    let map = json!({"metadata": {"name": CATALOGUE}, "data": {"ubuntu-22.04-lts": url}});
    let map: k8s_openapi::api::core::v1::ConfigMap = serde_json::from_value(map).unwrap();
    world.apply(map).await;
}

/// As `kubectl apply --server-side --validate=strict` does.
async fn apply(world: &World, object: Value) -> VirtualMachine {
    let params = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("kubectl").force()
    };
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let api = world.api::<VirtualMachine>();
    let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
    applied.unwrap_or_else(|error| panic!("{object}: {error}"))
}

/// As `kubectl patch --type merge` does.
async fn patch(world: &World, name: &str, change: Value) -> VirtualMachine {
    let params = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let api = world.api::<VirtualMachine>();
    let merged = api.patch(name, &params, &Patch::Merge(&change)).await;
    merged.unwrap_or_else(|error| panic!("{change}: {error}"))
}

async fn stands(world: &World, name: &str, phase: &str) -> VirtualMachine {
    let stands = |vm: &VirtualMachine| {
        let status = vm.status.as_ref();
        status.and_then(|s| s.phase.as_deref()) == Some(phase)
    };
    world.until(name, phase, stands).await
}

/// Status and reason of a condition.
fn condition(vm: &VirtualMachine, kind: &str) -> (String, String) {
    let all = vm.status.iter().flat_map(|s| &s.conditions);
    let found = all.into_iter().find(|c| c.type_ == kind);
    let found = found.unwrap_or_else(|| panic!("no {kind} in {vm:?}"));
    (
        found.status.clone(),
        found.reason.clone().unwrap_or_default(),
    )
}

async fn says(world: &World, name: &str, status: &str, reason: &str) -> VirtualMachine {
    let says = |vm: &VirtualMachine| {
        let all = vm.status.iter().flat_map(|s| &s.conditions);
        let mut ready = all.filter(|c| c.type_ == "Ready");
        ready.any(|c| c.status == status && c.reason.as_deref() == Some(reason))
    };
    world.until(name, reason, says).await
}
