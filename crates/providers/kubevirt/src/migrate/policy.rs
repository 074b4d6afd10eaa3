//! How a move may go: KubeVirt takes that from a MigrationPolicy of the cluster, which is written before the move for this one
//! machine and taken away after it.
//!
//! Whoever dies in between leaves it behind; the next move of the machine writes it anew or takes it away first. A policy of an
//! administrator that names the machine by more labels than one wins.

use kube::core::DynamicObject;
use polyvirt_contract::model::MigrateVm;
use polyvirt_contract::{ErrorKind, Result};
use serde_json::{Value, json};

use crate::cluster::Others;
use crate::errors;
use crate::kinds::{IDENTITY, Kind, MANAGED_BY, MANAGER, VmKey, label};
use crate::map::to_kubevirt::put;
use crate::names;
use crate::snapshot::served;
use crate::vm::Core;

/// Has the next move of the machine go as the request wishes.
pub(super) async fn set(
    core: &Core,
    key: &VmKey,
    vm: &DynamicObject,
    request: &MigrateVm,
) -> Result<()> {
    let wishes = wishes(request);
    if wishes == json!({}) {
        return lift(core, key).await;
    }
    served(core, Kind::MigrationPolicy, "limits of moves").await?;
    let object = object(key, vm, wishes)?;
    let applied = core
        .cluster
        .apply(Kind::MigrationPolicy, &object, Others::Respect);
    applied.await.map(drop)
}

/// Takes the policy of the machine away, if there is one that we may see.
pub(super) async fn lift(core: &Core, key: &VmKey) -> Result<()> {
    let name = name(key);
    let found = core.cluster.get_global(Kind::MigrationPolicy, &name);
    let found = match found.await {
        Err(error)
            if matches!(
                error.kind,
                ErrorKind::PermissionDenied | ErrorKind::Unavailable
            ) =>
        {
            return Ok(());
        }
        found => found?,
    };
    match found.filter(|policy| label(policy, MANAGED_BY) == Some(MANAGER)) {
        Some(policy) => core.cluster.delete(Kind::MigrationPolicy, &policy).await,
        None => Ok(()),
    }
}

fn wishes(request: &MigrateVm) -> Value {
    let mut spec = json!({});
    put(
        &mut spec,
        "bandwidthPerMigration",
        json!(request.bandwidth.map(|bytes| bytes.to_string())),
    );
    if request.auto_converge {
        spec["allowAutoConverge"] = json!(true);
    }
    if request.post_copy {
        spec["allowPostCopy"] = json!(true);
    }
    spec
}

fn object(key: &VmKey, vm: &DynamicObject, wishes: Value) -> Result<Value> {
    let Some(identity) = label(vm, IDENTITY) else {
        let message = format!("The VM {key} is not ours, and so its moves cannot be limited");
        return Err(errors::precondition(message));
    };
    let mut spec = wishes;
    spec["selectors"] = json!({"virtualMachineInstanceSelector": {IDENTITY: identity}});
    Ok(json!({
        "apiVersion": Kind::MigrationPolicy.api_version(),
        "kind": Kind::MigrationPolicy.name(),
        "metadata": {"name": name(key), "labels": {MANAGED_BY: MANAGER}},
        "spec": spec,
    }))
}

/// Policies are of the whole cluster.
fn name(key: &VmKey) -> String {
    format!("polyvirt-{}", names::hash(&key.to_string(), 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wished_for_is_said_for_one_machine() {
        let vm = json!({"metadata": {"name": "web", "labels": {IDENTITY: "id-1"}}});
        let vm: DynamicObject = serde_json::from_value(vm).expect("an object");
        let request = MigrateVm {
            bandwidth: Some(64 << 20),
            auto_converge: true,
            post_copy: true,
            ..MigrateVm::default()
        };
        let key = VmKey::new("team", "web");
        let policy = object(&key, &vm, wishes(&request)).expect("a policy");
        assert_eq!(
            policy["spec"],
            json!({
                "bandwidthPerMigration": "67108864",
                "allowAutoConverge": true,
                "allowPostCopy": true,
                "selectors": {"virtualMachineInstanceSelector": {IDENTITY: "id-1"}},
            })
        );
        assert_ne!(name(&key), name(&VmKey::new("other", "web")));
        assert_eq!(wishes(&MigrateVm::default()), json!({}));
        let bare: DynamicObject =
            serde_json::from_value(json!({"metadata": {"name": "web"}})).expect("an object");
        assert!(object(&key, &bare, json!({})).is_err());
    }
}
