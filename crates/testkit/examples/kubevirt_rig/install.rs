//! KubeVirt's own objects, and those of CDI, volume snapshots and Multus, as their operators install them.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Request};
use kube::{Api, ResourceExt as _};
use polyvirt_testkit::kubevirt_sim;
use serde_json::{Value, json};

use crate::programs::{Failure, Program};
use crate::world::World;

/// How long virt-api may take to be there.
const PATIENCE: Duration = Duration::from_secs(120);
const SUBRESOURCES: &str = "/apis/subresources.kubevirt.io";
/// What asks virt-api, and so comes when it is there.
const ASKS: [&str; 3] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
];

/// Installs all kinds. CDI has published no module of its own with its kinds: the simulator's take any field.
pub async fn kinds(world: &World, objects: &[Value], definitions: &Path) -> Result<(), Failure> {
    let mut all = Vec::new();
    for object in objects
        .iter()
        .filter(|o| o["kind"] == "CustomResourceDefinition")
    {
        all.push(serde_json::from_value(object.clone())?);
    }
    for file in std::fs::read_dir(definitions)? {
        let text = std::fs::read_to_string(file?.path())?;
        all.push(serde_saphyr::from_str::<CustomResourceDefinition>(&text)?);
    }
    let simulated = kubevirt_sim::definitions()?;
    all.extend(
        simulated
            .into_iter()
            .filter(|d| d.spec.group == "cdi.kubevirt.io"),
    );
    for (kind, plural) in [("CDI", "cdis"), ("CDIConfig", "cdiconfigs")] {
        all.push(of_cdi(kind, plural)?);
    }
    Ok(polyvirt_testkit::install_crds(&world.client, &all).await?)
}

fn of_cdi(kind: &str, plural: &str) -> Result<CustomResourceDefinition, Failure> {
    let group = "cdi.kubevirt.io";
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_ascii_lowercase()},
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    Ok(serde_json::from_value(definition)?)
}

/// Accounts, roles and certificates.
pub async fn accounts(world: &World, objects: &[Value]) -> Result<(), Failure> {
    let later =
        |kind: &Value| kind == "CustomResourceDefinition" || ASKS.iter().any(|k| kind == *k);
    for object in objects.iter().filter(|object| !later(&object["kind"])) {
        apply(world, object).await?;
    }
    Ok(())
}

/// Has the API server ask virt-api, from the moment that it answers.
pub async fn virt_api(
    world: &World,
    objects: &[Value],
    programs: &mut [Program],
) -> Result<(), Failure> {
    let asks = |object: &&Value| ASKS.iter().any(|kind| object["kind"] == *kind);
    let (last, first): (Vec<&Value>, Vec<&Value>) = objects
        .iter()
        .filter(asks)
        .partition(|object| object["kind"] != "APIService");
    for object in first {
        apply(world, object).await?;
    }
    until_served(world, programs).await?;
    for object in last {
        apply(world, object).await?;
    }
    Ok(())
}

async fn until_served(world: &World, programs: &mut [Program]) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        for program in programs.iter_mut() {
            program.check()?;
        }
        let request = Request::new(SUBRESOURCES).get("v1", &kube::api::GetParams::default())?;
        match world.client.request_text(request).await {
            Ok(_) => return Ok(()),
            Err(error) if begin.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

async fn apply(world: &World, object: &Value) -> Result<(), Failure> {
    let wanted: DynamicObject = serde_json::from_value(object.clone())?;
    let types = wanted.types.clone().ok_or("an object without a kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let client = world.client.clone();
    let api: Api<DynamicObject> = match wanted.namespace() {
        Some(namespace) => Api::namespaced_with(client, &namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let params = PatchParams::apply("kubevirt-rig").force();
    let name = wanted.name_any();
    api.patch(&name, &params, &Patch::Apply(object)).await?;
    Ok(())
}
