//! VMSets.

use polyvirt_api::infra::VMSet;
use polyvirt_plan::Problem;

use super::{Judged, hooks, machine, unattended};
use crate::facts::Facts;

const ROOT: &str = "spec.template.spec";

impl Judged for VMSet {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let (name, spec) = (self.metadata.name.as_deref(), &self.spec.template.spec);
        let mut found = machine::problems(ROOT, spec);
        found.extend(hooks::problems(ROOT, name.unwrap_or_default(), spec));
        found
    }

    fn warnings(&self, old: Option<&Self>, _: &dyn Facts) -> Vec<String> {
        // What its VMs would lack does not matter: there are none.
        let new = old.is_none();
        new.then(|| unattended("VMSet")).into_iter().collect()
    }
}
