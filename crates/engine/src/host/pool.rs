//! The controller of HostPools: how many hosts a pool has, and which of its fields have no effect.

use polyvirt_api::infra::{Host, HostHealth, HostPool, HostPoolStatus};
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::{self, Finding, Truth, kind};

use super::honoured;
use super::rules::ratio;
use crate::cluster::{self, ClusterError, Patch};
use crate::context::{Context, Stores};
use crate::next::Next;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::shared::{keep, status_body};

/// Brings the status of one pool up to date.
pub async fn reconcile(ctx: &Context, key: &ObjectKey) -> Next {
    let Some(pool) = ctx.stores.pools.get(key) else {
        return Next::Idle;
    };
    match pass(ctx, key, &pool).await {
        Ok(()) => Next::Idle,
        Err(error) => Next::after_refusal(&error),
    }
}

async fn pass(ctx: &Context, object: &ObjectKey, pool: &HostPool) -> Result<(), ClusterError> {
    let old = pool.status.clone().unwrap_or_default();
    let new = status(ctx, object, pool);
    if new == old {
        return Ok(());
    }
    let key = Key::new(Kind::HostPool, object.clone());
    let body = Patch::Status(status_body(&key, &new));
    let written: HostPool = cluster::patch(&*ctx.cluster, &key, body).await?;
    keep(&ctx.stores.pools, pool, written);
    Ok(())
}

fn status(ctx: &Context, key: &ObjectKey, pool: &HostPool) -> HostPoolStatus {
    let hosts = members(&ctx.stores, key);
    let ready: Vec<_> = hosts.iter().filter(|host| is_ready(host)).collect();
    let open = ready.iter().filter(|h| h.spec.schedulable != Some(false));
    let number = |n: usize| Some(i32::try_from(n).unwrap_or(i32::MAX));
    let mut new = HostPoolStatus {
        total_hosts: number(hosts.len()),
        schedulable_hosts: number(open.count()),
        ready_hosts: number(ready.len()),
        observed_generation: pool.metadata.generation,
        ..pool.status.clone().unwrap_or_default()
    };
    let generation = pool.metadata.generation;
    let mut set = |finding| conditions::set(&mut new.conditions, finding, generation, ctx.now());
    set(valid(pool));
    set(honoured(&idle_fields(pool)));
    new
}

fn is_ready(host: &Host) -> bool {
    let status = host.status.as_ref();
    status.and_then(|s| s.health) == Some(HostHealth::Ready)
}

/// The Hosts of the pool's namespace that name it.
fn members(stores: &Stores, key: &ObjectKey) -> Vec<std::sync::Arc<Host>> {
    let mut hosts = stores.hosts.list();
    hosts.retain(|host| {
        let near = host.metadata.namespace.as_deref() == Some(key.namespace());
        let pool = host.spec.pool_ref.as_ref().map(|r| r.name.as_str());
        near && pool == Some(key.name())
    });
    hosts
}

fn valid(pool: &HostPool) -> Finding {
    let overcommit = pool.spec.overcommit.clone().unwrap_or_default();
    let given = [
        ("spec.overcommit.cpu", overcommit.cpu),
        ("spec.overcommit.memory", overcommit.memory),
    ];
    let wrong = given.into_iter().find_map(|(path, text)| {
        let text = text?;
        ratio(&text).is_none().then_some((path, text))
    });
    match wrong {
        Some((path, text)) => Finding::new(
            kind::READY,
            Truth::False,
            Reason::InvalidSpec,
            format!("{path}: {text:?} is no ratio between 0.1 and 100. Write it as 4.0"),
        ),
        None => Finding::new(
            kind::READY,
            Truth::True,
            Reason::Valid,
            "The pool can be used",
        ),
    }
}

/// Fields that are set and have no effect.
fn idle_fields(pool: &HostPool) -> Vec<&'static str> {
    let spec = &pool.spec;
    let migration = spec.migration.clone().unwrap_or_default();
    let fields = [
        ("spec.storagePools", !spec.storage_pools.is_empty()),
        ("spec.networks", !spec.networks.is_empty()),
        (
            "spec.migration.defaultStorageMode",
            migration.default_storage_mode.is_some(),
        ),
        (
            "spec.migration.maxDowntimeMs",
            migration.max_downtime_ms.is_some(),
        ),
    ];
    let set = fields.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(path, _)| path).collect()
}
