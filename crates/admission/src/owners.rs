//! Asks the API server for the controlling owner of a VirtualMachine.
//!
//! A cache could lag behind: the owner's controller deletes the VirtualMachine a moment after the owner was deleted, and a
//! standby manager may answer the review. Such reviews are rare, so one read each is affordable.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use polyvirt_api::{novacron, vitistack};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::owned::{Dialect, Owner, OwnerState};

/// Well below the 4 s after which a review is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads owners from the API server.
#[derive(Clone)]
pub struct Owners(Client);

impl Owners {
    /// Reads through that client.
    pub const fn new(client: Client) -> Self {
        Self(client)
    }

    /// The state of the owner. Blocks, so it belongs on a thread for blocking work, where reviews run.
    pub(crate) fn state(&self, namespace: &str, owner: &Owner) -> OwnerState {
        let Ok(runtime) = Handle::try_current() else {
            return OwnerState::Unknown;
        };
        // A wrong Unknown refuses, so the wait is bounded and the user may try again.
        let asked = runtime.block_on(timeout(PATIENCE, self.ask(namespace, owner)));
        asked.unwrap_or(OwnerState::Unknown)
    }

    async fn ask(&self, namespace: &str, owner: &Owner) -> OwnerState {
        let found = match owner.dialect {
            Dialect::Novacron => {
                self.meta::<novacron::VirtualMachine>(namespace, &owner.name)
                    .await
            }
            Dialect::Vitistack => {
                self.meta::<vitistack::Machine>(namespace, &owner.name)
                    .await
            }
        };
        match found {
            Err(error) => {
                tracing::warn!(%error, namespace, owner = owner.name, "cannot read the owner of a VirtualMachine");
                OwnerState::Unknown
            }
            Ok(None) => OwnerState::Gone,
            Ok(Some(meta)) if meta.uid.as_deref() != Some(owner.uid.as_str()) => OwnerState::Gone,
            Ok(Some(meta)) if meta.deletion_timestamp.is_some() => OwnerState::Leaving,
            Ok(Some(_)) => OwnerState::Stays,
        }
    }

    /// Only the metadata: an owner that this version cannot read is an owner all the same.
    async fn meta<K>(&self, namespace: &str, name: &str) -> Result<Option<ObjectMeta>, kube::Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.0.clone(), namespace);
        // A list of one: the manager has the right to list owners, and needs none to get them.
        let this = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = api.list_metadata(&this).await?;
        Ok(found.items.into_iter().next().map(|one| one.metadata))
    }
}
