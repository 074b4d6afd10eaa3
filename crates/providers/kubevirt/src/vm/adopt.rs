//! A VM that another operator made is taken over as it is: it gets our marks, and nothing of it changes.
//!
//! A name alone proves nothing: anybody may call a VM `web`. What was made for the same object carries a label that says so,
//! or is owned by it. Anything else of that name is somebody else's, and is left alone.

use kube::core::DynamicObject;
use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_contract::model::Created;
use polyvirt_contract::{ErrorKind, Identity, Result};
use serde_json::{Value, json};

use crate::facts::Fact;
use crate::kinds::{CREATING, IDENTITY, Kind, VM, VmKey, annotation, label, owner};
use crate::map::objects::Marks;
use crate::vm::Core;
use crate::vm::create::Plan;

/// How often a VM is taken over against somebody who changes it at the same time, such as KubeVirt itself.
const ATTEMPTS: usize = 10;

/// Takes over the first VM that has one of the names to adopt and is proven to be this one; `None` if there is none.
pub(super) async fn adopt(core: &Core, plan: &Plan) -> Result<Option<Created>> {
    let Some(owner) = &plan.request.owner else {
        return Ok(None);
    };
    for name in &plan.options.adopt_names {
        let key = VmKey::new(&plan.key.namespace, name);
        if take(core, plan, &key, &owner.identity).await? {
            return Ok(Some(Created {
                id: key.id(),
                task: None,
            }));
        }
    }
    Ok(None)
}

/// Whether the VM was there and is ours now. Who changes it at the same moment makes the server refuse, and us look again.
async fn take(core: &Core, plan: &Plan, key: &VmKey, identity: &Identity) -> Result<bool> {
    let mut answer = Ok(false);
    for _ in 0..ATTEMPTS {
        let found = core.cluster.get(Kind::Vm, key).await?;
        let Some(found) = found.filter(|vm| is_the_one(vm, &plan.options, identity)) else {
            return Ok(false);
        };
        answer = mark(core, plan, key, &found).await.map(|()| true);
        match &answer {
            Err(error) if error.kind == ErrorKind::Precondition => {}
            _ => break,
        }
    }
    answer
}

/// Whether the VM was made for the object that asks, stays, and is nobody's yet, or was marked a moment ago by the same request.
/// One that we are making ourselves is no other operator's.
fn is_the_one(vm: &DynamicObject, options: &KubevirtOptions, identity: &Identity) -> bool {
    let is_free = owner(vm).is_none_or(|owner| owner.identity == *identity);
    let labels = options.adopt_labels.iter();
    let says: Vec<bool> = labels
        .filter_map(|(key, value)| Some(label(vm, key)? == value))
        .collect();
    let named = !says.is_empty() || is_owned(vm, options);
    let is_whole = annotation(vm, CREATING).is_none() && vm.metadata.deletion_timestamp.is_none();
    is_free && is_whole && named && says.iter().all(|fits| *fits)
}

fn is_owned(vm: &DynamicObject, options: &KubevirtOptions) -> bool {
    let uid = options.owner.as_ref().map(|owner| owner.uid.as_str());
    let references = vm.metadata.owner_references.iter().flatten();
    let mut uids = references.map(|reference| reference.uid.as_str());
    uid.is_some_and(|uid| !uid.is_empty() && uids.any(|is| is == uid))
}

/// The VirtualMachine last: who dies before that finds it unmarked, and begins anew.
async fn mark(core: &Core, plan: &Plan, key: &VmKey, vm: &DynamicObject) -> Result<()> {
    let marks = Marks {
        owner: plan.request.owner.as_ref(),
        labels: &plan.options.labels,
    };
    mark_claims(core, key, vm, &marks).await?;
    // The template's labels come to the instance at its next start; the one that runs gets them now.
    let label = json!({"metadata": {"labels": {IDENTITY: marks.labels()[IDENTITY]}}});
    if let Some(instance) = core.cluster.get(Kind::Vmi, key).await? {
        core.cluster
            .patch(Kind::Vmi, &instance, label.clone())
            .await?;
    }
    let mut change = marked(key, &marks);
    change["spec"] = json!({"template": label});
    core.cluster.patch(Kind::Vm, vm, change).await.map(drop)
}

