//! The VirtualMachine that is made for an object of another API, from its first write to its proved end.

use std::sync::Arc;

use polyvirt_api::infra::VirtualMachine;
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::context::Stores;
use polyvirt_engine::runtime::key::ObjectKey;
use serde_json::json;

use super::desk::{Claim, Desk, Object};
use super::same::is_as_lowered;

/// The VirtualMachine of that name, whoever owns it. The cache may lag behind: nothing is made before the API server has
/// said that there is nothing.
pub async fn find(
    stores: &Stores,
    desk: &Desk,
    key: &ObjectKey,
) -> Result<Option<Arc<VirtualMachine>>, ClusterError> {
    match stores.vms.get(key) {
        Some(vm) => Ok(Some(vm)),
        None => Ok(desk.get(key).await?.map(Arc::new)),
    }
}

/// Writes it if it is not as it is wanted. One that is being deleted is left alone.
pub async fn apply(
    desk: &Desk,
    wanted: &VirtualMachine,
    there: Option<Arc<VirtualMachine>>,
) -> Result<Arc<VirtualMachine>, ClusterError> {
    let mut wanted = wanted.clone();
    let claim = match &there {
        None => Claim::New,
        Some(there) if there.metadata.deletion_timestamp.is_some() => return Ok(there.clone()),
        Some(there) if is_as_lowered(&**there, &wanted) => return Ok(there.clone()),
        Some(there) => {
            wanted.metadata.uid.clone_from(&there.metadata.uid);
            Claim::Ours
        }
    };
    desk.apply(&wanted, claim).await.map(Arc::new)
}

/// Asks for its end, once.
pub async fn delete<K: Object>(
    desk: &Desk,
    key: &ObjectKey,
    object: &K,
) -> Result<(), ClusterError> {
    let meta = object.meta();
    match meta
        .uid
        .as_deref()
        .filter(|_| meta.deletion_timestamp.is_none())
    {
        Some(uid) => desk.delete::<K>(key, uid).await,
        None => Ok(()),
    }
}

/// Takes finalizers off an object whose VM is gone, if it is still the version that was read.
pub async fn release<K: Object>(
    desk: &Desk,
    key: &ObjectKey,
    object: &K,
    remaining: Vec<String>,
) -> Result<(), ClusterError> {
    let body = json!({"metadata": {
        "resourceVersion": object.meta().resource_version,
        "finalizers": remaining,
    }});
    desk.merge_if_there::<K>(key, &body).await
}
