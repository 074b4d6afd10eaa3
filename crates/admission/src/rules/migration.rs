//! VMMigrations.

use polyvirt_api::infra::VMMigration;
use polyvirt_plan::honoured::kinds::MIGRATION;
use polyvirt_plan::migration::desired::resolve;
use polyvirt_plan::{Problem, Reason};

use super::{Judged, cards, disks, references};
use crate::facts::{Facts, Found};

impl Judged for VMMigration {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let target = &self.spec.target;
        let mut found = cards::problems("spec.target.networks", &target.networks);
        found.extend(disks::problems("spec.target.disks", &target.disks));
        // Where the VM is may change until it moves; what is wrong in itself does not.
        let resolved = resolve(self, None).err();
        found.extend(resolved.filter(|problem| problem.reason == Reason::InvalidSpec));
        found
    }

    fn warnings(&self, old: Option<&Self>, facts: &dyn Facts) -> Vec<String> {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let source = references::local(namespace, &self.spec.source.vm_ref);
        let provider = references::key(namespace, &self.spec.target.provider_ref);
        let vm = facts.vm(&source);
        let told = [
            references::missing(&vm, "spec.source.vmRef", "VirtualMachine", &source),
            references::missing(
                &facts.provider(&provider),
                "spec.target.providerRef",
                "Provider",
                &provider,
            ),
            not_yet(self, &vm, namespace).filter(|_| old.is_none()),
            lost(self),
        ];
        let idle = MIGRATION.warnings(&self.spec);
        told.into_iter().flatten().chain(idle).collect()
    }
}

/// A move that the manager will not make as it is.
fn not_yet(
    migration: &VMMigration,
    vm: &Found<polyvirt_api::infra::VirtualMachine>,
    namespace: &str,
) -> Option<String> {
    let here = references::key(namespace, &vm.here()?.spec.provider_ref);
    let home = Some((here.namespace(), here.name()));
    let problem = resolve(migration, home).err()?;
    (problem.reason == Reason::MigrationUnsupported).then(|| problem.to_string())
}

fn lost(migration: &VMMigration) -> Option<String> {
    let checks = migration.spec.options.as_ref();
    let unverified = checks.is_some_and(|options| !options.verify_checksums);
    (migration.spec.source.delete_after_migration && unverified).then(|| {
        "spec.source.deleteAfterMigration: the source is deleted though nobody compares checksums; set spec.options.verifyChecksums".to_owned()
    })
}
