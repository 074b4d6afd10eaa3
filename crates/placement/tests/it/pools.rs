//! Rules of single hosts go before those of their provider.

use std::collections::BTreeMap;

use polyvirt_contract::model::Inventory;
use polyvirt_placement::{
    Choice, HostRule, HostRules, Namespaces, Overcommit, Packing, Refusal, Site, World, place,
};

use crate::support::{host, inventory, request, site};

fn hosts() -> Inventory {
    let mut all = inventory(vec![host("empty", "", &[]), host("fuller", "", &[])]);
    all.hosts[1].cpus_used = 2;
    all.hosts[1].memory_used_mib = 2048;
    all
}

fn choose(rule: HostRule) -> Result<Choice, Refusal> {
    let (hosts, none) = (hosts(), Namespaces::new());
    let names = hosts.hosts.iter().map(|host| (host.name.clone(), rule));
    let rules: HostRules = names.collect::<BTreeMap<_, _>>();
    let sites = [Site {
        rules: Some(&rules),
        ..site(&hosts)
    }];
    let world = World {
        sites: &sites,
        vms: &[],
        namespaces: &none,
    };
    place(&request(), &world)
}

#[test]
fn a_pool_is_spread_or_filled_up() {
    for (packing, chosen) in [(Packing::Spread, "empty"), (Packing::BinPack, "fuller")] {
        let rule = HostRule {
            packing,
            ..HostRule::default()
        };
        assert_eq!(choose(rule).expect("a host").host, chosen, "{packing:?}");
    }
}

#[test]
fn a_pool_says_how_much_its_hosts_may_promise() {
    let may_promise = |memory_percent| HostRule {
        overcommit: Some(Overcommit {
            memory_percent,
            ..Overcommit::default()
        }),
        ..HostRule::default()
    };
    assert!(choose(may_promise(10)).is_err(), "410 MiB are too little");
    assert!(choose(may_promise(100)).is_ok());
}
