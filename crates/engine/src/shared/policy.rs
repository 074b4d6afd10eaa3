//! The controller of VMPlacementPolicies: who uses it, what came of that, and what of it nobody can follow.

use polyvirt_api::infra::{LocalRef, PlacementStats, VMPlacementPolicy, VMPlacementPolicyStatus};
use polyvirt_placement::{Subject, policy};
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::{self, Finding, Truth, kind};
use polyvirt_plan::honoured::kinds::PLACEMENT_POLICY;

use super::{Protection, Usage, keep, protect, status_body};
use crate::cluster::{self, ClusterError, Patch};
use crate::context::Context;
use crate::next::Next;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vm_index::Target;

/// How many users the status names.
const NAMED_USERS: usize = 1000;

/// Brings the status of one policy up to date.
pub async fn reconcile(ctx: &Context, key: &ObjectKey) -> Next {
    let Some(policy) = ctx.stores.policies.get(key) else {
        return Next::Idle;
    };
    match pass(ctx, key, &policy).await {
        Ok(()) => Next::Idle,
        Err(error) => Next::after_refusal(&error),
    }
}

async fn pass(
    ctx: &Context,
    object: &ObjectKey,
    policy: &VMPlacementPolicy,
) -> Result<(), ClusterError> {
    let key = Key::new(Kind::VMPlacementPolicy, object.clone());
    let usage = Usage::of(ctx, &Target::Policy(object.clone()));
    let mut policy = policy.clone();
    let protection = protect(ctx, &key, &ctx.stores.policies, &mut policy, &usage).await?;
    if protection == Protection::Released {
        return Ok(());
    }
    let old = policy.status.clone().unwrap_or_default();
    let new = status(ctx, object, &policy, &usage, protection);
    if new == old {
        return Ok(());
    }
    let body = Patch::Status(status_body(&key, &new));
    let written: VMPlacementPolicy = cluster::patch(&*ctx.cluster, &key, body).await?;
    keep(&ctx.stores.policies, &policy, written);
    Ok(())
}

fn status(
    ctx: &Context,
    key: &ObjectKey,
    policy: &VMPlacementPolicy,
    usage: &Usage,
    protection: Protection,
) -> VMPlacementPolicyStatus {
    let users = ctx
        .stores
        .index
        .some_users(&Target::Policy(key.clone()), NAMED_USERS);
    let local = |user: &ObjectKey| LocalRef {
        name: user.name().to_owned(),
    };
    let mut new = VMPlacementPolicyStatus {
        used_by_vms: users.iter().map(local).collect(),
        used_by_count: Some(usage.number()),
        placement_stats: Some(stats(ctx, &users)),
        observed_generation: policy.metadata.generation,
        ..policy.status.clone().unwrap_or_default()
    };
    let generation = policy.metadata.generation;
    conditions::set(
        &mut new.conditions,
        ready(key, policy),
        generation,
        ctx.now(),
    );
    match protection {
        Protection::Blocked => {
            conditions::set(&mut new.conditions, usage.blocked(), generation, ctx.now());
        }
        _ => conditions::clear(&mut new.conditions, kind::DELETING),
    }
    new
}

/// What came of the VMs that name the policy: for how many a host was found, and for how many none.
fn stats(ctx: &Context, users: &[ObjectKey]) -> PlacementStats {
    let mut stats = PlacementStats::default();
    let (mut found, mut missed) = (0, 0);
    for vm in users.iter().filter_map(|key| ctx.stores.vms.get(key)) {
        let placement = vm.status.as_ref().and_then(|s| s.placement.as_deref());
        // One that has moved is where it is seen.
        let seen = vm.status.as_ref().and_then(|s| s.host.as_ref());
        match placement.map(|p| p.host.as_ref()) {
            Some(Some(chosen)) => {
                found += 1;
                let host = seen.filter(|host| !host.is_empty()).unwrap_or(chosen);
                *stats
                    .placement_distribution
                    .entry(host.clone())
                    .or_default() += 1;
            }
            Some(None) => missed += 1,
            None => {}
        }
    }
    stats.total_placements = Some(found + missed);
    stats.successful_placements = Some(found);
    stats.failed_placements = Some(missed);
    stats
}

fn ready(key: &ObjectKey, policy: &VMPlacementPolicy) -> Finding {
    let subject = Subject {
        namespace: key.namespace(),
        labels: &std::collections::BTreeMap::new(),
        policy: Some(key.name()),
    };
    if let Err(error) = policy::lower(key.name(), &policy.spec, &subject) {
        return Finding::new(
            kind::READY,
            Truth::False,
            Reason::InvalidSpec,
            error.to_string(),
        );
    }
    let spec = serde_json::to_value(&policy.spec).unwrap_or_default();
    let idle: Vec<_> = PLACEMENT_POLICY
        .idle(&spec)
        .iter()
        .map(|n| n.path)
        .collect();
    if idle.is_empty() {
        return Finding::new(
            kind::READY,
            Truth::True,
            Reason::Valid,
            "The policy can be used",
        );
    }
    let text = format!(
        "The policy can be used, but these fields have no effect, because no provider reports what to compare them with: {}. Remove them",
        idle.join(", ")
    );
    Finding::new(kind::READY, Truth::True, Reason::FieldsIgnored, text)
}
