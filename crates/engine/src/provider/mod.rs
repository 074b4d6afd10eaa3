//! The controller of Providers: keeps a link standing for each, and tells how it stands.
//!
//! ```text
//!   Provider object ──► Runtime decides how to reach it ──► link/session.rs keeps it ──► standing ──► status
//! ```
//!
//! Health is what the hypervisor answers, not whether a pod runs.

mod capacity;
mod place_report;
mod report;
pub mod sessions;
pub mod unclaimed;
pub mod way;

use std::sync::Arc;
use std::time::Duration;

use polyvirt_api::infra::Provider;

use crate::cluster::{self, About, ClusterError, Patch};
use crate::context::Context;
use crate::next::Next;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vm_index::Target;
use crate::shared::{Hold, Protection, Usage, protect, status_body};

pub use place_report::has_plain_scheme;
pub use sessions::{Sessions, labels};
pub use way::{NoWay, Place, Pods, Runtime, Security, Way};

/// Brings one Provider's link and status up to date.
pub async fn reconcile(ctx: &Context, sessions: &Sessions, key: &ObjectKey) -> Next {
    let Some(provider) = ctx.stores.providers.get(key) else {
        sessions.forget(key).await;
        return Next::Idle;
    };
    match pass(ctx, sessions, key, &provider).await {
        Ok(next) => next,
        Err(error) => Next::after_refusal(&error),
    }
}

async fn pass(
    ctx: &Context,
    sessions: &Sessions,
    object: &ObjectKey,
    provider: &Arc<Provider>,
) -> Result<Next, ClusterError> {
    let key = Key::new(Kind::Provider, object.clone());
    let usage = Usage::of(ctx, &Target::Provider(object.clone()));
    let mut current = (**provider).clone();
    let protection = protect(
        ctx,
        &key,
        &ctx.stores.providers,
        &mut current,
        &usage,
        Hold::Always,
    )
    .await?;
    let provider = &current;
    if protection == Protection::Released {
        return Ok(Next::Idle);
    }
    let place = sessions.ensure(provider).await;
    let old = provider.status.clone().unwrap_or_default();
    let view = ctx.links.get(object).map(|link| link.view());
    let new = report::status(
        ctx,
        provider,
        &report::Findings {
            view: view.as_ref(),
            place: place.as_ref(),
            usage: &usage,
            protection,
            limits: sessions.limits(provider),
        },
    );
    if report::differs(&old, &new) {
        let body = Patch::Status(status_body(&key, &new));
        let written: Provider = cluster::patch(&*ctx.cluster, &key, body).await?;
        let written = crate::runtime::trim::metadata(written);
        if let Some(change) = ctx.stores.providers.written(written) {
            ctx.observer.provider(change);
        }
        let about = About::of(Kind::Provider, provider);
        for note in report::transitions(&old, &new) {
            ctx.cluster.event(&about, note);
        }
    }
    Ok(look_again(&place))
}

/// A Secret that is missing may appear without a word to us if it is not watched, and a pod may change its excuse.
fn look_again(place: &Result<Place, NoWay>) -> Next {
    let soon = Duration::from_secs(30);
    match place {
        Err(NoWay::Unknown(_)) => Next::After(Duration::from_secs(5)),
        Ok(place) if place.pods.as_ref().is_some_and(|p| p.trouble.is_some()) => Next::After(soon),
        Ok(place) => place.look_again.map_or(Next::Idle, Next::After),
        Err(NoWay::Wrong(_)) => Next::After(soon),
    }
}
