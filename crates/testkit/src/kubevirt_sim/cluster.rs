//! What controllers read and write.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::admission;
use super::crds::plural;

const MANAGER: &str = "kubevirt-simulator";
/// The nodes that machines run on.
pub(super) const NODES: [&str; 2] = ["sim-node-1", "sim-node-2"];
/// The storage that claims without a class get.
const STORAGE: &str = "sim-storage";

/// Kinds with a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Vm,
    Vmi,
    DataVolume,
    Claim,
    Snapshot,
    Restore,
    Clone,
    Migration,
}

impl Kind {
    const fn words(self) -> [&'static str; 3] {
        match self {
            Self::Vm => ["kubevirt.io", "v1", "VirtualMachine"],
            Self::Vmi => ["kubevirt.io", "v1", "VirtualMachineInstance"],
            Self::DataVolume => ["cdi.kubevirt.io", "v1beta1", "DataVolume"],
            Self::Claim => ["", "v1", "PersistentVolumeClaim"],
            Self::Snapshot => ["snapshot.kubevirt.io", "v1beta1", "VirtualMachineSnapshot"],
            Self::Restore => ["snapshot.kubevirt.io", "v1beta1", "VirtualMachineRestore"],
            Self::Migration => ["kubevirt.io", "v1", "VirtualMachineInstanceMigration"],
            Self::Clone => ["clone.kubevirt.io", "v1beta1", "VirtualMachineClone"],
        }
    }

    pub(super) fn resource(self) -> ApiResource {
        resource(self.words())
    }

    pub(super) fn api_version(self) -> String {
        self.resource().api_version
    }

    pub(super) const fn name(self) -> &'static str {
        self.words()[2]
    }
}

fn resource([group, version, kind]: [&str; 3]) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        },
        kind: kind.to_owned(),
        plural: plural(kind),
    }
}

/// How disks come to a machine that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HotPlug {
    /// By a request for each.
    Asked,
    /// As the VirtualMachine says.
    Declared,
    /// With the next start.
    Never,
}

impl HotPlug {
    /// As KubeVirt reads its gates: the older one wins.
    fn read(kubevirt: &Value) -> Self {
        let place = "/spec/configuration/developerConfiguration/featureGates";
        let gates = kubevirt.pointer(place).and_then(Value::as_array);
        let has = |name: &str| gates.is_some_and(|gates| gates.iter().any(|gate| gate == name));
        match (has("HotplugVolumes"), has("DeclarativeHotplugVolumes")) {
            (true, _) => Self::Asked,
            (false, true) => Self::Declared,
            (false, false) => Self::Never,
        }
    }
}

/// The cluster, and how fast things happen in it.
pub(super) struct World {
    pub(super) client: Client,
    pub(super) step: Duration,
}

