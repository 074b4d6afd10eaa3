//! The controller of VMClasses: who uses it, and what each provider would ignore of it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{ClassValidation, VMClass, VMClassStatus, VirtualMachineSpec};
use polyvirt_plan::conditions::{self, Finding, Truth, kind};
use polyvirt_plan::virtual_machine::desired::class_from;
use polyvirt_plan::{Reason, honoured};

use super::{Hold, Protection, Usage, keep, protect, status_body};
use crate::cluster::{self, ClusterError, Patch};
use crate::context::Context;
use crate::link::Standing;
use crate::next::Next;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vm_index::Target;

/// Brings the status of one class up to date.
pub async fn reconcile(ctx: &Context, key: &ObjectKey) -> Next {
    let Some(class) = ctx.stores.classes.get(key) else {
        return Next::Idle;
    };
    match pass(ctx, key, &class).await {
        Ok(()) => Next::Idle,
        Err(error) => Next::after_refusal(&error),
    }
}

async fn pass(ctx: &Context, object: &ObjectKey, class: &VMClass) -> Result<(), ClusterError> {
    let key = Key::new(Kind::VMClass, object.clone());
    let usage = Usage::of(ctx, &Target::Class(object.clone()));
    let mut class = class.clone();
    let protection = protect(
        ctx,
        &key,
        &ctx.stores.classes,
        &mut class,
        &usage,
        Hold::WhenUsed,
    )
    .await?;
    if protection == Protection::Released {
        return Ok(());
    }
    let old = class.status.clone().unwrap_or_default();
    let new = status(ctx, &class, &usage, protection, &old);
    if new == old {
        return Ok(());
    }
    let written: VMClass =
        cluster::patch(&*ctx.cluster, &key, Patch::Status(status_body(&key, &new))).await?;
    keep(&ctx.stores.classes, &class, written);
    Ok(())
}

fn status(
    ctx: &Context,
    class: &VMClass,
    usage: &Usage,
    protection: Protection,
    old: &VMClassStatus,
) -> VMClassStatus {
    let results = validations(ctx, class, old);
    let mut new = VMClassStatus {
        used_by_vms: Some(usage.number()),
        supported_providers: results
            .iter()
            .filter(|(_, r)| r.valid && r.warnings.is_empty())
            .map(|(p, _)| p.clone())
            .collect(),
        validation_results: results,
        conditions: old.conditions.clone(),
        observed_generation: class.metadata.generation,
    };
    let generation = class.metadata.generation;
    conditions::set(&mut new.conditions, ready(class), generation, ctx.now());
    match protection {
        Protection::Blocked => {
            conditions::set(&mut new.conditions, usage.blocked(), generation, ctx.now());
        }
        _ => conditions::clear(&mut new.conditions, kind::DELETING),
    }
    new
}

fn ready(class: &VMClass) -> Finding {
    match class_from(&class.spec) {
        Ok(_) => Finding::new(
            kind::READY,
            Truth::True,
            Reason::Valid,
            "The class can be used",
        ),
        Err(problem) => Finding::new(
            kind::READY,
            Truth::False,
            problem.reason,
            problem.to_string(),
        ),
    }
}

/// One result for each connected provider in the class's namespace.
fn validations(
    ctx: &Context,
    class: &VMClass,
    old: &VMClassStatus,
) -> BTreeMap<String, ClassValidation> {
    let namespace = class.metadata.namespace.as_deref().unwrap_or_default();
    let near = ctx
        .stores
        .providers
        .keys()
        .into_iter()
        .filter(|key| key.namespace() == namespace);
    near.filter_map(|key| validation(ctx, class, &key, old))
        .collect()
}

/// What was last known of a provider that does not answer now stays.
fn validation(
    ctx: &Context,
    class: &VMClass,
    provider: &ObjectKey,
    old: &VMClassStatus,
) -> Option<(String, ClassValidation)> {
    let name = provider.name().to_owned();
    let before = old.validation_results.get(&name);
    let view = ctx.links.get(provider).map(|link| link.view());
    let Some(view) = view.filter(|view| matches!(view.standing, Standing::Connected { .. })) else {
        return before.map(|b| (name, b.clone()));
    };
    let fields = honoured::fields_in_use(&VirtualMachineSpec::default(), Some(&class.spec), &[]);
    let ignored = honoured::ignored(&fields, &view.features);
    let problem = class_from(&class.spec).err();
    let fresh = ClassValidation {
        valid: problem.is_none(),
        message: problem.map(|p| p.to_string()),
        warnings: ignored
            .iter()
            .map(|f| format!("{f} does nothing on this provider"))
            .collect(),
        last_validated: None,
    };
    let same = before.filter(|b| {
        ClassValidation {
            last_validated: None,
            ..(*b).clone()
        } == fresh
    });
    let result = same.cloned().unwrap_or(ClassValidation {
        last_validated: Some(Time(ctx.now())),
        ..fresh
    });
    Some((name, result))
}
