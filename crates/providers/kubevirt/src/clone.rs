//! Copies, by KubeVirt's own kind. A copy carries its identity from its first moment: KubeVirt patches it in.
//!
//! Its webhook reads patches without a parser: it cuts them at commas and wants one colon in every piece. So each patch has one
//! plain value, and hardware addresses are written with dashes.

use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;
use polyvirt_contract::model::{CloneMode, CloneVm, Cloned, Stage, VmState};
use polyvirt_contract::rules::{CloneSize, read_clone};
use polyvirt_contract::{Identity, ProviderError, Result};
use serde_json::{Value, json};

use crate::cluster::Others;
use crate::errors;
use crate::facts::about;
use crate::kinds::{
    CREATING, IDENTITY, Kind, LAST_REQUEST, OWNER_NAME, OWNER_NAMESPACE, RESTART, VM, VmKey, items,
    label, owner, text, version,
};
use crate::map::objects::{self, Marks};
use crate::names;
use crate::snapshot::{reference, served};
use crate::vm::{self, Core};

/// How long a copy may take.
const PATIENCE: Duration = Duration::from_mins(110);
/// Annotations of the source that say nothing of the copy.
const LEFT_BEHIND: &[&str] = &[LAST_REQUEST, RESTART, CREATING];

/// Copies a VM. With one identity it is done once.
pub(crate) async fn clone_vm(core: &Arc<Core>, request: CloneVm) -> Result<Cloned> {
    let wish = read_clone(&request, &[])?;
    if request.mode == CloneMode::Linked {
        return Err(ProviderError::unsupported("linked clones"));
    }
    let absent = || ProviderError::not_found(format!("The VM {}", request.source));
    let source = VmKey::parse(&request.source).ok_or_else(absent)?;
    let target = VmKey::new(&source.namespace, &request.target_name);
    let place = place(&target);
    let known = match &request.owner {
        Some(owner) => vm::key_of(core, &owner.identity).await?,
        None => None,
    };
    let begun = core.cluster.get(Kind::Clone, &place).await;
    let begun = match begun {
        Err(_) if known.is_none() => {
            served(core, Kind::Clone, "clones").await?;
            begun?
        }
        begun => begun?,
    };
    if begun.is_none() {
        if let Some(known) = known {
            return Ok(cloned(&known, None));
        }
        let found = core
            .cluster
            .get(Kind::Vm, &source)
            .await?
            .ok_or_else(absent)?;
        begin(core, &request, &found, &target, wish.size).await?;
    }
    let (core_of_task, key) = (core.clone(), target.clone());
    let work = async move { finish(&core_of_task, &key).await };
    let task = core.begin(&format!("clone {target}"), |_| work);
    Ok(cloned(&target, task.answer().await?))
}

fn cloned(key: &VmKey, task: Option<polyvirt_contract::TaskId>) -> Cloned {
    Cloned { id: key.id(), task }
}

fn place(target: &VmKey) -> VmKey {
    VmKey::new(&target.namespace, names::joined(&target.name, "clone"))
}

async fn begin(
    core: &Core,
    request: &CloneVm,
    source: &DynamicObject,
    target: &VmKey,
    size: Option<CloneSize>,
) -> Result<()> {
    if core.cluster.get(Kind::Vm, target).await?.is_some() {
        let message = format!("There is a VirtualMachine {target} already");
        let kind = polyvirt_contract::ErrorKind::NameConflict;
        return Err(ProviderError::new(kind, message));
    }
    let none = std::collections::BTreeMap::new();
    let marks = Marks {
        owner: request.owner.as_ref(),
        labels: &none,
    };
    can_be_copied(source, size)?;
    let mut patches = patches(request, source, target, size);
    patches.extend(copy_seed(core, source, target, &marks).await?);
    let mut object = objects::named(Kind::Clone, &place(target), &marks);
    object["metadata"]["annotations"][VM] = json!(target.name);
    let name = source.metadata.name.as_deref().unwrap_or_default();
    object["spec"] = json!({
        "source": reference(name),
        "target": reference(&target.name),
        "newMacAddresses": addresses(request, source),
        "annotationFilters": filters(),
        "patches": patches,
    });
    core.cluster
        .apply(Kind::Clone, &object, Others::Respect)
        .await
        .map(drop)
}

/// What KubeVirt would refuse only when the copy is under way, where nobody hears it.
fn can_be_copied(source: &DynamicObject, size: Option<CloneSize>) -> Result<()> {
    let domain = "/spec/template/spec/domain";
    let keeps = |path: &str| source.data.pointer(&format!("{domain}{path}")) == Some(&json!(true));
    if keeps("/devices/tpm/persistent") || keeps("/firmware/bootloader/efi/persistent") {
        return Err(ProviderError::unsupported(
            "copies of VMs with a TPM or UEFI variables that are kept",
        ));
    }
    if size.is_some() && source.data.pointer("/spec/instancetype").is_some() {
        let message = "The source has its size from an instancetype, and so has the copy; take the size away, and change it later";
        return Err(ProviderError::invalid("spec.customization", message));
    }
    Ok(())
}

