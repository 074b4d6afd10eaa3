//! Small worlds.

use std::collections::BTreeMap;

use polyvirt_contract::model::{Datastore, Host, Inventory, NetworkEntry};
use polyvirt_placement::{
    Choice, Namespaces, Outcome, Overcommit, Placed, Reason, Refusal, Request, Site, World,
    explain, place,
};

pub const PROVIDER: &str = "lab/one";

pub fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    pairs.iter().map(own).collect()
}

pub fn host(name: &str, zone: &str, pairs: &[(&str, &str)]) -> Host {
    Host {
        name: name.to_owned(),
        zone: zone.to_owned(),
        labels: labels(pairs),
        cpus: 4,
        memory_mib: 4096,
        ..Host::default()
    }
}

pub fn inventory(hosts: Vec<Host>) -> Inventory {
    Inventory {
        hosts,
        datastores: vec![Datastore {
            name: "fast".to_owned(),
            kind: "dir".to_owned(),
            capacity_bytes: 100 << 30,
            free_bytes: 10 << 30,
            hosts: Vec::new(),
        }],
        networks: vec![NetworkEntry {
            name: "net1".to_owned(),
            kind: "bridge".to_owned(),
        }],
    }
}

pub fn request() -> Request {
    Request {
        namespace: "lab".to_owned(),
        name: "new".to_owned(),
        cpus: 1,
        memory_mib: 1024,
        ..Request::default()
    }
}

pub fn placed<'a>(
    name: &'a str,
    host: &'a str,
    labels: &'a BTreeMap<String, String>,
) -> Placed<'a> {
    Placed {
        namespace: "lab",
        name,
        labels,
        policy: None,
        provider: PROVIDER,
        host,
        claim: None,
        devices: None,
        keeps_away: Vec::new(),
    }
}

pub fn site(inventory: &Inventory) -> Site<'_> {
    Site {
        provider: PROVIDER,
        inventory,
        overcommit: Overcommit {
            cpu_percent: 100,
            memory_percent: 100,
        },
        rules: None,
    }
}

/// Nobody tells the labels of namespaces.
pub static NO_NAMESPACES: Namespaces = Namespaces::new();

pub fn ask(
    request: &Request,
    inventory: &Inventory,
    vms: &[Placed<'_>],
) -> Result<Choice, Refusal> {
    let sites = [site(inventory)];
    place(
        request,
        &World {
            sites: &sites,
            vms,
            namespaces: &NO_NAMESPACES,
        },
    )
}

/// Hosts that fit, by name.
pub fn fitting(request: &Request, inventory: &Inventory, vms: &[Placed<'_>]) -> Vec<String> {
    let sites = [site(inventory)];
    let verdicts = explain(
        request,
        &World {
            sites: &sites,
            vms,
            namespaces: &NO_NAMESPACES,
        },
    );
    let fits = verdicts
        .into_iter()
        .filter(|v| matches!(v.outcome, Outcome::Fits { .. }));
    fits.map(|v| v.host).collect()
}

/// Why the host is refused.
pub fn reason(request: &Request, inventory: &Inventory, vms: &[Placed<'_>], host: &str) -> Reason {
    let sites = [site(inventory)];
    let verdicts = explain(
        request,
        &World {
            sites: &sites,
            vms,
            namespaces: &NO_NAMESPACES,
        },
    );
    let found = verdicts.into_iter().find(|v| v.host == host);
    match found.expect("the host").outcome {
        Outcome::Refused(reason) => reason,
        fits @ Outcome::Fits { .. } => panic!("{host} fits: {fits:?}"),
    }
}
