//! VMMigrations.

use polyvirt_api::infra::{MigrationTarget, VMMigration};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::Problem;

use super::{Judged, cards, disks, references};
use crate::facts::{Facts, Found};

impl Judged for VMMigration {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let target = &self.spec.target;
        let mut found = cards::problems("spec.target.networks", &target.networks);
        found.extend(disks::problems("spec.target.disks", &target.disks));
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
            stays(&vm, namespace, &provider),
            taken(&self.spec.target, namespace, facts).filter(|_| old.is_none()),
            lost(self),
        ];
        told.into_iter().flatten().collect()
    }
}

fn stays(
    vm: &Found<polyvirt_api::infra::VirtualMachine>,
    namespace: &str,
    provider: &ObjectKey,
) -> Option<String> {
    let here = references::key(namespace, &vm.here()?.spec.provider_ref);
    (here == *provider).then(|| {
        format!("spec.target.providerRef: the VirtualMachine is on Provider {provider} already")
    })
}

fn taken(target: &MigrationTarget, namespace: &str, facts: &dyn Facts) -> Option<String> {
    let name = target.name.as_deref();
    let name = name.or(target.vm_ref.as_ref().map(|vm| vm.name.as_str()))?;
    let key = ObjectKey::new(target.namespace.as_deref().unwrap_or(namespace), name);
    facts.vm(&key).here().map(|_| {
        format!("spec.target: VirtualMachine {key} exists already; it is left alone, and the migration waits")
    })
}

fn lost(migration: &VMMigration) -> Option<String> {
    let checks = migration.spec.options.as_ref();
    let unverified = checks.is_some_and(|options| !options.verify_checksums);
    (migration.spec.source.delete_after_migration && unverified).then(|| {
        "spec.source.deleteAfterMigration: the source is deleted though nobody compares checksums; set spec.options.verifyChecksums".to_owned()
    })
}
