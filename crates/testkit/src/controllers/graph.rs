//! Which object owns which, and what follows from a change. Pure: the collector carries it out.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Set by the API server for `--cascade=foreground`: dependents that block are deleted before the owner.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Set by the API server for `--cascade=orphan`: dependents lose the reference and stay.
pub(super) const ORPHAN: &str = "orphan";

pub(super) type Uid = String;

/// What the collector needs of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    /// The key of its kind.
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    pub version: Option<String>,
    pub owners: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
}

impl Node {
    pub fn new(kind: &str, meta: ObjectMeta) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: meta.namespace,
            name: meta.name.unwrap_or_default(),
            version: meta.resource_version,
            owners: meta.owner_references.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }

    /// Whether its deletion waits for the collector because of this finalizer.
    pub fn waits_for(&self, finalizer: &str) -> bool {
        self.deleting && self.finalizers.iter().any(|known| known == finalizer)
    }

    /// Its owners but for these.
    pub fn owners_without(&self, gone: &BTreeSet<Uid>) -> Vec<OwnerReference> {
        let kept = self
            .owners
            .iter()
            .filter(|owner| !gone.contains(&owner.uid));
        kept.cloned().collect()
    }
}

/// All objects of the watched kinds.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl Graph {
    pub fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Stores an object. Returns the objects that must be examined because of it.
    pub fn put(&mut self, uid: Uid, node: Node) -> BTreeSet<Uid> {
        let mut affected = self.forget(&uid);
        for owner in &node.owners {
            let of_owner = self.dependents.entry(owner.uid.clone()).or_default();
            of_owner.insert(uid.clone());
        }
        if !node.owners.is_empty() || node.waits_for(FOREGROUND) || node.waits_for(ORPHAN) {
            affected.insert(uid.clone());
        }
        // An owner in foreground deletion waits until its last blocking dependent is gone or belongs to it no more.
        affected.extend(node.owners.iter().map(|owner| owner.uid.clone()));
        self.nodes.insert(uid, node);
        affected
    }

    /// Drops an object that was deleted. Returns the objects that must be examined because of it.
    pub fn remove(&mut self, uid: &str) -> BTreeSet<Uid> {
        let mut affected = self.forget(uid);
        affected.extend(self.dependents_of(uid));
        affected
    }

    /// Drops all objects of a kind that are not among these: what a new list after a break of the watch shows as deleted.
    pub fn retain(&mut self, kind: &str, listed: &BTreeSet<Uid>) -> BTreeSet<Uid> {
        let of_kind = self.nodes.iter().filter(|(_, node)| node.kind == kind);
        let gone = of_kind
            .map(|(uid, _)| uid)
            .filter(|uid| !listed.contains(*uid));
        let gone: Vec<_> = gone.cloned().collect();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    pub fn dependents_of(&self, uid: &str) -> BTreeSet<Uid> {
        self.dependents.get(uid).cloned().unwrap_or_default()
    }

    /// The dependents that must be gone before an owner in foreground deletion goes.
    pub fn blocking(&self, uid: &str) -> BTreeSet<Uid> {
        let blocks = |dependent: &Uid| {
            let node = self.nodes.get(dependent);
            let mut owners = node.into_iter().flat_map(|node| &node.owners);
            owners.any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
        };
        self.dependents_of(uid).into_iter().filter(blocks).collect()
    }

    /// The owners of the object that is dropped.
    fn forget(&mut self, uid: &str) -> BTreeSet<Uid> {
        let owners = self.nodes.remove(uid).map(|node| node.owners);
        let owners: BTreeSet<_> = owners
            .into_iter()
            .flatten()
            .map(|owner| owner.uid)
            .collect();
        for owner in &owners {
            if let Some(others) = self.dependents.get_mut(owner) {
                others.remove(uid);
            }
            if self.dependents.get(owner).is_some_and(BTreeSet::is_empty) {
                self.dependents.remove(owner);
            }
        }
        owners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, blocks: bool) -> OwnerReference {
        OwnerReference {
            uid: uid.to_owned(),
            block_owner_deletion: Some(blocks),
            ..OwnerReference::default()
        }
    }

    fn node(owners: &[OwnerReference]) -> Node {
        Node {
            owners: owners.to_vec(),
            ..Node::default()
        }
    }

    fn uids(all: &[&str]) -> BTreeSet<Uid> {
        all.iter().map(|uid| (*uid).to_owned()).collect()
    }

    #[test]
    fn deletion_of_an_owner_affects_its_dependents() {
        let mut graph = Graph::default();
        graph.put("owner".into(), node(&[]));
        graph.put("a".into(), node(&[owner("owner", false)]));
        graph.put("b".into(), node(&[owner("other", false)]));
        assert_eq!(graph.remove("owner"), uids(&["a"]));
        assert_eq!(graph.remove("a"), uids(&["owner"]));
        assert_eq!(graph.dependents_of("owner"), uids(&[]));
    }

    #[test]
    fn a_dependent_that_changes_its_owner_no_longer_depends_on_the_first() {
        let mut graph = Graph::default();
        graph.put("a".into(), node(&[owner("first", true)]));
        assert_eq!(graph.blocking("first"), uids(&["a"]));
        graph.put("a".into(), node(&[owner("second", false)]));
        assert_eq!(graph.dependents_of("first"), uids(&[]));
        assert_eq!(graph.dependents_of("second"), uids(&["a"]));
        assert_eq!(graph.blocking("second"), uids(&[]));
    }

    #[test]
    fn a_new_list_shows_what_was_deleted_during_a_break() {
        let mut graph = Graph::default();
        graph.put("owner".into(), node(&[]));
        graph.put("a".into(), node(&[owner("owner", false)]));
        assert_eq!(graph.retain("", &uids(&["a"])), uids(&["a"]));
        assert!(graph.get("owner").is_none());
    }
}
