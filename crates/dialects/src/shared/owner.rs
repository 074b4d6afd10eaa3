//! Whom an object belongs to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

/// The object as the one that owns what is made for it.
pub fn owner_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether the owner has made an object. An owner of the same name that was deleted does not count.
pub fn is_owned(object: &impl Resource, owner: &impl Resource) -> bool {
    let mut owners = object.meta().owner_references.iter().flatten();
    let uid = owner.meta().uid.as_deref().unwrap_or_default();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}
