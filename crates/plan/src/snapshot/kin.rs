//! The family of a snapshot: what it is based on, and what is based on it, among the objects that people know.

use polyvirt_api::infra::{SnapshotRef, VMSnapshot};
use polyvirt_contract::model::SnapshotState;

use crate::snapshot::desired::hypervisor_name;

/// More children than this are not told.
const MOST_CHILDREN: usize = 100;

/// The relatives of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kin {
    /// What it is based on.
    pub parent: Option<SnapshotRef>,
    /// What is based on it, in the order in which it was taken.
    pub children: Vec<SnapshotRef>,
}

/// The relatives of `ours`, of all that the provider lists. Snapshots that no object stands for are left out.
pub fn kin(ours: &SnapshotState, listed: &[SnapshotState], objects: &[&VMSnapshot]) -> Kin {
    let object_of = |state: &SnapshotState| {
        let object = objects.iter().find(|object| stands_for(object, state));
        object.map(|object| points_at(object))
    };
    let is_parent = |state: &&SnapshotState| Some(&state.id) == ours.parent.as_ref();
    let is_child = |state: &&SnapshotState| state.parent.as_ref() == Some(&ours.id);
    Kin {
        parent: listed.iter().find(is_parent).and_then(object_of),
        children: listed
            .iter()
            .filter(is_child)
            .filter_map(object_of)
            .take(MOST_CHILDREN)
            .collect(),
    }
}

/// By its id once that is known, by the name that it was asked for under before.
fn stands_for(object: &VMSnapshot, state: &SnapshotState) -> bool {
    let known = object
        .status
        .as_ref()
        .and_then(|s| s.snapshot_id.as_deref());
    known == Some(state.id.as_str()) || hypervisor_name(object) == state.name
}

fn points_at(object: &VMSnapshot) -> SnapshotRef {
    SnapshotRef {
        name: object.metadata.name.clone().unwrap_or_default(),
        namespace: object.metadata.namespace.clone(),
        uid: object.metadata.uid.clone(),
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::{VMSnapshotSpec, VMSnapshotStatus};

    use super::*;

    fn object(name: &str) -> VMSnapshot {
        let mut object = VMSnapshot::new(name, VMSnapshotSpec::default());
        object.status = Some(VMSnapshotStatus {
            snapshot_id: Some(format!("id-{name}")),
            ..VMSnapshotStatus::default()
        });
        object
    }

    fn state(name: &str, parent: Option<&str>) -> SnapshotState {
        SnapshotState {
            id: format!("id-{name}").into(),
            parent: parent.map(|p| format!("id-{p}").into()),
            ..SnapshotState::default()
        }
    }

    fn names(refs: &[SnapshotRef]) -> Vec<&str> {
        refs.iter().map(|r| r.name.as_str()).collect()
    }

    #[test]
    fn parents_and_children_are_named_by_their_objects() {
        let listed = [
            state("a", None),
            state("b", Some("a")),
            state("c", Some("b")),
            state("d", Some("b")),
        ];
        let [a, b, c, d] = ["a", "b", "c", "d"].map(object);
        let found = kin(&listed[1], &listed, &[&a, &b, &c, &d]);
        assert_eq!(found.parent.map(|p| p.name), Some("a".to_owned()));
        assert_eq!(names(&found.children), ["c", "d"]);
    }

    #[test]
    fn what_no_object_stands_for_is_left_out() {
        let listed = [state("a", None), state("b", Some("a"))];
        assert_eq!(kin(&listed[1], &listed, &[&object("b")]).parent, None);
        assert!(kin(&listed[0], &listed, &[]).children.is_empty());
    }

    #[test]
    fn one_without_an_id_yet_is_known_by_its_name() {
        let mut young = object("young");
        young.status = None;
        let mut child = state("young", Some("a"));
        child.name = hypervisor_name(&young);
        let listed = [state("a", None), child];
        let found = kin(&listed[0], &listed, &[&object("a"), &young]);
        assert_eq!(names(&found.children), ["young"]);
    }
}
