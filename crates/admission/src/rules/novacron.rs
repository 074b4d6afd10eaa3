//! VirtualMachines of NovaCron.

use std::sync::Arc;

use polyvirt_api::infra::Provider;
use polyvirt_api::novacron::{MIGRATE_TO_ANNOTATION, PROVIDER_ANNOTATION, VirtualMachine};
use polyvirt_dialects::novacron::lower::{ImageSource, problems, reserved, wanted_node};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::Problem;
use polyvirt_plan::image::reads_claims;
use polyvirt_plan::snapshot::schedule::Calendar;

use super::{Judged, invalid, references};
use crate::facts::Facts;

const SOURCE: &str = "spec.template.spec.image.source";

impl Judged for VirtualMachine {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let found = problems(self);
        let mut found: Vec<_> = found
            .iter()
            .map(|problem| invalid(problem.field(), problem.message()))
            .collect();
        let field = "spec.snapshotPolicy.schedule";
        let known = found.iter().any(|problem| problem.field == field);
        let policy = self.spec.snapshot_policy.as_ref();
        let schedule = policy.and_then(|p| p.schedule.as_deref()).map(str::trim);
        let schedule = schedule.filter(|text| !text.is_empty() && !known);
        found.extend(schedule.and_then(|text| no_schedule(field, text)));
        found.extend(not_allowed_to_move(self));
        found
    }

    fn warnings(&self, _: Option<&Self>, facts: &dyn Facts) -> Vec<String> {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let found = match ImageSource::parse(&self.spec.template.spec.image.source) {
            Ok(ImageSource::Named(name)) => {
                let image = ObjectKey::new(namespace, &name);
                references::missing(&facts.image(&image), SOURCE, "VMImage", &image)
            }
            Ok(ImageSource::Claim { .. }) => no_cluster(self, namespace, facts),
            _ => None,
        };
        let dropped = reserved(self).into_iter().map(|field| {
            format!("{field}: it does nothing in a template. Only Polyvirt sets labels and annotations of this domain there")
        });
        found.into_iter().chain(dropped).collect()
    }
}

/// A claim that no Provider can read: the one that is named, or any.
fn no_cluster(vm: &VirtualMachine, namespace: &str, facts: &dyn Facts) -> Option<String> {
    let annotations = vm.metadata.annotations.as_ref();
    let named = annotations.and_then(|a| a.get(PROVIDER_ANNOTATION));
    let wanted = named.map(|name| match name.trim().split_once('/') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new(namespace, name.trim()),
    });
    let all = facts.providers(namespace);
    let meant = |p: &&Arc<Provider>| wanted.as_ref().is_none_or(|w| *w == ObjectKey::of(&***p));
    let mut kinds = all.iter().filter(meant).map(|p| p.spec.type_).peekable();
    kinds.peek()?;
    kinds.all(|kind| !reads_claims(kind)).then(|| {
        let who = wanted.map_or_else(
            || "There is no Provider of type kubevirt".to_owned(),
            |name| format!("Provider {name} is not of type kubevirt"),
        );
        format!("{SOURCE}: {who}, and no other can read a claim (pvc://): the VM will not be made. Put the disk on a web server or into a registry and write http(s):// or registry://")
    })
}

/// A wish that would never be granted.
fn not_allowed_to_move(vm: &VirtualMachine) -> Option<Problem> {
    let policy = vm.spec.migration_policy.as_ref();
    let allowed = policy.is_some_and(|p| p.allow_live_migration);
    let field = format!("metadata.annotations[{MIGRATE_TO_ANNOTATION}]");
    let text = "The VM may not move: set spec.migrationPolicy.allowLiveMigration to true, or remove the annotation";
    wanted_node(vm)
        .filter(|_| !allowed)
        .map(|_| invalid(&field, text))
}

/// What the schema cannot tell of a schedule: whether its numbers exist.
fn no_schedule(field: &str, text: &str) -> Option<Problem> {
    let read = Calendar::parse(text, "UTC", jiff::Timestamp::UNIX_EPOCH);
    read.err().map(|problem| invalid(field, problem.message))
}
