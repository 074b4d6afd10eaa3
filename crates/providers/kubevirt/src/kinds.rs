//! The kinds that the provider works with, and the marks by which it knows its own.

use kube::core::{ApiResource, DynamicObject};
use polyvirt_contract::VmId;
use polyvirt_contract::model::Owner;
use serde_json::Value;

/// Who writes fields by server-side apply.
pub(crate) const MANAGER: &str = "polyvirt";
/// Who writes down which requests were carried out: apart from the fields that a later apply would take away.
pub(crate) const NOTES: &str = "polyvirt-notes";

/// Label: whose a VM, a claim or a Secret is.
pub(crate) const IDENTITY: &str = "polyvirt.io/identity";
/// Label of all that the provider makes.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Annotation: the owner's namespace.
pub(crate) const OWNER_NAMESPACE: &str = "polyvirt.io/owner-namespace";
/// Annotation: the owner's name.
pub(crate) const OWNER_NAME: &str = "polyvirt.io/owner-name";
/// Annotation of claims, Secrets and snapshots: the name of their VM.
pub(crate) const VM: &str = "polyvirt.io/vm";
/// Annotation of a VM that is being made.
pub(crate) const CREATING: &str = "polyvirt.io/creating";
/// Annotation: the node that was asked for, and how firmly, as JSON.
pub(crate) const PLACED: &str = "polyvirt.io/placed";
/// Label of nodes by which selectors choose one. It need not be the node's name.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// Annotation: tags, separated by commas.
pub(crate) const TAGS: &str = "polyvirt.io/tags";
/// Annotation: the last request that was carried out.
pub(crate) const LAST_REQUEST: &str = "polyvirt.io/last-request";
/// Annotation: a restart that was begun, and of which instance.
pub(crate) const RESTART: &str = "polyvirt.io/restart";
/// Annotations of snapshots: what they were asked for under, and for people.
pub(crate) const SNAPSHOT_NAME: &str = "polyvirt.io/snapshot-name";
/// See [`SNAPSHOT_NAME`].
pub(crate) const DESCRIPTION: &str = "polyvirt.io/description";

/// A kind of object in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Vm,
    Vmi,
    Claim,
    DataVolume,
    DataSource,
    VolumeSnapshot,
    Secret,
    Namespace,
    Node,
    StorageClass,
    StorageProfile,
    Nad,
    Snapshot,
    Restore,
    Clone,
    Migration,
    MigrationPolicy,
    KubeVirt,
    PodMetrics,
}

impl Kind {
    /// Whether VMs can do without it: an account that may use VMs, claims and Secrets alone is enough to run them. What it may
    /// not see is told once, and refused when it is asked for.
    pub(crate) const fn is_optional(self) -> bool {
        matches!(
            self,
            Self::DataVolume
                | Self::Snapshot
                | Self::Restore
                | Self::Clone
                | Self::Migration
                | Self::MigrationPolicy
                | Self::PodMetrics
        )
    }