impl World {
    pub(super) fn all(&self, kind: Kind) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &kind.resource())
    }

    pub(super) fn of(&self, kind: Kind, object: &DynamicObject) -> Api<DynamicObject> {
        let namespace = object.namespace().unwrap_or_default();
        Api::namespaced_with(self.client.clone(), &namespace, &kind.resource())
    }

    /// The object of that name in the namespace of the other one.
    pub(super) async fn beside(
        &self,
        kind: Kind,
        object: &DynamicObject,
        name: &str,
    ) -> kube::Result<Option<DynamicObject>> {
        self.of(kind, object).get_opt(name).await
    }

    pub(super) async fn create(&self, kind: Kind, object: &Value) -> kube::Result<()> {
        let wanted: DynamicObject =
            serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        let made = self
            .of(kind, &wanted)
            .create(&PostParams::default(), &wanted)
            .await;
        match made {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            made => made.map(drop),
        }
    }

    /// Changes some fields of the object itself.
    pub(super) async fn change(
        &self,
        kind: Kind,
        object: &DynamicObject,
        change: &Value,
    ) -> kube::Result<()> {
        let (api, params) = (self.of(kind, object), PatchParams::default());
        let patch = Patch::Merge(change);
        let changed = api.patch(&object.name_any(), &params, &patch).await;
        gone_is_fine(changed.map(drop))
    }

    /// The same, if nobody has changed the object since it was read: else it is looked at again.
    pub(super) async fn change_as_read(
        &self,
        kind: Kind,
        object: &DynamicObject,
        mut change: Value,
    ) -> kube::Result<()> {
        change["metadata"]["resourceVersion"] = json!(object.metadata.resource_version);
        self.change(kind, object, &change).await
    }

    /// Writes status, if it differs.
    pub(super) async fn tell(
        &self,
        kind: Kind,
        object: &DynamicObject,
        status: &Value,
    ) -> kube::Result<()> {
        if object.data.get("status") == Some(status) {
            return Ok(());
        }
        let (api, params) = (self.of(kind, object), PatchParams::default());
        let change = json!({"status": status});
        let patch = Patch::Merge(&change);
        let told = api.patch_status(&object.name_any(), &params, &patch).await;
        gone_is_fine(told.map(drop))
    }

    pub(super) async fn delete(&self, kind: Kind, object: &DynamicObject) -> kube::Result<()> {
        let api = self.of(kind, object);
        let params = DeleteParams::default();
        let deleted = api.delete(&object.name_any(), &params).await;
        gone_is_fine(deleted.map(drop))
    }

    /// Keeps the object from going.
    pub(super) async fn hold(
        &self,
        kind: Kind,
        object: &DynamicObject,
        finalizer: &str,
    ) -> kube::Result<()> {
        let others = object.finalizers().iter().map(String::as_str);
        let all: Vec<&str> = others.chain([finalizer]).collect();
        self.finalize(kind, object, &all).await
    }

    /// Lets the object go, as far as it is held by this finalizer.
    pub(super) async fn release(
        &self,
        kind: Kind,
        object: &DynamicObject,
        finalizer: &str,
    ) -> kube::Result<()> {
        let all = object.finalizers().iter().map(String::as_str);
        let others: Vec<&str> = all.filter(|name| *name != finalizer).collect();
        self.finalize(kind, object, &others).await
    }

    async fn finalize(
        &self,
        kind: Kind,
        object: &DynamicObject,
        finalizers: &[&str],
    ) -> kube::Result<()> {
        if object.finalizers() == finalizers {
            return Ok(());
        }
        let change = json!({"metadata": {
            "finalizers": finalizers,
            "resourceVersion": object.resource_version(),
        }});
        self.change(kind, object, &change).await
    }

    /// Nodes and storage, as every cluster has them.
    pub(super) async fn furnish(&self) -> kube::Result<()> {
        for name in NODES {
            let kind = ["", "v1", "Node"];
            self.put(kind, &node(name)).await?;
            // A server taints nodes that are new, and nobody else is there to take that off.
            self.put(kind, &node(name)).await?;
        }
        self.put(["storage.k8s.io", "v1", "StorageClass"], &storage_class())
            .await?;
        let profile = ["cdi.kubevirt.io", "v1beta1", "StorageProfile"];
        self.put(profile, &storage_profile()).await
    }

    /// All objects of a kind that has no controller here.
    pub(super) async fn all_of(&self, words: [&str; 3]) -> kube::Result<Vec<DynamicObject>> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(words));
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// How disks come to a machine that runs.
    pub(super) async fn hot_plug(&self) -> kube::Result<HotPlug> {
        let all = self.all_of(["kubevirt.io", "v1", "KubeVirt"]).await?;
        let first = all.first().map(|kubevirt| HotPlug::read(&kubevirt.data));
        Ok(first.unwrap_or(HotPlug::Never))
    }

    /// KubeVirt's own object.
    pub(super) async fn introduce(&self, version: &str) -> kube::Result<()> {
        let name = "kubevirt";
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.put(["", "v1", "Namespace"], &namespace).await?;
        let object = json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "KubeVirt",
            "metadata": {"name": name, "namespace": name},
            "spec": {"configuration": {"developerConfiguration": {
                "featureGates": ["Snapshot", "HotplugVolumes"],
            }}},
            "status": {"phase": "Deployed", "observedKubeVirtVersion": version},
        });
        self.put(["kubevirt.io", "v1", "KubeVirt"], &object).await
    }

    /// Has the API server refuse what KubeVirt's webhooks refuse.
    pub(super) async fn legislate(&self) -> kube::Result<()> {
        let group = "admissionregistration.k8s.io";
        let policy = [group, "v1", "ValidatingAdmissionPolicy"];
        self.put(policy, &admission::policy()).await?;
        let binding = [group, "v1", "ValidatingAdmissionPolicyBinding"];
        self.put(binding, &admission::binding()).await
    }

    pub(super) async fn put(&self, words: [&str; 3], object: &Value) -> kube::Result<()> {
        let client = self.client.clone();
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource(words)),
            None => Api::all_with(client, &resource(words)),
        };
        let params = PatchParams::apply(MANAGER).force();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        api.patch(name, &params, &Patch::Apply(object)).await?;
        if let Some(status) = object.get("status") {
            let status = json!({
                "apiVersion": object["apiVersion"],
                "kind": object["kind"],
                "status": status,
            });
            api.patch_status(name, &params, &Patch::Apply(&status))
                .await?;
        }
        Ok(())
    }
}

fn gone_is_fine(answer: kube::Result<()>) -> kube::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        answer => answer,
    }
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubevirt.io/schedulable": "true",
        }},
        "spec": {"taints": []},
        "status": {
            "allocatable": {"cpu": "256", "memory": "1Ti", "pods": "2000"},
            "capacity": {"cpu": "256", "memory": "1Ti", "pods": "2000"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Simulated"}],
        },
    })
}

fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE, "annotations": {
            "storageclass.kubernetes.io/is-default-class": "true",
        }},
        "provisioner": "sim.polyvirt.io/storage",
        "allowVolumeExpansion": true,
    })
}

fn storage_profile() -> Value {
    json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "StorageProfile",
        "metadata": {"name": STORAGE},
        "spec": {},
        "status": {"storageClass": STORAGE, "claimPropertySets": [
            {"accessModes": ["ReadWriteMany"], "volumeMode": "Block"},
            {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
        ]},
    })
}
