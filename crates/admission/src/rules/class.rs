//! VMClasses, and classes that are written in place.

use polyvirt_api::infra::{Firmware, ResourceLimits, VMClass, VMClassSpec};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::vm_index::Target;
use polyvirt_plan::Problem;
use polyvirt_plan::quantity::mebibytes;
use polyvirt_plan::virtual_machine::desired::class_from;

use super::{Judged, invalid, moved};
use crate::facts::Facts;

impl Judged for VMClass {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        spec_problems("spec", &self.spec)
    }

    fn warnings(&self, old: Option<&Self>, facts: &dyn Facts) -> Vec<String> {
        let mut found: Vec<_> = spec_warnings("spec", &self.spec).into_iter().collect();
        let resized =
            |old: &&Self| (old.spec.cpu, &old.spec.memory) != (self.spec.cpu, &self.spec.memory);
        if old.as_ref().is_some_and(resized) {
            found.extend(reach(&ObjectKey::of(self), facts));
        }
        found
    }
}

/// What can never work.
pub(super) fn spec_problems(root: &str, spec: &VMClassSpec) -> Vec<Problem> {
    let size = class_from(spec).err();
    let size = size.map(|problem| moved(problem, "class", root));
    let limits = spec.resource_limits.as_ref();
    let limits = limits.and_then(|limits| contradiction(root, limits));
    size.into_iter().chain(limits).collect()
}

fn contradiction(root: &str, limits: &ResourceLimits) -> Option<Problem> {
    let limit = mebibytes(limits.memory_limit.as_ref()?).ok()?;
    let reserved = mebibytes(limits.memory_reservation.as_ref()?).ok()?;
    (reserved > limit).then(|| {
        invalid(
            format!("{root}.resourceLimits.memoryReservation"),
            "More is reserved than memoryLimit allows. Lower it, or raise memoryLimit",
        )
    })
}

/// What the user should know.
pub(super) fn spec_warnings(root: &str, spec: &VMClassSpec) -> Option<String> {
    let secure = spec
        .security_profile
        .as_ref()
        .is_some_and(|s| s.secure_boot);
    (secure && spec.firmware == Firmware::Bios)
        .then(|| format!("{root}.firmware: secure boot needs UEFI, which is used in place of BIOS"))
}

fn reach(key: &ObjectKey, facts: &dyn Facts) -> Option<String> {
    let users = facts.users(&Target::Class(key.clone()))?;
    (users.count > 0).then(|| {
        format!("{} VirtualMachines use this class and get the new size, as soon as they can be changed", users.count)
    })
}
