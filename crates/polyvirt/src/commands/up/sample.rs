//! The objects of the first VM. Made where they are missing; what the user has changed stays.

use std::path::Path;

use anyhow::Context;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::options::Hypervisor;

const QEMU: &str = include_str!("../../../../../config/samples/qemu.yaml");
const MOCK: &str = include_str!("../../../../../config/samples/mock.yaml");

/// The objects of the first VM, for this folder and the source of its image; without one they have that of the sample.
pub fn objects(
    hypervisor: Hypervisor,
    folder: &Path,
    image: Option<&Value>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let text = match hypervisor {
        Hypervisor::Qemu => QEMU,
        Hypervisor::Mock => MOCK,
    };
    let mut objects: Vec<DynamicObject> =
        serde_saphyr::from_multiple(text).context("The sample cannot be read")?;
    for object in &mut objects {
        fit(object, hypervisor, folder, image);
    }
    Ok(objects)
}

fn fit(object: &mut DynamicObject, hypervisor: Hypervisor, folder: &Path, image: Option<&Value>) {
    let kind = object.types.as_ref().map_or("", |types| &types.kind);
    match (kind, hypervisor, image) {
        ("Provider", Hypervisor::Qemu, _) => {
            // Who starts this owns the machine: images may come from servers on it.
            let endpoint = format!("{}?imageHosts=any", qemu_endpoint(folder));
            object.data["spec"]["endpoint"] = json!(endpoint);
        }
        ("Provider", Hypervisor::Mock, _) => {
            object.data["spec"]["endpoint"] =
                json!(format!("mock://{}", folder.join("mock").display()));
        }
        ("VMImage", Hypervisor::Qemu, Some(source)) => {
            object.data["spec"]["source"] = source.clone();
        }
        _ => {}
    }
}

/// The hypervisor of this folder.
pub fn qemu_endpoint(folder: &Path) -> String {
    format!("qemu://{}", folder.join("qemu").display())
}

/// The name of the object of that kind.
pub fn name_of(objects: &[DynamicObject], kind: &str) -> anyhow::Result<String> {
    let is_it = |o: &&DynamicObject| o.types.as_ref().is_some_and(|t| t.kind == kind);
    let found = objects.iter().find(is_it).map(ResourceExt::name_any);
    found.with_context(|| format!("The sample has no {kind}"))
}

/// Creates what is missing, in order, and returns how many that were.
pub async fn create_missing(client: &Client, objects: &[DynamicObject]) -> anyhow::Result<usize> {
    let mut made = 0;
    for object in objects {
        match api_of(client, object)?
            .create(&PostParams::default(), object)
            .await
        {
            Ok(_) => made += 1,
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("Cannot create the sample {}", object.name_any()));
            }
        }
    }
    Ok(made)
}

fn api_of(client: &Client, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
    let types = object.types.clone().context("An object without a kind")?;
    let kind = GroupVersionKind::try_from(&types)?;
    let resource = ApiResource::from_gvk(&kind);
    let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
    Ok(Api::namespaced_with(client.clone(), &namespace, &resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_fit_their_folder() {
        let folder = Path::new("/var/lib/there");
        let source = json!({"http": {"url": "https://images.example.com/a.qcow2"}});
        let qemu = objects(Hypervisor::Qemu, folder, Some(&source)).expect("readable");
        assert_eq!(name_of(&qemu, "VirtualMachine").expect("one"), "demo");
        assert_eq!(name_of(&qemu, "VMImage").expect("one"), "guest");
        let text = serde_json::to_string(&qemu).expect("JSON");
        let endpoint = "qemu:///var/lib/there/qemu?imageHosts=any";
        assert!(text.contains(endpoint), "{text}");
        assert!(text.contains("images.example.com/a.qcow2"), "{text}");
        let mock = objects(Hypervisor::Mock, folder, None).expect("readable");
        assert_eq!(name_of(&mock, "VirtualMachine").expect("one"), "web");
    }
}
