//! What an administrator sets, once for all VMs of NovaCron.

use std::time::Duration;

use polyvirt_engine::runtime::key::ObjectKey;

/// The ConfigMap with the images that `marketplace://` names.
pub const CATALOGUE: &str = "polyvirt-image-catalogue";

/// What an administrator sets, once for all VMs of NovaCron.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The Provider of VMs that name none: a name, or namespace/name.
    pub default_provider: Option<String>,
    /// The ConfigMap with the images that `marketplace://` names.
    pub catalogue: ObjectKey,
    /// How often a VM that waits for something outside is looked at.
    pub resync: Duration,
    /// VMs that are looked at at the same time.
    pub concurrency: usize,
}

impl Settings {
    /// The defaults, for a manager in that namespace.
    pub fn in_namespace(namespace: &str) -> Self {
        Self {
            default_provider: None,
            catalogue: ObjectKey::new(namespace, CATALOGUE),
            resync: Duration::from_secs(30),
            concurrency: 5,
        }
    }
}
