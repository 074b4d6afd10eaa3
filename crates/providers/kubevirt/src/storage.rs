//! Claims and volumes: made if they are not there, grown, and taken away.

use kube::api::ListParams;
use kube::core::DynamicObject;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::{Value, json};

use crate::access::{self, Reader};
use crate::cluster::{Cluster, Others};
use crate::errors;
use crate::facts::claim_bytes;
use crate::kinds::{IDENTITY, Kind, VmKey, annotation, items, label, text};
use crate::map::layout::{Claim, Disk, Layout, Source};
use crate::map::objects::{Anchor, Shape, seed_name};
use crate::quantity;
use crate::vm::Core;

/// How often a claim is changed against somebody who changes it at the same time.
const ATTEMPTS: usize = 5;
/// The annotation of the class that claims without one get.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Makes the claim or volume of a disk, unless it is there. What it is made from is read in the name of `reader`.
pub(crate) async fn provide(
    core: &Core,
    anchor: &Anchor<'_>,
    disk: &Disk,
    reader: &Reader,
) -> Result<()> {
    let cluster = &core.cluster;
    let key = VmKey::new(&anchor.key.namespace, disk.claim.name());
    let kind = match disk.source {
        Source::Empty => Kind::Claim,
        _ => Kind::DataVolume,
    };
    let found = cluster.get(kind, &key).await?;
    let found = match found {
        None if kind == Kind::DataVolume => cluster.get(Kind::Claim, &key).await?,
        found => found,
    };
    if let Some(there) = found {
        return usable(anchor, disk, &there);
    }
    let shape = shape(cluster, disk).await?;
    let made = Disk {
        source: access::granted(core, reader, &disk.source).await?,
        ..disk.clone()
    };
    let (kind, object) = anchor.disk(&made, &shape);
    match cluster.apply(kind, &object, Others::Respect).await {
        // Another request for the same VM may have been quicker.
        Err(error) if error.kind == ErrorKind::Precondition => {
            let there = cluster.get(kind, &key).await?.ok_or(error)?;
            usable(anchor, disk, &there)
        }
        answer => answer.map(drop),
    }
}

/// Writes the Secret with what the guest reads, unless somebody else has one of that name.
pub(crate) async fn provide_secret(
    cluster: &Cluster,
    anchor: &Anchor<'_>,
    data: &Value,
) -> Result<()> {
    let wanted = anchor.secret(data);
    let key = VmKey::new(&anchor.key.namespace, seed_name(anchor.key));
    let ours = anchor.marks.owner.map(|owner| owner.identity.as_str());
    let there = cluster.get(Kind::Secret, &key).await?;
    if there.is_some_and(|secret| label(&secret, IDENTITY) != ours) {
        let message = format!("There is a Secret {key} that is not ours; rename the VM");
        return Err(ProviderError::new(ErrorKind::NameConflict, message));
    }
    cluster
        .apply(Kind::Secret, &wanted, Others::Override)
        .await
        .map(drop)
}

/// A claim that is there is used if it is ours, or if a person named it.
fn usable(anchor: &Anchor<'_>, disk: &Disk, there: &DynamicObject) -> Result<()> {
    let wanted = anchor.marks.owner.map(|owner| owner.identity.as_str());
    let name = disk.claim.name();
    if there.metadata.deletion_timestamp.is_some() {
        let message = format!("The claim {name} is still being deleted; it is tried again");
        return Err(errors::precondition(message));
    }
    match (label(there, IDENTITY), &disk.claim) {
        (mark, _) if mark == wanted => Ok(()),
        (None, Claim::Given(_)) => Ok(()),
        _ => {
            let message = format!(
                "The claim {name} is there and belongs to something else; rename the VM or the disk, or delete the claim"
            );
            Err(ProviderError::new(ErrorKind::NameConflict, message))
        }
    }
}

/// What was said, else what the StorageProfile of the class says, else what stands in for both.
async fn shape(cluster: &Cluster, disk: &Disk) -> Result<Shape> {
    let said = Shape {
        access_mode: disk.access_mode.clone(),
        volume_mode: disk.volume_mode.clone(),
    };
    let class = class_of(cluster, disk).await?;
    let all_said = said.access_mode.is_some() && said.volume_mode.is_some();
    // A volume is shaped by CDI, which reads the same profile.
    let by_cdi = disk.source != Source::Empty && disk.unsaid == (None, None);
    if all_said || by_cdi {
        return Ok(said);
    }
    let filled = match class {
        Some(class) => filled(cluster, said, &class).await?,
        None => said,
    };
    let (access, volume) = disk.unsaid.clone();
    Ok(Shape {
        access_mode: filled.access_mode.or(access),
        volume_mode: filled.volume_mode.or(volume),
    })
}

async fn filled(cluster: &Cluster, said: Shape, class: &str) -> Result<Shape> {
    let named = ListParams::default().fields(&format!("metadata.name={class}"));
    let profiles = visible(cluster, Kind::StorageProfile, &named).await?;
    let profile = profiles.and_then(|found| found.into_iter().next());
    Ok(match profile {
        Some(profile) => with_profile(&said, &profile.data),
        None => said,
    })
}

/// Refuses a StorageClass that is not there, before anything of the VM is made.
pub(crate) async fn classes_exist(cluster: &Cluster, layout: &Layout) -> Result<()> {
    for disk in layout.all().filter(|disk| disk.storage_class.is_some()) {
        class_of(cluster, disk).await?;
    }
    Ok(())
}

