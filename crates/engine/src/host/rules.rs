//! What Hosts and HostPools ask of the scheduler.

use std::collections::BTreeMap;

use polyvirt_api::infra::{Host, HostPool, PoolMigration, PoolStrategy, VirtualMachine};
use polyvirt_placement::{HostRule, HostRules, Overcommit, Packing};

use crate::context::{Context, Stores};
use crate::runtime::key::ObjectKey;
use crate::runtime::vm_index::provider_of;

/// The Hosts of a Provider, by name.
pub(crate) fn hosts_of(stores: &Stores, provider: &ObjectKey) -> BTreeMap<String, Host> {
    let all = stores.hosts.list();
    let theirs = all.iter().filter(|host| {
        let near = host.metadata.namespace.as_deref() == Some(provider.namespace());
        let of = host.spec.provider_ref.as_ref().map(|r| r.name.as_str());
        near && of == Some(provider.name())
    });
    theirs
        .filter_map(|host| Some((host.metadata.name.clone()?, (**host).clone())))
        .collect()
}

/// What the pools of a Provider's hosts say. `default` holds where a pool gives one of the two ratios only.
pub(crate) fn host_rules(stores: &Stores, provider: &ObjectKey, default: Overcommit) -> HostRules {
    let hosts = hosts_of(stores, provider).into_iter();
    hosts
        .filter_map(|(name, host)| {
            let pool = ObjectKey::new(provider.namespace(), &host.spec.pool_ref?.name);
            let pool = stores.pools.get(&pool)?;
            Some((name, rule(&pool, default)))
        })
        .collect()
}

/// How VMs migrate by the pool of the host that this one is on.
pub(crate) fn pool_migration(ctx: &Context, vm: &VirtualMachine) -> Option<PoolMigration> {
    let provider = provider_of(vm);
    let host = vm.status.as_ref()?.host.as_deref()?;
    let host = hosts_of(&ctx.stores, &provider).remove(host)?;
    let pool = ObjectKey::new(provider.namespace(), &host.spec.pool_ref?.name);
    ctx.stores.pools.get(&pool)?.spec.migration.clone()
}

fn rule(pool: &HostPool, default: Overcommit) -> HostRule {
    let given = pool.spec.overcommit.as_ref();
    let percent = |text: Option<&String>| text.and_then(|text| ratio(text));
    HostRule {
        overcommit: given.map(|given| Overcommit {
            cpu_percent: percent(given.cpu.as_ref()).unwrap_or(default.cpu_percent),
            memory_percent: percent(given.memory.as_ref()).unwrap_or(default.memory_percent),
        }),
        packing: match pool.spec.strategy.unwrap_or_default() {
            PoolStrategy::Spread => Packing::Spread,
            PoolStrategy::BinPack => Packing::BinPack,
        },
    }
}

/// A ratio such as `4.0` in percent; `None` if it is none between 0.1 and 100, the bounds of the Provider's own overcommit.
pub(crate) fn ratio(text: &str) -> Option<u32> {
    let value: f64 = text.trim().parse().ok()?;
    (0.1..=100.0).contains(&value).then(|| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 10 and 10,000 by the line above"
        )]
        let percent = (value * 100.0).round() as u32;
        percent
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_become_percent() {
        for (text, percent) in [
            ("4.0", Some(400)),
            ("1", Some(100)),
            (" 1.5 ", Some(150)),
            ("0.05", None),
            ("101", None),
            ("-1", None),
            ("NaN", None),
            ("much", None),
        ] {
            assert_eq!(ratio(text), percent, "{text}");
        }
    }
}
