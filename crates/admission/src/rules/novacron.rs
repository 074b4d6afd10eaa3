//! VirtualMachines of NovaCron.

use polyvirt_api::novacron::{MIGRATE_TO_ANNOTATION, VirtualMachine};
use polyvirt_dialects::novacron::lower::{ImageSource, problems, wanted_node};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::Problem;
use polyvirt_plan::snapshot::schedule::Calendar;

use super::{Judged, invalid, references};
use crate::facts::Facts;

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
        let source = ImageSource::parse(&self.spec.template.spec.image.source);
        let Ok(ImageSource::Named(name)) = source else {
            return Vec::new();
        };
        let image = ObjectKey::new(namespace, &name);
        let field = "spec.template.spec.image.source";
        let missing = references::missing(&facts.image(&image), field, "VMImage", &image);
        missing.into_iter().collect()
    }
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