fn filters() -> Vec<String> {
    let out = LEFT_BEHIND.iter().map(|key| format!("!{key}"));
    std::iter::once("*".to_owned()).chain(out).collect()
}

/// What the copy has of its own, as JSON patches in strings.
fn patches(
    request: &CloneVm,
    source: &DynamicObject,
    target: &VmKey,
    size: Option<CloneSize>,
) -> Vec<String> {
    let mut found = vec![patch("/spec/runStrategy", &json!("Halted"))];
    if let Some(owner) = &request.owner {
        let identity = json!(owner.identity.as_str());
        for path in ["/metadata/labels", "/spec/template/metadata/labels"] {
            found.push(patch(&format!("{path}/{}", escaped(IDENTITY)), &identity));
        }
        for (key, value) in [
            (OWNER_NAMESPACE, &owner.namespace),
            (OWNER_NAME, &owner.name),
            (VM, &target.name),
        ] {
            let path = format!("/metadata/annotations/{}", escaped(key));
            found.push(patch(&path, &json!(value)));
        }
    }
    if let Some(size) = size {
        found.extend(resized(source, size));
    }
    found
}

fn resized(source: &DynamicObject, size: CloneSize) -> Vec<String> {
    let domain = "/spec/template/spec/domain";
    let guest = format!("{}Mi", size.memory_mib);
    let parts = ["cpu", "memory"].map(|part| format!("{domain}/{part}"));
    let missing = parts
        .into_iter()
        .filter(|part| source.data.pointer(part).is_none());
    let made = missing.map(|part| patch(&part, &json!({})));
    let values = [
        ("cpu/sockets", json!(size.cpu)),
        ("cpu/cores", json!(1)),
        ("cpu/threads", json!(1)),
        ("memory/guest", json!(guest)),
    ];
    let values = values.map(|(path, value)| patch(&format!("{domain}/{path}"), &value));
    made.chain(values).collect()
}

