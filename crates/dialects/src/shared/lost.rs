//! A VirtualMachine that was deleted behind the object that it was made for.
//!
//! Its disks may be gone, and they were the user's: no other VM takes its place unless the user asks for one. That there was a VM is
//! known from the owner's status, which has the VM's id as soon as there is one and gets it, at the latest, before the
//! VirtualMachine loses its finalizer (`Follower::vm_leaves`). So a crash between any two writes leaves it known.

use kube::Resource;
use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::names::RECREATE_VM_ANNOTATION;
use polyvirt_engine::cluster::ClusterError;

/// The id of the VM, if the VirtualMachine that an owner had is gone or going and the owner did not ask for another.
///
/// `known` is the id in the owner's status. A VirtualMachine that never had a VM is no loss.
pub fn lost(
    owner: &impl Resource,
    known: Option<&str>,
    made: Option<&VirtualMachine>,
) -> Option<String> {
    let id = match made {
        Some(made) if made.metadata.deletion_timestamp.is_some() => id_of(made),
        Some(_) => None,
        None => known.filter(|id| Some(*id) != asked(owner)),
    };
    id.filter(|id| !id.is_empty()).map(str::to_owned)
}

/// The id of the VM that a VirtualMachine has.
pub fn id_of(vm: &VirtualMachine) -> Option<&str> {
    vm.status.as_ref().and_then(|s| s.id.as_deref())
}

/// The id of the VM that the user gives up for a new one.
pub fn asked(owner: &impl Resource) -> Option<&str> {
    let annotations = owner.meta().annotations.as_ref()?;
    annotations.get(RECREATE_VM_ANNOTATION).map(String::as_str)
}

/// The answer to the record of a loss. An owner that is gone needs none; one that the API server never takes must not keep the
/// VirtualMachine for ever.
pub fn give_way(recorded: Result<(), ClusterError>) -> Result<(), ClusterError> {
    match recorded {
        Err(error @ (ClusterError::Invalid(_) | ClusterError::Forbidden(_))) => {
            tracing::error!(%error, "cannot record that a VM was deleted behind its owner");
            Ok(())
        }
        Err(ClusterError::NotFound) => Ok(()),
        other => other,
    }
}

/// What to do about a loss, for an owner of that resource.
pub fn remedy(resource: &str, name: &str, id: &str) -> String {
    format!(
        "The VirtualMachine {name} of infra.virtrigaud.io was deleted, and with it the VM {id}. No new VM is created without a request. \
         To create one with empty disks: kubectl annotate {resource} {name} {RECREATE_VM_ANNOTATION}={id}. \
         To give it up: kubectl delete {resource} {name}"
    )
}

#[cfg(test)]
mod tests {
    use polyvirt_api::novacron;
    use serde_json::{Value, json};

    use super::*;

    fn owner(annotations: &Value) -> novacron::VirtualMachine {
        let object = json!({
            "apiVersion": "novacron.io/v1alpha1", "kind": "VirtualMachine",
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"template": {"spec": {
                "resources": {"cpu": 1, "memory": "1Gi", "disk": "1Gi"}, "image": {"source": "x"},
            }}},
        });
        serde_json::from_value(object).expect("an owner")
    }

    fn made(metadata: &Value, id: &Value) -> VirtualMachine {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine", "metadata": metadata,
            "spec": {"providerRef": {"name": "p"}}, "status": {"id": id},
        }))
        .expect("a VirtualMachine")
    }

    #[test]
    fn a_vm_that_is_gone_or_going_is_lost() {
        let owner = owner(&json!({}));
        assert_eq!(lost(&owner, Some("vm-1"), None).as_deref(), Some("vm-1"));
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let going = made(&going, &json!("vm-2"));
        assert_eq!(lost(&owner, None, Some(&going)).as_deref(), Some("vm-2"));
    }

    #[test]
    fn what_never_had_a_vm_is_no_loss() {
        let owner = owner(&json!({}));
        assert_eq!(lost(&owner, None, None), None);
        assert_eq!(lost(&owner, Some(""), None), None);
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(lost(&owner, None, Some(&made(&going, &Value::Null))), None);
        let there = made(&json!({}), &json!("vm-1"));
        assert_eq!(lost(&owner, Some("vm-0"), Some(&there)), None);
    }

    #[test]
    fn a_request_holds_for_the_vm_that_it_names() {
        let owner = owner(&json!({RECREATE_VM_ANNOTATION: "vm-1"}));
        assert_eq!(lost(&owner, Some("vm-1"), None), None);
        assert_eq!(lost(&owner, Some("vm-2"), None).as_deref(), Some("vm-2"));
    }
}
