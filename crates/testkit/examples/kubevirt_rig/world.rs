//! What the players read and write.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

/// Group, version, kind and plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(
    pub &'static str,
    pub &'static str,
    pub &'static str,
    pub &'static str,
);

pub const NODE: Kind = Kind("", "v1", "Node", "nodes");
pub const NAMESPACE: Kind = Kind("", "v1", "Namespace", "namespaces");
pub const POD: Kind = Kind("", "v1", "Pod", "pods");
pub const CLAIM: Kind = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const VOLUME: Kind = Kind("", "v1", "PersistentVolume", "persistentvolumes");
pub const STORAGE_CLASS: Kind = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses");
pub const IMPORT: Kind = Kind("cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes");
pub const PROFILE: Kind = Kind(
    "cdi.kubevirt.io",
    "v1beta1",
    "StorageProfile",
    "storageprofiles",
);
pub const KUBEVIRT: Kind = Kind("kubevirt.io", "v1", "KubeVirt", "kubevirts");
pub const GUEST: Kind = Kind(
    "kubevirt.io",
    "v1",
    "VirtualMachineInstance",
    "virtualmachineinstances",
);
pub const SNAPSHOT: Kind = Kind(
    "snapshot.storage.k8s.io",
    "v1",
    "VolumeSnapshot",
    "volumesnapshots",
);
pub const SNAPSHOT_CONTENT: Kind = Kind(
    "snapshot.storage.k8s.io",
    "v1",
    "VolumeSnapshotContent",
    "volumesnapshotcontents",
);
pub const SNAPSHOT_CLASS: Kind = Kind(
    "snapshot.storage.k8s.io",
    "v1",
    "VolumeSnapshotClass",
    "volumesnapshotclasses",
);

impl Kind {
    pub fn resource(self) -> ApiResource {
        let Self(group, version, kind, plural) = self;
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: match group {
                "" => version.to_owned(),
                group => format!("{group}/{version}"),
            },
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

/// How long each step of what is played takes.
pub const STEP: Duration = Duration::from_millis(50);
/// A pass that failed is tried again after this time.
const AGAIN: Duration = Duration::from_millis(200);
const AT_ONCE: u16 = 8;
const US: &str = "kubevirt-rig";

/// The cluster, as its administrator and as virt-handler: KubeVirt lets nobody but itself change instances.
pub struct World {
    pub client: Client,
    pub handler: Client,
}

impl World {
    fn client_for(&self, kind: Kind) -> Client {
        if kind == GUEST {
            self.handler.clone()
        } else {
            self.client.clone()
        }
    }

    pub fn all(&self, kind: Kind) -> Api<DynamicObject> {
        Api::all_with(self.client_for(kind), &kind.resource())
    }

    pub fn within(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client_for(kind), namespace, &kind.resource())
    }

    /// The objects of a kind beside another object, or all if that has no namespace.
    pub fn beside(&self, kind: Kind, object: &DynamicObject) -> Api<DynamicObject> {
        match object.namespace() {
            Some(namespace) => self.within(kind, &namespace),
            None => self.all(kind),
        }
    }

    /// Changes an object, if nobody has changed it since it was read: else it is looked at again. The whole object is written, as
    /// KubeVirt's own parts do: a patch would drop empty fields in lists, and virt-controller would take that for a foreign change.
    pub async fn change(
        &self,
        kind: Kind,
        object: &DynamicObject,
        change: Value,
    ) -> kube::Result<()> {
        let mut whole = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
        json_patch::merge(&mut whole, &change);
        let whole = serde_json::from_value(whole).map_err(kube::Error::SerdeError)?;
        let api = self.beside(kind, object);
        let params = PostParams::default();
        let done = api.replace(&object.name_any(), &params, &whole).await;
        gone_is_fine(done.map(drop))
    }

    /// The same for the status of a kind that keeps it apart.
    pub async fn tell(
        &self,
        kind: Kind,
        object: &DynamicObject,
        status: Value,
    ) -> kube::Result<()> {
        let change = json!({
            "metadata": {"resourceVersion": object.resource_version()},
            "status": status,
        });
        let api = self.beside(kind, object);
        let params = PatchParams::default();
        let done = api
            .patch_status(&object.name_any(), &params, &Patch::Merge(&change))
            .await;
        gone_is_fine(done.map(drop))
    }

    /// Makes an object that may be there already.
    pub async fn make(&self, kind: Kind, object: Value) -> kube::Result<()> {
        let wanted: DynamicObject =
            serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let api = self.beside(kind, &wanted);
        match api.create(&PostParams::default(), &wanted).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            made => made.map(drop),
        }
    }

    /// Has the object be like that, status included.
    pub async fn put(&self, kind: Kind, object: Value) -> kube::Result<()> {
        let wanted: DynamicObject =
            serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        let (api, name) = (self.beside(kind, &wanted), wanted.name_any());
        let params = PatchParams::apply(US).force();
        api.patch(&name, &params, &Patch::Apply(&object)).await?;
        if let Some(status) = object.get("status") {
            let status = json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "status": status,
            });
            api.patch_status(&name, &params, &Patch::Apply(&status))
                .await?;
        }
        Ok(())
    }

    /// Removes an object at once.
    pub async fn remove(&self, kind: Kind, object: &DynamicObject) -> kube::Result<()> {
        let params = DeleteParams::default().grace_period(0);
        let done = self
            .beside(kind, object)
            .delete(&object.name_any(), &params)
            .await;
        gone_is_fine(done.map(drop))
    }
}

fn gone_is_fine(answer: kube::Result<()>) -> kube::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        answer => answer,
    }
}

/// Calls `pass` for each object of a kind whenever it changes, for ever.
pub async fn play<F, Fut>(world: Arc<World>, kind: Kind, pass: F)
where
    F: Fn(Arc<World>, Arc<DynamicObject>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = kube::Result<Action>> + Send + 'static,
{
    let config = Config::default().concurrency(AT_ONCE);
    let api = world.all(kind);
    let controller = Controller::new_with(api, watcher::Config::default(), kind.resource());
    let look = move |object: Arc<DynamicObject>, world: Arc<World>| pass(world, object);
    let again = move |object: Arc<DynamicObject>, error: &kube::Error, _: Arc<World>| {
        tracing::debug!(kind = kind.2, name = object.name_any(), %error, "again");
        Action::requeue(AGAIN)
    };
    controller
        .with_config(config)
        .run(look, again, world)
        .for_each(|_| std::future::ready(()))
        .await;
}

/// A text of an object, empty if there is none.
pub fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    let found = object.data.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// A list of an object, empty if there is none.
pub fn list(object: &DynamicObject, pointer: &str) -> Vec<Value> {
    let found = object.data.pointer(pointer).and_then(Value::as_array);
    found.cloned().unwrap_or_default()
}

pub fn is_leaving(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// The time, as Kubernetes writes it.
pub fn now() -> Value {
    json!(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        k8s_openapi::jiff::Timestamp::now()
    ))
}
