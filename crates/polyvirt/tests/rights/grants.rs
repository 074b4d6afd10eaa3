//! Rights, as roles grant them and as requests use them.

use std::collections::BTreeSet;
use std::fmt;

use polyvirt_testkit::audit::Entry;
use serde_json::Value;

use crate::cluster::{NAMESPACE, Scope, manifests};

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    group: String,
    resource: String,
    verb: String,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.group, self.resource, self.verb)
    }
}

impl Grant {
    /// The rights that a request needed: none if it was for no resource or for one's own rights, and two if it applied an
    /// object that was not there.
    pub fn of(entry: &Entry) -> Vec<Self> {
        let free = entry.resource.is_empty() || entry.resource.starts_with("selfsubject");
        let made = (entry.verb == "patch" && entry.code == 201).then_some("create");
        let verbs = made.into_iter().chain([entry.verb.as_str()]);
        verbs
            .filter(|_| !free)
            .map(|verb| Self {
                group: entry.group.clone(),
                resource: entry.resource.clone(),
                verb: verb.to_owned(),
            })
            .collect()
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

fn of_rule(rule: &Value) -> Vec<Grant> {
    let mut grants = Vec::new();
    for group in words(&rule["apiGroups"]) {
        for resource in words(&rule["resources"]) {
            assert_ne!(resource, "*", "a role names what it grants: {rule}");
            grants.extend(words(&rule["verbs"]).into_iter().map(|verb| Grant {
                group: group.clone(),
                resource: resource.clone(),
                verb,
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

fn granted(roles: &[Value]) -> BTreeSet<Grant> {
    let each = roles
        .iter()
        .flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default());
    each.flat_map(|rule| of_rule(&rule))
        .filter(Grant::is_asked_for)
        .collect()
}

/// All that the shipped roles grant the manager.
pub fn shipped(scope: Scope) -> BTreeSet<Grant> {
    granted(&roles(scope))
}

/// What they grant it in every namespace.
pub fn everywhere(scope: Scope) -> BTreeSet<Grant> {
    let mut roles = roles(scope);
    roles.retain(|role| role["kind"] == "ClusterRole");
    granted(&roles)
}
