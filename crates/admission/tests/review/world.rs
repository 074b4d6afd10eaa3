//! A world that a test describes, and questions about it.

use std::collections::HashMap;
use std::sync::Arc;

use polyvirt_admission::{
    Decision, Facts, Found, GroupKind, Operation, Owner, OwnerState, Request, Users, Verdict,
    review,
};
use polyvirt_api::infra::{
    Provider, ProviderType, RuntimeMode, VMClass, VMImage, VMNetworkAttachment, VMSnapshot,
    VirtualMachine,
};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::vm_index::Target;
use polyvirt_plan::{Problem, Reason};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Objects by kind and name, all in namespace `team`; nothing is known while it is `blind`.
pub struct World {
    pub blind: bool,
    objects: HashMap<(String, String), Value>,
    users: HashMap<String, usize>,
    leaving: usize,
    pub owner: OwnerState,
}

pub fn manifest(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": kind,
        "metadata": {"name": name, "namespace": "team", "uid": "u"},
        "spec": spec,
    })
}

impl Default for World {
    fn default() -> Self {
        Self {
            blind: false,
            objects: HashMap::new(),
            users: HashMap::new(),
            leaving: 0,
            owner: OwnerState::Stays,
        }
    }
}

impl World {
    /// A mock provider that is connected and honours little, a class, an image, a network.
    pub fn furnished() -> Self {
        Self::default()
            .with(
                "VMClass",
                "small",
                json!({"spec": {"cpu": 1, "memory": "1Gi"}}),
            )
            .with(
                "VMImage",
                "base",
                json!({"spec": {"source": {"libvirt": {"path": "/a"}}}}),
            )
            .with(
                "VMNetworkAttachment",
                "lan",
                json!({"spec": {"network": {}}}),
            )
            .with(
                "Provider",
                "hv",
                json!({
                    "spec": {"type": "mock", "runtime": {"mode": "InProcess"}},
                    "status": {
                        "reportedCapabilities": {"supportsSnapshots": true},
                        "honouredFields": ["spec.userData.cloudInit", "spec.networks[].macAddress"],
                    },
                }),
            )
    }

    pub fn with(mut self, kind: &str, name: &str, parts: Value) -> Self {
        let mut object = manifest(kind, name, json!({}));
        for (part, value) in parts.as_object().unwrap() {
            object[part] = value.clone();
        }
        let key = (kind.to_owned(), name.to_owned());
        self.objects.insert(key, object);
        self
    }

    pub fn used(mut self, name: &str, by: usize) -> Self {
        self.users.insert(format!("team/{name}"), by);
        self
    }

    pub fn also_by_leaving(mut self, number: usize) -> Self {
        self.leaving = number;
        self
    }

    fn find<K: DeserializeOwned>(&self, kind: &str, key: &ObjectKey) -> Found<K> {
        if self.blind {
            return Found::Unknown;
        }
        let found = self.objects.get(&(kind.to_owned(), key.name().to_owned()));
        let found = found.filter(|_| key.namespace() == "team");
        let found = found.map(|value| serde_json::from_value(value.clone()).unwrap());
        found.map_or(Found::Missing, |object| Found::Here(Arc::new(object)))
    }

    pub fn create(&self, kind: &str, spec: Value) -> Verdict {
        self.ask(
            kind,
            Operation::Create,
            manifest(kind, "it", spec),
            Value::Null,
        )
    }

    pub fn update(&self, kind: &str, old: Value, new: Value) -> Verdict {
        let (old, new) = (manifest(kind, "it", old), manifest(kind, "it", new));
        self.ask(kind, Operation::Update, new, old)
    }

    pub fn ask(&self, kind: &str, operation: Operation, new: Value, old: Value) -> Verdict {
        review(&Self::request(kind, operation, new, old), self)
    }