fn patch(path: &str, value: &Value) -> String {
    json!({"op": "add", "path": path, "value": value}).to_string()
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn addresses(request: &CloneVm, source: &DynamicObject) -> Value {
    let owner = request.owner.as_ref();
    let identity = owner.map_or(request.target_name.as_str(), |owner| {
        owner.identity.as_str()
    });
    let cards = items(
        &source.data,
        "/spec/template/spec/domain/devices/interfaces",
    )
    .iter();
    let names = cards.map(|card| text(card, "/name"));
    let address = |name: &str| json!(names::mac(identity, name).replace(':', "-"));
    let pairs = names.map(|name| (name.to_owned(), address(name)));
    Value::Object(pairs.collect())
}

/// KubeVirt lets the copy read the Secret of its source, which goes with that. It gets one of its own.
async fn copy_seed(
    core: &Core,
    source: &DynamicObject,
    target: &VmKey,
    marks: &Marks<'_>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let volumes = items(&source.data, "/spec/template/spec/volumes");
    for (index, volume) in volumes.iter().enumerate() {
        for medium in ["cloudInitNoCloud", "cloudInitConfigDrive"] {
            for field in ["secretRef", "networkDataSecretRef"] {
                let name = text(volume, &format!("/{medium}/{field}/name"));
                if name.is_empty() {
                    continue;
                }
                copy_secret(core, name, target, marks).await?;
                let path = format!("/spec/template/spec/volumes/{index}/{medium}/{field}/name");
                found.push(patch(&path, &json!(objects::seed_name(target))));
            }
        }
    }
    Ok(found)
}

async fn copy_secret(core: &Core, name: &str, target: &VmKey, marks: &Marks<'_>) -> Result<()> {
    let from = VmKey::new(&target.namespace, name);
    let Some(secret) = core.cluster.get(Kind::Secret, &from).await? else {
        return Ok(());
    };
    let to = VmKey::new(&target.namespace, objects::seed_name(target));
    let mut copy = objects::named(Kind::Secret, &to, marks);
    copy["metadata"]["annotations"][VM] = json!(target.name);
    copy["type"] = json!("Opaque");
    copy["data"] = secret.data["data"].clone();
    let applied = core.cluster.apply(Kind::Secret, &copy, Others::Respect);
    applied.await.map(drop)
}

async fn finish(core: &Core, target: &VmKey) -> Result<()> {
    let place = place(target);
    let ended = |clone: Option<&DynamicObject>| clone.is_none_or(is_over);
    core.until(Kind::Clone, &place, PATIENCE, ended).await?;
    let clone = core.cluster.get(Kind::Clone, &place).await?;
    if clone.as_ref().is_some_and(|clone| phase(clone) == "Failed") {
        return Err(errors::internal(format!(
            "The copy {target} failed; the events of the VirtualMachineClone {place} tell why"
        )));
    }
    let Some(vm) = core.cluster.get(Kind::Vm, target).await? else {
        return Err(errors::internal(format!("The copy {target} is not there")));
    };
    let (owner, none) = (owner(&vm), std::collections::BTreeMap::new());
    let marks = Marks {
        owner: owner.as_ref(),
        labels: &none,
    };
    vm::mark_claims(core, target, &vm, &marks).await?;
    match clone {
        Some(clone) => core.cluster.delete(Kind::Clone, &clone).await,
        None => Ok(()),
    }
}

fn phase(clone: &DynamicObject) -> &str {
    text(&clone.data, "/status/phase")
}

fn is_over(clone: &DynamicObject) -> bool {
    matches!(phase(clone), "Succeeded" | "Failed")
}

/// A copy that is being made and of which there is nothing else to see.
pub(crate) async fn under_way(core: &Core, key: &VmKey) -> Result<Option<VmState>> {
    let place = place(key);
    let api = core.cluster.api(Kind::Clone, &key.namespace);
    let params = kube::api::ListParams::default().fields(&format!("metadata.name={}", place.name));
    let found = core.cluster.list_served(Kind::Clone, api, &params).await?;
    let clone = found.unwrap_or_default().objects.into_iter().next();
    Ok(clone.and_then(|clone| creating(&clone)))
}

/// The same, by the identity of the copy.
pub(crate) async fn of_identity(core: &Core, identity: &Identity) -> Result<Option<VmState>> {
    let api = core.cluster.everywhere(Kind::Clone);
    let params = kube::api::ListParams::default().labels(&format!("{IDENTITY}={identity}"));
    let found = core.cluster.list_served(Kind::Clone, api, &params).await?;
    Ok(found.unwrap_or_default().objects.iter().find_map(creating))
}

fn creating(clone: &DynamicObject) -> Option<VmState> {
    let key = about(Kind::Clone, clone)?;
    let open = !is_over(clone) && label(clone, IDENTITY).is_some();
    open.then(|| VmState {
        id: key.id(),
        name: key.name.clone(),
        owner: owner(clone),
        revision: version(clone),
        stage: Stage::Creating,
        ..VmState::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(spec: &Value) -> DynamicObject {
        let vm = json!({"metadata": {"name": "web"}, "spec": spec});
        serde_json::from_value(vm).expect("an object")
    }

    /// As KubeVirt's webhook reads them.
    fn is_plain(patch: &str) -> bool {
        let mut pieces = patch.trim_matches(['{', '}']).split(',');
        pieces.all(|piece| piece.matches(':').count() == 1)
    }

    #[test]
    fn patches_are_plain_enough_for_kubevirt() {
        let request = CloneVm {
            owner: Some(polyvirt_contract::model::Owner {
                identity: "uid-1".into(),
                namespace: "team".to_owned(),
                name: "copy".to_owned(),
            }),
            source: "team/web".into(),
            target_name: "copy".to_owned(),
            mode: CloneMode::Full,
            class: None,
            placement: None,
            customize_json: String::new(),
        };
        let size = CloneSize {
            cpu: 4,
            memory_mib: 2048,
            root_gib: 0,
        };
        let domain = json!({"cpu": {}, "devices": {"interfaces": [{"name": "eth0"}]}});
        let source = source(&json!({"template": {"spec": {"domain": domain}}}));
        let found = patches(&request, &source, &VmKey::new("team", "copy"), Some(size));
        assert!(found.iter().all(|patch| is_plain(patch)), "{found:#?}");
        let paths = found.join("\n");
        assert!(paths.contains("domain/memory\",\"value\":{}"), "{paths}");
        assert!(!paths.contains("domain/cpu\",\"value\":{}"), "{paths}");
        let address = addresses(&request, &source)["eth0"].to_string();
        assert!(!address.contains(':') && address.contains('-'), "{address}");
    }

    #[test]
    fn what_kubevirt_cannot_copy_is_refused_at_once() {
        let domain = |domain: Value| source(&json!({"template": {"spec": {"domain": domain}}}));
        let kept = domain(json!({"devices": {"tpm": {"persistent": true}}}));
        let refused = can_be_copied(&kept, None).expect_err("refused");
        assert_eq!(refused.kind, polyvirt_contract::ErrorKind::Unsupported);
        let typed = source(&json!({"instancetype": {"name": "u1.small"}}));
        let size = CloneSize {
            cpu: 1,
            memory_mib: 1,
            root_gib: 0,
        };
        assert!(can_be_copied(&typed, Some(size)).is_err());
        assert!(can_be_copied(&typed, None).is_ok());
        assert!(can_be_copied(&domain(json!({})), Some(size)).is_ok());
    }
}