/// Puts the marks on the claims that a VM names, so that they are watched and go with it.
pub(crate) async fn mark_claims(
    core: &Core,
    key: &VmKey,
    vm: &DynamicObject,
    marks: &Marks<'_>,
) -> Result<()> {
    let identity = marks.owner.map(|owner| owner.identity.as_str());
    for claim in claims(vm) {
        let claim = VmKey::new(&key.namespace, claim);
        let found = core.cluster.get(Kind::Claim, &claim).await?;
        let bare = found.filter(|claim| {
            label(claim, IDENTITY) != identity || annotation(claim, VM) != Some(&key.name)
        });
        if let Some(bare) = bare {
            core.cluster
                .patch(Kind::Claim, &bare, marked(key, marks))
                .await?;
        }
    }
    Ok(())
}

fn marked(key: &VmKey, marks: &Marks<'_>) -> Value {
    let mut annotations = marks.annotations();
    annotations[VM] = json!(key.name);
    json!({"metadata": {"labels": marks.labels(), "annotations": annotations}})
}

fn claims(vm: &DynamicObject) -> Vec<String> {
    match Fact::read(Kind::Vm, vm) {
        Some(Fact::Vm(facts)) => facts.disks.into_iter().map(|(_, claim)| claim).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_api::kubevirt::OwnerOption;

    use super::*;

    fn options() -> KubevirtOptions {
        let labels = ["vitistack.io/machine", "vitistack.io/source-machine"];
        KubevirtOptions {
            adopt_labels: labels.map(|key| (key.to_owned(), "web".to_owned())).into(),
            owner: Some(OwnerOption {
                uid: "m1".to_owned(),
                ..OwnerOption::default()
            }),
            ..KubevirtOptions::default()
        }
    }

    #[test]
    fn a_vm_is_taken_over_only_if_it_was_made_for_the_same_object() {
        let owned = |uid: &str| {
            json!({"ownerReferences": [{
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web", "uid": uid,
            }]})
        };
        let both = |machine: &str| json!({"labels": {"vitistack.io/machine": machine, "vitistack.io/source-machine": "web"}});
        for (metadata, expected) in [
            (json!({}), false),
            (json!({"labels": {"app": "web"}}), false),
            (json!({"labels": {"vitistack.io/machine": "web"}}), true),
            (
                json!({"labels": {"vitistack.io/source-machine": "web"}}),
                true,
            ),
            (
                json!({"labels": {"vitistack.io/source-machine": "db"}}),
                false,
            ),
            (both("web"), true),
            (both("db"), false),
            (owned("m1"), true),
            (owned("m2"), false),
            (
                json!({"labels": {"vitistack.io/machine": "web", IDENTITY: "x"}}),
                false,
            ),
            (
                json!({"labels": {"vitistack.io/machine": "web", IDENTITY: "id-1"}}),
                true,
            ),
            (
                json!({"labels": {"vitistack.io/machine": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}),
                false,
            ),
        ] {
            let mut metadata = metadata;
            metadata["name"] = json!("web");
            let vm = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": metadata});
            let vm: DynamicObject = serde_json::from_value(vm).expect("an object");
            let asks = Identity::from("id-1");
            assert_eq!(is_the_one(&vm, &options(), &asks), expected, "{metadata}");
        }
        let unmarked = KubevirtOptions::default();
        let vm = json!({"metadata": {"name": "web", "labels": {"vitistack.io/machine": "web"}}});
        let vm: DynamicObject = serde_json::from_value(vm).expect("an object");
        let asks = Identity::from("id-1");
        assert!(
            !is_the_one(&vm, &unmarked, &asks),
            "nobody said how to know it"
        );
    }
}