    pub fn request(kind: &str, operation: Operation, new: Value, old: Value) -> Request {
        Request {
            kind: GroupKind {
                group: "infra.virtrigaud.io".to_owned(),
                kind: kind.to_owned(),
            },
            uid: "1".to_owned(),
            name: "it".to_owned(),
            namespace: "team".to_owned(),
            operation,
            object: new,
            old_object: old,
            ..Request::default()
        }
    }
}

impl Facts for World {
    fn provider(&self, key: &ObjectKey) -> Found<Provider> {
        self.find("Provider", key)
    }
    fn providers(&self, _: &str) -> Vec<Arc<Provider>> {
        let all = self
            .objects
            .iter()
            .filter(|((kind, _), _)| kind == "Provider");
        let all = all.filter(|_| !self.blind);
        all.map(|(_, value)| Arc::new(serde_json::from_value(value.clone()).unwrap()))
            .collect()
    }
    fn class(&self, key: &ObjectKey) -> Found<VMClass> {
        self.find("VMClass", key)
    }
    fn image(&self, key: &ObjectKey) -> Found<VMImage> {
        self.find("VMImage", key)
    }
    fn network(&self, key: &ObjectKey) -> Found<VMNetworkAttachment> {
        self.find("VMNetworkAttachment", key)
    }
    fn vm(&self, key: &ObjectKey) -> Found<VirtualMachine> {
        self.find("VirtualMachine", key)
    }
    fn names(&self, kind: &str, _: &str) -> Vec<String> {
        let all = self.objects.keys().filter(|(of, _)| of == kind);
        all.map(|(_, name)| name.clone()).collect()
    }
    fn snapshot(&self, key: &ObjectKey) -> Found<VMSnapshot> {
        self.find("VMSnapshot", key)
    }
    fn secret(&self, key: &ObjectKey) -> Found<()> {
        match self.find::<Value>("Secret", key) {
            Found::Here(_) => Found::Here(Arc::new(())),
            Found::Missing => Found::Missing,
            Found::Unknown => Found::Unknown,
        }
    }
    fn owner(&self, _: &str, _: &Owner) -> OwnerState {
        self.owner
    }
    fn users(&self, target: &Target) -> Option<Users> {
        let (Target::Provider(key)
        | Target::Class(key)
        | Target::Image(key)
        | Target::Network(key)
        | Target::Policy(key)) = target
        else {
            return None;
        };
        let count = *self.users.get(&key.to_string()).unwrap_or(&0);
        let some = (0..count.min(10)).map(|i| ObjectKey::new("team", &format!("vm-{i}")));
        (!self.blind).then(|| Users {
            count,
            some: some.collect(),
            leaving: self.leaving,
        })
    }
    fn runnable(&self, provider: &Provider) -> Result<(), Problem> {
        let runtime = provider.spec.runtime.as_ref();
        let inside = runtime.is_some_and(|r| r.mode == RuntimeMode::InProcess);
        let linked = [ProviderType::Mock, ProviderType::Qemu].contains(&provider.spec.type_);
        if linked || !inside && provider.spec.type_ != ProviderType::Proxmox {
            return Ok(());
        }
        let text = "Providers of this type do not run inside the manager. Run one elsewhere";
        Err(Problem::new(
            Reason::RuntimeUnsupported,
            "spec.runtime.mode",
            text,
        ))
    }
}

/// The fields of a refusal; none if it was allowed.
pub fn fields(verdict: &Verdict) -> Vec<&str> {
    match &verdict.decision {
        Decision::Invalid(problems) => problems.iter().map(|p| p.field.as_str()).collect(),
        Decision::Allowed => Vec::new(),
        Decision::Owned(message) => panic!("owned: {message}"),
    }
}

/// Each of these words is in a warning of its own, and there are no other warnings.
pub fn assert_warned(verdict: &Verdict, words: &[&str]) {
    let told = &verdict.warnings;
    assert_eq!(told.len(), words.len(), "{told:#?}");
    for word in words {
        assert!(
            told.iter().any(|w| w.contains(word)),
            "{word:?} is not in {told:#?}"
        );
    }
}
