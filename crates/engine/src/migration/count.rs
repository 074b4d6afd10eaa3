//! Counts a move once: in the pass that wrote its end down.

use std::time::Duration;

use polyvirt_api::infra::{HostMove, MoveResult, VMMigration};

use crate::context::Context;
use crate::metrics::Metrics;
use crate::provider::sessions::type_word;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::subject::is_over;

/// Whether a move was over before the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It was not.
    Open,
    /// It was, or it is no move.
    Over,
}

/// How the object of a pass stands before it.
pub fn before(ctx: &Context, key: &Key) -> Before {
    let open = key.kind == Kind::VMMigration
        && ctx
            .stores
            .migrations
            .get(&key.object)
            .is_some_and(|m| !is_over(&m));
    if open { Before::Open } else { Before::Over }
}

/// Counts what the pass has ended.
pub fn after(ctx: &Context, metrics: &Metrics, key: &Key, before: Before) {
    let found = ctx.stores.migrations.get(&key.object);
    if found.is_none() && key.kind == Kind::VMMigration {
        metrics.moves.beginning(&key.object);
    }
    if let Some(migration) = found.filter(|_| before == Before::Open) {
        note_beginning(ctx, metrics, &key.object, &migration);
        count(ctx, metrics, &migration);
    }
}

fn note_beginning(ctx: &Context, metrics: &Metrics, key: &ObjectKey, migration: &VMMigration) {
    let started = migration
        .status
        .as_ref()
        .and_then(|s| s.start_time.as_ref());
    let now = ctx.now();
    // One that began before this process did began when the API says so.
    if let Some(started) = started.filter(|_| !is_over(migration)) {
        let recent = now.duration_since(started.0).abs() < jiff::SignedDuration::from_secs(2);
        metrics
            .moves
            .began(key, if recent { now } else { started.0 });
    }
}

fn count(ctx: &Context, metrics: &Metrics, migration: &VMMigration) -> Option<()> {
    let status = migration.status.as_ref()?;
    let moved = status.host_move.as_deref()?;
    let result = moved.result?;
    let seen = metrics.moves.beginning(&ObjectKey::of(migration));
    let word = provider_type(ctx, migration, moved)?;
    metrics.moves.ended(word, label(result));
    let (begun, ended) = (
        status.start_time.as_ref()?,
        status.completion_time.as_ref()?,
    );
    if result == MoveResult::Moved {
        let took = match seen {
            Some(begun) => ctx.now().duration_since(begun),
            None => ended.0.duration_since(begun.0),
        };
        let took = Duration::try_from(took).unwrap_or_default();
        let stood = moved.downtime_ms.and_then(|ms| u64::try_from(ms).ok());
        metrics
            .moves
            .took(word, took, stood.map(Duration::from_millis));
    }
    Some(())
}

fn provider_type(ctx: &Context, migration: &VMMigration, moved: &HostMove) -> Option<&'static str> {
    let own = migration.metadata.namespace.as_deref().unwrap_or_default();
    let named = moved.vm.as_ref().map(|vm| &vm.provider_ref);
    let named = named.unwrap_or(&migration.spec.target.provider_ref);
    let key = ObjectKey::new(named.namespace_or(own), &named.name);
    Some(type_word(ctx.stores.providers.get(&key)?.spec.type_))
}

const fn label(result: MoveResult) -> &'static str {
    match result {
        MoveResult::Moved => "moved",
        MoveResult::Failed => "failed",
        MoveResult::Cancelled => "cancelled",
    }
}
