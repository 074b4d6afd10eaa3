//! What a review may know of the rest of the world.

use std::sync::Arc;

use polyvirt_api::infra::{
    Provider, VMClass, VMImage, VMNetworkAttachment, VMSnapshot, VirtualMachine,
};
use polyvirt_contract::Features;
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::vm_index::Target;
use polyvirt_plan::{Problem, honoured};

/// An object that was looked for.
#[derive(Clone, Debug)]
pub enum Found<T> {
    /// Nobody can tell: nothing may be concluded.
    Unknown,
    /// It does not exist, or did not a moment ago.
    Missing,
    /// It exists.
    Here(Arc<T>),
}

impl<T> Found<T> {
    /// The object, if it is known.
    pub fn here(&self) -> Option<&T> {
        match self {
            Self::Here(object) => Some(object),
            Self::Unknown | Self::Missing => None,
        }
    }
}

/// VirtualMachines that use something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// How many are to stay.
    pub count: usize,
    /// The first of those that are to stay.
    pub some: Vec<ObjectKey>,
    /// How many are being deleted.
    pub leaving: usize,
}

/// What a review may know. Nothing here may wait.
pub trait Facts: Send + Sync {
    /// A Provider.
    fn provider(&self, key: &ObjectKey) -> Found<Provider>;
    /// All Providers that can be seen from that namespace; none if nobody can tell.
    fn providers(&self, namespace: &str) -> Vec<Arc<Provider>>;
    /// A class.
    fn class(&self, key: &ObjectKey) -> Found<VMClass>;
    /// An image.
    fn image(&self, key: &ObjectKey) -> Found<VMImage>;
    /// A network.
    fn network(&self, key: &ObjectKey) -> Found<VMNetworkAttachment>;
    /// A VirtualMachine.
    fn vm(&self, key: &ObjectKey) -> Found<VirtualMachine>;
    /// A snapshot.
    fn snapshot(&self, key: &ObjectKey) -> Found<VMSnapshot>;
    /// Whether there is a Secret; nothing of it is known.
    fn secret(&self, key: &ObjectKey) -> Found<()>;
    /// Who uses something, in all namespaces; `None` if nobody can tell.
    fn users(&self, target: &Target) -> Option<Users>;
    /// Whether this program can run the provider inside itself.
    fn in_process(&self, provider: &Provider) -> Result<(), Problem>;
}

/// What a provider has told of the fields that it honours; `None` if it was never connected.
///
/// From the status and not from the connection, which only the manager that leads has: all managers say the same.
pub fn features(provider: &Provider) -> Option<Features> {
    let reported = honoured::provider::reported(provider.status.as_ref()?)?;
    Some(Features {
        provider_type: type_word(provider.spec.type_).to_owned(),
        ..reported
    })
}