    /// Group, version, kind and plural.
    const fn words(self) -> [&'static str; 4] {
        match self {
            Self::Vm => ["kubevirt.io", "v1", "VirtualMachine", "virtualmachines"],
            Self::Vmi => [
                "kubevirt.io",
                "v1",
                "VirtualMachineInstance",
                "virtualmachineinstances",
            ],
            Self::Claim => ["", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"],
            Self::DataVolume => ["cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes"],
            Self::DataSource => ["cdi.kubevirt.io", "v1beta1", "DataSource", "datasources"],
            Self::VolumeSnapshot => [
                "snapshot.storage.k8s.io",
                "v1",
                "VolumeSnapshot",
                "volumesnapshots",
            ],
            Self::Secret => ["", "v1", "Secret", "secrets"],
            Self::Namespace => ["", "v1", "Namespace", "namespaces"],
            Self::Node => ["", "v1", "Node", "nodes"],
            Self::StorageClass => ["storage.k8s.io", "v1", "StorageClass", "storageclasses"],
            Self::StorageProfile => [
                "cdi.kubevirt.io",
                "v1beta1",
                "StorageProfile",
                "storageprofiles",
            ],
            Self::Nad => [
                "k8s.cni.cncf.io",
                "v1",
                "NetworkAttachmentDefinition",
                "network-attachment-definitions",
            ],
            Self::Snapshot => [
                "snapshot.kubevirt.io",
                "v1beta1",
                "VirtualMachineSnapshot",
                "virtualmachinesnapshots",
            ],
            Self::Restore => [
                "snapshot.kubevirt.io",
                "v1beta1",
                "VirtualMachineRestore",
                "virtualmachinerestores",
            ],
            Self::KubeVirt => ["kubevirt.io", "v1", "KubeVirt", "kubevirts"],
            Self::PodMetrics => ["metrics.k8s.io", "v1beta1", "PodMetrics", "pods"],
            Self::Migration => [
                "kubevirt.io",
                "v1",
                "VirtualMachineInstanceMigration",
                "virtualmachineinstancemigrations",
            ],
            Self::MigrationPolicy => [
                "migrations.kubevirt.io",
                "v1alpha1",
                "MigrationPolicy",
                "migrationpolicies",
            ],
            Self::Clone => [
                "clone.kubevirt.io",
                "v1beta1",
                "VirtualMachineClone",
                "virtualmachineclones",
            ],
        }
    }

    /// Group and plural, as a rule of a Role names them.
    pub(crate) const fn rule(self) -> [&'static str; 2] {
        let [group, _, _, plural] = self.words();
        [group, plural]
    }

    /// What is done with objects of this kind.
    pub(crate) const fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Node | Self::StorageClass | Self::StorageProfile | Self::KubeVirt => {
                &["get", "list"]
            }
            Self::Namespace => &["get", "create", "patch"],
            Self::DataSource | Self::VolumeSnapshot => &["get"],
            Self::PodMetrics => &["list"],
            _ => &["get", "list", "watch", "create", "patch", "delete"],
        }
    }

    pub(crate) fn resource(self) -> ApiResource {
        let [group, version, kind, plural] = self.words();
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }

    /// As it stands in an object.
    pub(crate) fn api_version(self) -> String {
        match self.words() {
            ["", version, ..] => version.to_owned(),
            [group, version, ..] => format!("{group}/{version}"),
        }
    }

    /// As it stands in an object.
    pub(crate) const fn name(self) -> &'static str {
        self.words()[2]
    }
}

/// Where a VM is. As an id it is `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VmKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl VmKey {
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// `None` for an id that this provider never gave.
    pub(crate) fn parse(id: &VmId) -> Option<Self> {
        let (namespace, name) = id.as_str().split_once('/')?;
        let fits = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
        fits.then(|| Self::new(namespace, name))
    }

    pub(crate) fn id(&self) -> VmId {
        VmId::from(self.to_string())
    }
}

impl std::fmt::Display for VmKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The label of an object.
pub(crate) fn label<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object
        .metadata
        .labels
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

/// The annotation of an object.
pub(crate) fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    let all = object.metadata.annotations.as_ref()?;
    all.get(key).map(String::as_str)
}

/// Whose the object is; `None` if it carries no identity.
pub(crate) fn owner(object: &DynamicObject) -> Option<Owner> {
    let identity = label(object, IDENTITY).filter(|text| !text.is_empty())?;
    Some(Owner {
        identity: identity.into(),
        namespace: annotation(object, OWNER_NAMESPACE)
            .unwrap_or_default()
            .to_owned(),
        name: annotation(object, OWNER_NAME)
            .unwrap_or_default()
            .to_owned(),
    })
}

/// The object's version as a number; 0 if it has none.
pub(crate) fn version(object: &DynamicObject) -> u64 {
    let text = object.metadata.resource_version.as_deref();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The text at a pointer; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// The entries at a pointer; none if there is no list.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_namespace_and_name() {
        for (id, key) in [
            ("a/b", Some(VmKey::new("a", "b"))),
            ("vm-that-never-was", None),
            ("/b", None),
            ("a/", None),
            ("a/b/c", None),
        ] {
            assert_eq!(VmKey::parse(&VmId::from(id)), key, "{id}");
        }
        assert_eq!(VmKey::new("a", "b").id().as_str(), "a/b");
    }

    #[test]
    fn kinds_know_where_they_live() {
        assert_eq!(Kind::Claim.api_version(), "v1");
        assert_eq!(Kind::DataVolume.api_version(), "cdi.kubevirt.io/v1beta1");
        assert_eq!(Kind::Vm.resource().plural, "virtualmachines");
    }
}
