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

    fn warnings(&self, old: Option<&Self>, facts: &dyn Facts) -> Vec<String> {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let mut found = machine::warnings(ROOT, namespace, &self.spec.template.spec, facts);
        if old.is_none() {
            found.push(unattended("VMSet"));
        }
        if self.spec.replicas > 1 {
            found.extend(shared(self));
        }
        found
    }
}

/// What only one VM can have. A set may be made smaller again, so it is not refused.
fn shared(set: &VMSet) -> Vec<String> {
    let spec = &set.spec.template.spec;
    let fixed = spec
        .networks
        .iter()
        .filter(|n| n.ip_address.is_some() || n.mac_address.is_some());
    let mut found: Vec<_> = fixed
        .map(|n| {
            format!(
                "{ROOT}.networks[{}]: all VMs of the set get the same address",
                n.name
            )
        })
        .collect();
    if spec.imported_disk.is_some() {
        found.push(format!(
            "{ROOT}.importedDisk: all VMs of the set get the same disk"
        ));
    }
    found
}
