//! The way from a VirtualMachine to its VM, for whoever serves consoles and commands in guests.

use std::sync::Arc;

use polyvirt_api::names::IDENTITY_ANNOTATION;
use polyvirt_contract::model::{Owner, VmRef};
use polyvirt_contract::{Identity, Provider, VmId};

use crate::context::Stores;
use crate::link::{Links, Standing};
use crate::runtime::key::ObjectKey;

/// Finds VMs by the names of their objects, in the caches of the manager.
#[derive(Clone)]
pub struct Guests {
    stores: Arc<Stores>,
    links: Arc<Links>,
}

/// Why there is no VM to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGuest {
    /// There is no such VirtualMachine.
    #[error("There is no VirtualMachine {0}")]
    NoObject(ObjectKey),
    /// Its VM was not made yet.
    #[error("VirtualMachine {0} has no VM yet; its status says what it waits for")]
    NoVm(ObjectKey),
    /// The hypervisor cannot be asked.
    #[error("Provider {0} does not answer; its status says why")]
    NoProvider(ObjectKey),
}

impl Guests {
    pub(crate) fn new(stores: Arc<Stores>, links: Arc<Links>) -> Self {
        Self { stores, links }
    }

    /// The VM of a VirtualMachine, and the provider to ask.
    pub fn find(&self, key: &ObjectKey) -> Result<(Arc<dyn Provider>, VmRef), NoGuest> {
        let object = self.stores.vms.get(key);
        let vm = object.ok_or_else(|| NoGuest::NoObject(key.clone()))?;
        let id = vm.status.as_ref().and_then(|status| status.id.as_deref());
        let id = id.and_then(VmId::non_empty);
        let id = id.ok_or_else(|| NoGuest::NoVm(key.clone()))?;
        let named = &vm.spec.provider_ref;
        let provider = ObjectKey::new(named.namespace_or(key.namespace()), &named.name);
        let view = self.links.get(&provider).map(|link| link.view());
        let view = view.filter(|view| matches!(view.standing, Standing::Connected { .. }));
        let server = view.and_then(|view| view.provider);
        let server = server.ok_or(NoGuest::NoProvider(provider))?;
        let annotations = vm.metadata.annotations.as_ref();
        let identity = annotations.and_then(|all| all.get(IDENTITY_ANNOTATION));
        let owner = identity.map(|identity| Owner {
            identity: Identity::from(identity.as_str()),
            namespace: key.namespace().to_owned(),
            name: key.name().to_owned(),
        });
        Ok((server, VmRef { id, owner }))
    }
}
