//! What the API server is to ask, and when.
//!
//! It does not ask about writes that change no spec, such as a finalizer that comes off: so those pass even when nobody
//! answers, and nothing can wait for itself. The webhook that names users of what is deleted is left out when it does not
//! answer, for the finalizer protects by itself. The guard of VirtualMachines is asked about those with an owner only, and never
//! about the deletions of Kubernetes itself.

use polyvirt_api::names::{GROUP, VERSION};
use polyvirt_api::novacron;
use serde_json::{Value, json};

use crate::defaults::RESOURCES as DEFAULTED;
use crate::owned::CLEANERS;

/// The kinds whose deletion may wait for VirtualMachines, by their names in URLs.
const GUARDED: [&str; 5] = [
    "providers",
    "vmclasses",
    "vmimages",
    "vmnetworkattachments",
    "vmplacementpolicies",
];
/// All kinds, by their names in URLs.
const ALL: [&str; 10] = [
    "virtualmachines",
    "providers",
    "vmclasses",
    "vmimages",
    "vmnetworkattachments",
    "vmsnapshots",
    "vmclones",
    "vmmigrations",
    "vmsets",
    "vmplacementpolicies",
];
/// The longest that a user waits for us.
const TIMEOUT_SECONDS: u8 = 5;
const SPEC_CHANGES: &str = "request.operation != 'UPDATE' || (!has(object.metadata.deletionTimestamp) && object.spec != oldObject.spec)";

const HAS_AN_OWNER: &str = "has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)";

/// What happens to requests when nobody answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// They go on.
    #[default]
    Ignore,
    /// They are refused.
    Fail,
}

impl FailurePolicy {
    const fn word(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Fail => "Fail",
        }
    }
}

/// How the API server reaches us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientConfig {
    /// Outside the cluster: `https://host:port`.
    Url(String),
    /// Through a Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
}

/// Both configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The name of both.
    pub name: String,
    /// How we are reached.
    pub client: ClientConfig,
    /// Who vouches for us, as PEM; empty if that is put in later.
    pub authority: Vec<u8>,
    /// What happens when nobody answers.
    pub failure_policy: FailurePolicy,
    /// The namespaces that we work in; none means all.
    pub namespaces: Vec<String>,
    /// Where nobody is ever asked: the namespace of the manager, beside kube-system.
    pub own_namespace: String,
    /// The account of the manager, whose writes are not looked at.
    pub own_account: Option<String>,
}

impl Configuration {
    /// As the API server wants it.
    pub fn validating(&self) -> Value {
        let check = self.webhook(
            "validate",
            "validate.polyvirt.io",
            self.failure_policy,
            &[
                rule(&["CREATE", "UPDATE"], &ALL),
                of_novacron(&["CREATE", "UPDATE"]),
            ],
        );
        let mut guard = self.webhook(
            "validate",
            "guard.polyvirt.io",
            self.failure_policy,
            &[rule(&["DELETE"], &["virtualmachines"])],
        );
        if let Some(conditions) = guard["matchConditions"].as_array_mut() {
            conditions.extend(owned());
        }
        let in_use = self.webhook(
            "validate",
            "in-use.polyvirt.io",
            FailurePolicy::Ignore,
            &[rule(&["DELETE"], &GUARDED)],
        );
        self.object(
            "ValidatingWebhookConfiguration",
            &json!([check, guard, in_use]),
        )
    }

    /// As the API server wants it.
    pub fn mutating(&self) -> Value {
        let mut hook = self.webhook(
            "mutate",
            "default.polyvirt.io",
            self.failure_policy,
            &[rule(&["CREATE", "UPDATE"], &DEFAULTED)],
        );
        hook["reinvocationPolicy"] = json!("Never");
        self.object("MutatingWebhookConfiguration", &json!([hook]))
    }

    fn object(&self, kind: &str, webhooks: &Value) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": self.name, "labels": {"app.kubernetes.io/name": "polyvirt"}},
            "webhooks": webhooks,
        })
    }

    fn webhook(&self, path: &str, name: &str, policy: FailurePolicy, rules: &[Value]) -> Value {
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "failurePolicy": policy.word(),
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": self.namespace_rules()},
            "matchConditions": self.conditions(),
            "rules": rules,
            "clientConfig": self.client_config(path),
        })
    }

    fn namespace_rules(&self) -> Value {
        let rule = |operator: &str, values: Value| json!({"key": "kubernetes.io/metadata.name", "operator": operator, "values": values});
        let mut rules = vec![rule("NotIn", json!(["kube-system", self.own_namespace]))];
        if !self.namespaces.is_empty() {
            rules.push(rule("In", json!(self.namespaces)));
        }
        json!(rules)
    }

    fn conditions(&self) -> Value {
        let mut all = vec![json!({"name": "spec-changes", "expression": SPEC_CHANGES})];
        all.extend(self.own_account.as_ref().map(|account| {
            let expression = format!("request.userInfo.username != {}", json!(account));
            json!({"name": "not-the-manager", "expression": expression})
        }));
        json!(all)
    }

    fn client_config(&self, path: &str) -> Value {
        let mut config = match &self.client {
            ClientConfig::Url(url) => {
                json!({"url": format!("{}/{path}", url.trim_end_matches('/'))})
            }
            ClientConfig::Service {
                namespace,
                name,
                port,
            } => json!({
                "service": {"namespace": namespace, "name": name, "port": port, "path": format!("/{path}")},
            }),
        };
        if !self.authority.is_empty() {
            config["caBundle"] = json!(k8s_openapi::ByteString(self.authority.clone()));
        }
        config
    }
}

/// VirtualMachines that no object controls, and the clean-up of Kubernetes, do not depend on the manager.
fn owned() -> [Value; 2] {
    let cleaners = json!(CLEANERS);
    [
        json!({"name": "has-an-owner", "expression": HAS_AN_OWNER}),
        json!({"name": "not-garbage-collection", "expression": format!("!(request.userInfo.username in {cleaners})")}),
    ]
}

fn rule(operations: &[&str], resources: &[&str]) -> Value {
    json!({
        "apiGroups": [GROUP], "apiVersions": [VERSION], "operations": operations,
        "resources": resources, "scope": "Namespaced",
    })
}

/// NovaCron has no defaults beyond those of its schema, and nothing of it is used by others.
fn of_novacron(operations: &[&str]) -> Value {
    json!({
        "apiGroups": [novacron::GROUP], "apiVersions": [novacron::VERSION], "operations": operations,
        "resources": ["virtualmachines"], "scope": "Namespaced",
    })
}
