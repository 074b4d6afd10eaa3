//! The objects beside a VirtualMachine: claims, volumes, Secrets, network definitions.

use std::collections::BTreeMap;

use polyvirt_api::kubevirt::Attachment;
use polyvirt_contract::model::Owner;
use serde_json::{Map, Value, json};

use crate::kinds::{IDENTITY, Kind, MANAGED_BY, MANAGER, OWNER_NAME, OWNER_NAMESPACE, VM, VmKey};
use crate::map::layout::{Disk, Source};
use crate::names;
use crate::quantity;

/// By what an object is known as ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks<'a> {
    pub(crate) owner: Option<&'a Owner>,
    pub(crate) labels: &'a BTreeMap<String, String>,
}

impl Marks<'_> {
    /// Ours cannot be taken away by a person's.
    pub(crate) fn labels(&self) -> Value {
        let mut labels = self.labels.clone();
        labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
        if let Some(owner) = self.owner {
            labels.insert(IDENTITY.to_owned(), owner.identity.to_string());
        }
        json!(labels)
    }

    pub(crate) fn annotations(&self) -> Value {
        let mut annotations = Map::new();
        if let Some(owner) = self.owner {
            annotations.insert(OWNER_NAMESPACE.to_owned(), json!(owner.namespace));
            annotations.insert(OWNER_NAME.to_owned(), json!(owner.name));
        }
        Value::Object(annotations)
    }
}

/// An object with name and marks, and nothing else.
pub(crate) fn named(kind: Kind, key: &VmKey, marks: &Marks<'_>) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": marks.labels(),
            "annotations": marks.annotations(),
        },
    })
}

/// The VirtualMachine that an object goes with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor<'a> {
    pub(crate) key: &'a VmKey,
    pub(crate) uid: &'a str,
    pub(crate) marks: Marks<'a>,
}

impl Anchor<'_> {
    /// An object that belongs to the VM and goes when it goes.
    pub(crate) fn object(&self, kind: Kind, name: &str) -> Value {
        let key = VmKey::new(&self.key.namespace, name);
        let mut object = named(kind, &key, &self.marks);
        object["metadata"]["annotations"][VM] = json!(self.key.name);
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": Kind::Vm.api_version(),
            "kind": Kind::Vm.name(),
            "name": self.key.name,
            "uid": self.uid,
        }]);
        object
    }

    /// The claim, or the volume that CDI fills and makes the claim for.
    pub(crate) fn disk(&self, disk: &Disk, shape: &Shape) -> (Kind, Value) {
        let name = disk.claim.name();
        if disk.source == Source::Empty {
            let mut claim = self.object(Kind::Claim, name);
            claim["spec"] = shape.claim_spec(disk);
            return (Kind::Claim, claim);
        }
        let mut volume = self.object(Kind::DataVolume, name);
        volume["spec"] = filled(&disk.source);
        volume["spec"]["storage"] = shape.storage(disk);
        (Kind::DataVolume, volume)
    }

    /// The Secret with what the guest reads at first boot.
    pub(crate) fn secret(&self, data: &Value) -> Value {
        let mut secret = self.object(Kind::Secret, &seed_name(self.key));
        secret["type"] = json!("Opaque");
        secret["data"] = data.clone();
        secret
    }
}

/// The name of the Secret with what the guest reads at first boot.
pub(crate) fn seed_name(key: &VmKey) -> String {
    names::joined(&key.name, "cloudinit")
}

/// A NetworkAttachmentDefinition that somebody asked for. VMs share it, so it is nobody's.
pub(crate) fn attachment(namespace: &str, wanted: &Attachment, config: &str) -> Value {
    let marks = Marks {
        owner: None,
        labels: &wanted.labels,
    };
    let mut object = named(Kind::Nad, &VmKey::new(namespace, &wanted.name), &marks);
    object["spec"] = json!({"config": config});
    object
}

/// How a claim may be used, where that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) access_mode: Option<String>,
    pub(crate) volume_mode: Option<String>,
}

impl Shape {
    /// CDI knows the rest from the StorageProfile.
    fn storage(&self, disk: &Disk) -> Value {
        let mut spec = json!({});
        if let Some(bytes) = disk.bytes {
            spec["resources"] = json!({"requests": {"storage": quantity::of_bytes(bytes)}});
        }
        if let Some(class) = &disk.storage_class {
            spec["storageClassName"] = json!(class);
        }
        if let Some(mode) = &self.access_mode {
            spec["accessModes"] = json!([mode]);
        }
        if let Some(mode) = &self.volume_mode {
            spec["volumeMode"] = json!(mode);
        }
        spec
    }

    fn claim_spec(&self, disk: &Disk) -> Value {
        let mut spec = self.storage(disk);
        if self.access_mode.is_none() {
            spec["accessModes"] = json!(["ReadWriteOnce"]);
        }
        spec
    }
}

/// What CDI fills a volume from: the beginning of its `spec`.
pub(crate) fn filled(source: &Source) -> Value {
    let place = |key: &VmKey| json!({"namespace": key.namespace, "name": key.name});
    match source {
        Source::Empty => json!({"source": {"blank": {}}}),
        Source::Http { url, checksum } if checksum.is_empty() => {
            json!({"source": {"http": {"url": url}}})
        }
        Source::Http { url, checksum } => {
            json!({"source": {"http": {"url": url, "checksum": checksum}}})
        }
        Source::Registry { url } => json!({"source": {"registry": {"url": url}}}),
        Source::S3 { url } => json!({"source": {"s3": {"url": url}}}),
        Source::Gcs { url } => json!({"source": {"gcs": {"url": url}}}),
        Source::Claim(key) => json!({"source": {"pvc": place(key)}}),
        Source::Snapshot(key) => json!({"source": {"snapshot": place(key)}}),
        Source::Pointer(key) => {
            let mut reference = place(key);
            reference["kind"] = json!("DataSource");
            json!({"sourceRef": reference})
        }
    }
}
