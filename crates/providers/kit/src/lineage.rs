//! Which snapshot of a VM is based on which, for hypervisors that do not remember it.

use std::collections::BTreeMap;

use polyvirt_contract::SnapshotId;
use serde::{Deserialize, Serialize};

/// The tree of a VM's snapshots, and where in it the VM has gone on from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lineage {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<SnapshotId>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parents: BTreeMap<SnapshotId, SnapshotId>,
}

impl Lineage {
    /// A snapshot was taken: it is based on the one before it, and the VM goes on from it.
    pub fn taken(&mut self, id: &SnapshotId) {
        if let Some(parent) = self.current.replace(id.clone()) {
            self.parents.insert(id.clone(), parent);
        }
    }

    /// The VM went back to a snapshot, and goes on from there.
    pub fn reverted(&mut self, id: &SnapshotId) {
        self.current = Some(id.clone());
    }

    /// A snapshot is gone: what was based on it is based on its parent.
    pub fn deleted(&mut self, id: &SnapshotId) {
        let heir = self.parents.remove(id);
        let orphans: Vec<_> = self.children(id).cloned().collect();
        for orphan in orphans {
            match &heir {
                Some(heir) => self.parents.insert(orphan, heir.clone()),
                None => self.parents.remove(&orphan),
            };
        }
        if self.current.as_ref() == Some(id) {
            self.current = heir;
        }
    }

    /// The snapshot that this one is based on.
    pub fn parent(&self, id: &SnapshotId) -> Option<&SnapshotId> {
        self.parents.get(id)
    }

    fn children<'a>(&'a self, id: &'a SnapshotId) -> impl Iterator<Item = &'a SnapshotId> {
        let based = self.parents.iter().filter(move |(_, parent)| *parent == id);
        based.map(|(child, _)| child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SnapshotId {
        SnapshotId::from(text)
    }

    fn chain(ids: &[&str]) -> Lineage {
        let mut lineage = Lineage::default();
        for text in ids {
            lineage.taken(&id(text));
        }
        lineage
    }

    #[test]
    fn each_is_based_on_the_one_before() {
        let lineage = chain(&["a", "b", "c"]);
        assert_eq!(lineage.parent(&id("a")), None);
        assert_eq!(lineage.parent(&id("b")), Some(&id("a")));
        assert_eq!(lineage.parent(&id("c")), Some(&id("b")));
    }

    #[test]
    fn a_vm_that_went_back_grows_another_branch() {
        let mut lineage = chain(&["a", "b"]);
        lineage.reverted(&id("a"));
        lineage.taken(&id("c"));
        assert_eq!(lineage.parent(&id("c")), Some(&id("a")));
    }

    #[test]
    fn children_of_what_is_gone_go_to_its_parent() {
        let mut lineage = chain(&["a", "b", "c"]);
        lineage.deleted(&id("b"));
        assert_eq!(lineage.parent(&id("c")), Some(&id("a")));
        lineage.deleted(&id("a"));
        assert_eq!(lineage.parent(&id("c")), None);
    }

    #[test]
    fn a_vm_goes_on_from_the_parent_of_what_is_gone() {
        let mut lineage = chain(&["a", "b"]);
        lineage.deleted(&id("b"));
        lineage.taken(&id("c"));
        assert_eq!(lineage.parent(&id("c")), Some(&id("a")));
    }

    #[test]
    fn what_an_older_version_wrote_is_read() {
        let read: Lineage = serde_json::from_str("{}").unwrap();
        assert_eq!(read, Lineage::default());
    }
}
