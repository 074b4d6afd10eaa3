//! A VM that another operator made is taken over as it is: it gets our marks, and nothing of it changes.

use kube::core::DynamicObject;
use polyvirt_contract::Result;
use polyvirt_contract::model::Created;
use serde_json::{Value, json};

use crate::facts::Fact;
use crate::kinds::{IDENTITY, Kind, VM, VmKey, annotation, label, owner};
use crate::map::objects::Marks;
use crate::vm::Core;
use crate::vm::create::{Plan, name_conflict};

/// Takes over the first VM that has one of the names to adopt and no identity; `None` if there is none to take.
pub(super) async fn adopt(core: &Core, plan: &Plan) -> Result<Option<Created>> {
    if plan.request.owner.is_none() {
        return Ok(None);
    }
    for name in &plan.options.adopt_names {
        let key = VmKey::new(&plan.key.namespace, name);
        let Some(found) = core.cluster.get(Kind::Vm, &key).await? else {
            continue;
        };
        if owner(&found).is_some() {
            return Err(name_conflict(&key));
        }
        mark(core, plan, &key, &found).await?;
        return Ok(Some(Created {
            id: key.id(),
            task: None,
        }));
    }
    Ok(None)
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
