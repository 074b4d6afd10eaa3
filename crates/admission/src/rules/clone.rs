//! VMClones.

use polyvirt_api::infra::VMClone;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::Problem;

use super::{Judged, cards, disks, guest_data, invalid, references, unattended};
use crate::facts::Facts;

impl Judged for VMClone {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let target = &self.spec.target;
        let mut found = cards::problems("spec.target.networks", &target.networks);
        found.extend(disks::problems("spec.target.disks", &target.disks));
        found.extend(onto_itself(self));
        if let Some(custom) = &self.spec.customization {
            let root = "spec.customization";
            let networks = format!("{root}.networks");
            found.extend(cards::of_customization(&networks, &custom.networks));
            found.extend(guest_data::problems(
                root,
                custom.user_data.as_deref(),
                None,
                None,
            ));
        }
        found
    }

    fn warnings(&self, old: Option<&Self>, _: &dyn Facts) -> Vec<String> {
        // What it would lack does not matter: nothing is cloned.
        let new = old.is_none();
        new.then(|| unattended("VMClone")).into_iter().collect()
    }
}

fn target(clone: &VMClone, namespace: &str) -> ObjectKey {
    let target = &clone.spec.target;
    ObjectKey::new(
        target.namespace.as_deref().unwrap_or(namespace),
        &target.name,
    )
}

fn onto_itself(clone: &VMClone) -> Option<Problem> {
    let namespace = clone.metadata.namespace.as_deref().unwrap_or_default();
    let source = references::local(namespace, clone.spec.source.vm_ref.as_ref()?);
    (source == target(clone, namespace)).then(|| {
        invalid(
            "spec.target.name",
            "A VirtualMachine cannot be cloned onto itself. Give the copy another name",
        )
    })
}
