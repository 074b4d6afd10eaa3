//! Names of objects, cheap to clone and to hash.

use std::fmt;
use std::sync::Arc;

use kube::Resource;
use polyvirt_api::{names, novacron, vitistack};

/// Namespace and name of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// The object of that name in that namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// The key of an object that the API server gave us.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kinds that the engine has a controller for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// VMs.
    VirtualMachine,
    /// Hypervisors.
    Provider,
    /// Sizes.
    VMClass,
    /// Images.
    VMImage,
    /// Networks.
    VMNetworkAttachment,
    /// Snapshots.
    VMSnapshot,
    /// Where VMs may run.
    VMPlacementPolicy,
    /// Moves of VMs.
    VMMigration,
    /// Copies of VMs, which this version does not implement.
    VMClone,
    /// Sets of VMs, which this version does not implement.
    VMSet,
    /// Machines, which a dialect looks after.
    Machine,
    /// Ways to clusters with KubeVirt, which a dialect looks after.
    KubevirtConfig,
    /// VMs of NovaCron, which a dialect looks after.
    NovacronVirtualMachine,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::VirtualMachine,
        Self::Provider,
        Self::VMClass,
        Self::VMImage,
        Self::VMNetworkAttachment,
        Self::VMSnapshot,
        Self::VMPlacementPolicy,
        Self::VMMigration,
    ];

    /// The kind's name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VirtualMachine | Self::NovacronVirtualMachine => "VirtualMachine",
            Self::Provider => "Provider",
            Self::VMClass => "VMClass",
            Self::VMImage => "VMImage",
            Self::VMNetworkAttachment => "VMNetworkAttachment",
            Self::VMSnapshot => "VMSnapshot",
            Self::VMPlacementPolicy => "VMPlacementPolicy",
            Self::VMMigration => "VMMigration",
            Self::VMClone => "VMClone",
            Self::VMSet => "VMSet",
            Self::Machine => "Machine",
            Self::KubevirtConfig => "KubevirtConfig",
        }
    }

    /// The group that the kind is of.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Machine | Self::KubevirtConfig => vitistack::GROUP,
            Self::NovacronVirtualMachine => novacron::GROUP,
            _ => names::GROUP,
        }
    }

    /// The version of the group.
    pub const fn version(self) -> &'static str {
        match self {
            Self::Machine | Self::KubevirtConfig => vitistack::VERSION,
            Self::NovacronVirtualMachine => novacron::VERSION,
            _ => names::VERSION,
        }
    }

    /// The kind's name in URLs.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::VirtualMachine | Self::NovacronVirtualMachine => "virtualmachines",
            Self::Provider => "providers",
            Self::VMClass => "vmclasses",
            Self::VMImage => "vmimages",
            Self::VMNetworkAttachment => "vmnetworkattachments",
            Self::VMSnapshot => "vmsnapshots",
            Self::VMPlacementPolicy => "vmplacementpolicies",
            Self::VMMigration => "vmmigrations",
            Self::VMClone => "vmclones",
            Self::VMSet => "vmsets",
            Self::Machine => "machines",
            Self::KubevirtConfig => "kubevirtconfigs",
        }
    }
}

/// One object of one kind: what a pass is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub object: ObjectKey,
}

impl Key {
    /// The object of that kind and name.
    pub const fn new(kind: Kind, object: ObjectKey) -> Self {
        Self { kind, object }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_splits_at_the_first_slash() {
        let key = ObjectKey::new("team-a", "db.prod");
        assert_eq!((key.namespace(), key.name()), ("team-a", "db.prod"));
        assert_eq!(key.to_string(), "team-a/db.prod");
    }
}
