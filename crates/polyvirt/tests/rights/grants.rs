//! Rights, as roles grant them and as requests use them.

use std::fmt;

use polyvirt_testkit::audit::Entry;
use serde_json::Value;

use crate::cluster::{NAMESPACE, Scope, manifests};

/// One verb on one resource, in the whole cluster or in a namespace, for all objects or for some.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    group: String,
    resource: String,
    verb: String,
    namespace: Option<String>,
    names: Vec<String>,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.group, self.resource, self.verb)
    }
}

impl Grant {
    /// As people read it, with where it holds and for what.
    pub fn in_full(&self) -> String {
        let place = self.namespace.as_deref().unwrap_or("the cluster");
        match self.names.as_slice() {
            [] => format!("{self} in {place}"),
            names => format!("{self} in {place}, of {}", names.join(", ")),
        }
    }

    /// Whether the request needed this right. One that applied an object which was not there needed to create it too.
    pub fn is_used_by(&self, entry: &Entry) -> bool {
        let made = entry.verb == "patch" && entry.code == 201 && self.verb == "create";
        let here = self.namespace.as_ref();
        (self.verb == entry.verb || made)
            && self.group == entry.group
            && self.resource == entry.resource
            && here.is_none_or(|namespace| *namespace == entry.namespace)
            && (self.names.is_empty() || self.names.contains(&entry.name))
    }

    /// `*/finalizers` is a right that no request names: it lets objects be owned.
    fn is_asked_for(&self) -> bool {
        !self.resource.ends_with("/finalizers")
    }
}

fn words(list: &Value) -> Vec<String> {
    let list = list.as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

fn of_rule(rule: &Value, namespace: Option<&str>) -> Vec<Grant> {
    let mut grants = Vec::new();
    for group in words(&rule["apiGroups"]) {
        for resource in words(&rule["resources"]) {
            assert_ne!(resource, "*", "a role names what it grants: {rule}");
            grants.extend(words(&rule["verbs"]).into_iter().map(|verb| Grant {
                group: group.clone(),
                resource: resource.clone(),
                verb,
                namespace: namespace.map(str::to_owned),
                names: words(&rule["resourceNames"]),
            }));
        }
    }
    grants
}

/// Roles in its own namespace, in one that it works in, and in the cluster.
fn is_of_the_manager(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    let metadata = &object["metadata"];
    let here = metadata["namespace"].is_null() || metadata["namespace"] == NAMESPACE;
    let own = metadata["name"] == "polyvirt-manager" && here;
    let work = metadata["name"] == "polyvirt-manager-work";
    ["Role", "ClusterRole"].contains(&kind) && (own || work)
}

fn roles(scope: Scope) -> Vec<Value> {
    let all = manifests(scope).into_iter();
    let roles: Vec<_> = all.filter(is_of_the_manager).collect();
    let expected = match scope {
        Scope::Cluster => 2,
        Scope::Namespace => 3,
    };
    assert_eq!(roles.len(), expected, "{scope:?}");
    roles
}

fn of_role(role: &Value) -> Vec<Grant> {
    let namespace = role["metadata"]["namespace"].as_str();
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    let each = rules.iter().flat_map(|rule| of_rule(rule, namespace));
    each.filter(Grant::is_asked_for).collect()
}

/// All that the shipped roles grant the manager.
pub fn shipped(scope: Scope) -> Vec<Grant> {
    roles(scope).iter().flat_map(of_role).collect()
}

/// What they grant it in every namespace.
pub fn everywhere(scope: Scope) -> Vec<Grant> {
    let mut all = shipped(scope);
    all.retain(|grant| grant.namespace.is_none());
    all
}