/// The StorageClass of a disk, which must be there: a claim of one that is not would wait for ever and say nothing.
async fn class_of(cluster: &Cluster, disk: &Disk) -> Result<Option<String>> {
    let Some(all) = visible(cluster, Kind::StorageClass, &ListParams::default()).await? else {
        return Ok(disk.storage_class.clone());
    };
    let mut names = all.iter().filter_map(|class| class.metadata.name.as_ref());
    if let Some(wanted) = &disk.storage_class {
        if !names.any(|name| name == wanted) {
            let message = format!(
                "StorageClass {wanted} was not found in the cluster. Create it, or name another one; it is tried again"
            );
            return Err(errors::precondition(message));
        }
        return Ok(Some(wanted.clone()));
    }
    let is_usual = |class: &&DynamicObject| annotation(class, DEFAULT_CLASS) == Some("true");
    let usual = all.iter().find(is_usual);
    Ok(usual.and_then(|class| class.metadata.name.clone()))
}

/// What there is of a kind; `None` if the cluster does not have the kind, or does not let us see it.
async fn visible(
    cluster: &Cluster,
    kind: Kind,
    params: &ListParams,
) -> Result<Option<Vec<DynamicObject>>> {
    let listed = cluster.list_served(kind, cluster.global(kind), params);
    match listed.await {
        Ok(listed) => Ok(listed.map(|listed| listed.objects)),
        Err(error) if error.kind == ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sharing is preferred, for a machine on storage that is not shared cannot move.
fn with_profile(said: &Shape, profile: &Value) -> Shape {
    let sets = items(profile, "/status/claimPropertySets");
    let has = |set: &Value, mode: &str| {
        let modes = items(set, "/accessModes").iter();
        modes.filter_map(Value::as_str).any(|word| word == mode)
    };
    let fits = |set: &&Value| {
        let access = said
            .access_mode
            .as_deref()
            .is_none_or(|mode| has(set, mode));
        let volume = said.volume_mode.as_deref();
        access && volume.is_none_or(|mode| text(set, "/volumeMode") == mode)
    };
    let shared = sets
        .iter()
        .filter(fits)
        .find(|set| has(set, "ReadWriteMany"));
    let Some(set) = shared.or_else(|| sets.iter().find(fits)) else {
        return said.clone();
    };
    let first = items(set, "/accessModes").first().and_then(Value::as_str);
    let access = shared.map(|_| "ReadWriteMany").or(first);
    let volume = Some(text(set, "/volumeMode")).filter(|mode| !mode.is_empty());
    Shape {
        access_mode: said.access_mode.clone().or(access.map(str::to_owned)),
        volume_mode: said.volume_mode.clone().or(volume.map(str::to_owned)),
    }
}

/// All objects of a kind in the namespace that carry the identity; none of a kind that the cluster does not serve.
pub(crate) async fn owned(
    cluster: &Cluster,
    kind: Kind,
    namespace: &str,
    identity: &str,
) -> Result<Vec<DynamicObject>> {
    let params = ListParams::default().labels(&format!("{IDENTITY}={identity}"));
    let listed = cluster.list_served(kind, cluster.api(kind, namespace), &params);
    Ok(listed.await?.unwrap_or_default().objects)
}

/// Asks for a bigger claim. One that is so big already is left alone. Others write to claims too, such as whoever binds them; if
/// they change the size, it is looked at again.
pub(crate) async fn grow(cluster: &Cluster, claim: &DynamicObject, bytes: u64) -> Result<()> {
    let mut seen = claim.clone();
    let mut answer = Ok(());
    for _ in 0..ATTEMPTS {
        if claim_bytes(&seen.data) >= bytes {
            return Ok(());
        }
        answer = ask_for(cluster, &seen, bytes).await;
        match &answer {
            Err(error) if error.kind == ErrorKind::Precondition => {}
            _ => return told(answer),
        }
        seen = again(cluster, &seen).await?;
    }
    answer
}

async fn ask_for(cluster: &Cluster, claim: &DynamicObject, bytes: u64) -> Result<()> {
    let size = json!(quantity::of_bytes(bytes));
    let place = "/spec/resources/requests/storage";
    cluster.replace(Kind::Claim, claim, place, &size).await
}

async fn again(cluster: &Cluster, claim: &DynamicObject) -> Result<DynamicObject> {
    let metadata = &claim.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let key = VmKey::new(metadata.namespace.clone().unwrap_or_default(), name);
    let found = cluster.get(Kind::Claim, &key).await?;
    found.ok_or_else(|| ProviderError::not_found(format!("The claim {key}")))
}

fn told(answer: Result<()>) -> Result<()> {
    match answer {
        Err(error) if error.message.contains("bound claims") => Err(errors::precondition(
            "The disk can grow when its claim is bound; start the VM once, then it is tried again",
        )),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_fills_in_what_was_not_said() {
        let profile = json!({"status": {"claimPropertySets": [
            {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
            {"accessModes": ["ReadWriteOnce", "ReadWriteMany"], "volumeMode": "Block"},
        ]}});
        let shape = |access: Option<&str>, volume: Option<&str>| Shape {
            access_mode: access.map(str::to_owned),
            volume_mode: volume.map(str::to_owned),
        };
        for (said, becomes) in [
            (
                shape(None, None),
                shape(Some("ReadWriteMany"), Some("Block")),
            ),
            (
                shape(None, Some("Filesystem")),
                shape(Some("ReadWriteOnce"), Some("Filesystem")),
            ),
            (
                shape(Some("ReadOnlyMany"), None),
                shape(Some("ReadOnlyMany"), None),
            ),
        ] {
            assert_eq!(with_profile(&said, &profile), becomes, "{said:?}");
        }
        let silent = with_profile(&Shape::default(), &json!({}));
        assert_eq!(silent, Shape::default());
    }
}
