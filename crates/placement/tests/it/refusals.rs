//! Each thing that can be against a host, and what people read of it.

use std::collections::BTreeMap;

use polyvirt_contract::model::{Datastore, HostHealth};
use polyvirt_placement::{
    Claim, DeviceKind, DeviceRequest, Overcommit, Placed, Reason, Request, Rule, Site, Storage,
    Topology, World, named, place,
};

use crate::support::{
    NO_NAMESPACES, ask, fitting, host, inventory, labels, placed, reason, request, site,
};

fn names(list: &[&str]) -> std::collections::BTreeSet<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn one_reason_a_host_and_one_sentence_for_all() {
    let mut all = inventory(vec![
        host("a", "", &[("tier", "gold")]),
        host("b", "", &[("tier", "gold")]),
        host("c", "", &[("tier", "gold")]),
        host("d", "", &[("tier", "gold")]),
        host("e", "", &[]),
    ]);
    all.hosts[0].health = HostHealth::Down;
    all.hosts[1].health = HostHealth::Cordoned;
    all.hosts[2].memory_used_mib = 4000;
    all.hosts[3].memory_used_mib = 4096;
    let mut wanted = request();
    wanted.rules = vec![Rule::Labels(labels(&[("tier", "gold")]))];
    let refusal = ask(&wanted, &all, &[]).expect_err("no host");
    assert_eq!(
        refusal.summary(),
        "0/5 hosts are available: 2 too little memory, 1 cordoned, 1 did not match the selector on label tier, 1 down"
    );
    let memory = reason(&wanted, &all, &[], "c");
    assert_eq!(
        memory.to_string(),
        "too little memory: 1024 MiB needed, 96 MiB free"
    );
    let none = ask(&wanted, &inventory(Vec::new()), &[]).expect_err("no host");
    assert_eq!(none.summary(), "0/0 hosts are available");
}

#[test]
fn a_summary_is_short_however_many_reasons_there_are() {
    let hosts = (0..500).map(|n| host(&format!("h{n}"), "", &[])).collect();
    let mut wanted = request();
    wanted.rules = vec![Rule::Labels(labels(&[(&"k".repeat(2000), "v")]))];
    let text = ask(&wanted, &inventory(hosts), &[])
        .expect_err("no host")
        .summary();
    assert!(text.starts_with("0/500 hosts are available: 500 did not match"));
    assert!(text.len() <= 800, "{}", text.len());
}

#[test]
fn each_rule_tells_its_reason() {
    let mut all = inventory(vec![host(
        "a",
        "z1",
        &[("feature.node.kubernetes.io/tpm", "true")],
    )]);
    all.hosts[0].cpus_used = 2;
    all.hosts[0].memory_used_mib = 2048;
    let table = [
        (
            Rule::Named(Topology::Host, names(&["b"])),
            Some(Reason::WrongPlace(Topology::Host)),
        ),
        (Rule::Named(Topology::Zone, names(&["z1"])), None),
        (
            Rule::Named(Topology::Cluster, names(&["x"])),
            Some(Reason::WrongPlace(Topology::Cluster)),
        ),
        (
            Rule::NotNamed(Topology::Zone, names(&["z1"])),
            Some(Reason::Excluded(Topology::Zone)),
        ),
        (Rule::Network("net1".to_owned()), None),
        (
            Rule::Network("net9".to_owned()),
            Some(Reason::NoNetwork {
                name: "net9".to_owned(),
            }),
        ),
        (Rule::FreeCpus(2), None),
        (
            Rule::FreeCpus(3),
            Some(Reason::TooFewCpus { wanted: 3, free: 2 }),
        ),
        (
            Rule::FreeMemory(2049),
            Some(Reason::TooLittleMemory {
                wanted_mib: 2049,
                free_mib: 2048,
            }),
        ),
        (Rule::CpuUse(75), None),
        (Rule::CpuUse(74), Some(Reason::CpusTooBusy { most: 74 })),
        (
            Rule::MemoryUse(74),
            Some(Reason::MemoryTooBusy { most: 74 }),
        ),
        (Rule::Feature("tpm".to_owned()), None),
        (
            Rule::Feature("sev".to_owned()),
            Some(Reason::NoFeature {
                feature: "sev".to_owned(),
            }),
        ),
    ];
    for (rule, expected) in table {
        let wanted = Request {
            rules: vec![rule.clone()],
            ..request()
        };
        match expected {
            None => assert_eq!(fitting(&wanted, &all, &[]), ["a"], "{rule:?}"),
            Some(expected) => assert_eq!(reason(&wanted, &all, &[], "a"), expected, "{rule:?}"),
        }
    }
}

#[test]
fn what_is_promised_counts_before_the_inventory_shows_it() {
    let all = inventory(vec![host("a", "", &[])]);
    let none = BTreeMap::new();
    let promised = Placed {
        claim: Some(Claim {
            cpus: 4,
            memory_mib: 1,
            ..Claim::default()
        }),
        ..placed("soon", "a", &none)
    };
    let full = Reason::TooFewCpus { wanted: 1, free: 0 };
    assert_eq!(
        reason(&request(), &all, std::slice::from_ref(&promised), "a"),
        full
    );
    let generous = [Site {
        overcommit: Overcommit::default(),
        ..site(&all)
    }];
    let vms = [promised];
    assert!(
        place(
            &request(),
            &World {
                sites: &generous,
                vms: &vms,
                namespaces: &NO_NAMESPACES,
            }
        )
        .is_ok()
    );
}

#[test]
fn datastores_are_chosen_by_name_and_room() {
    let mut all = inventory(vec![host("a", "", &[])]);
    let mut slow = all.datastores[0].clone();
    (slow.name, slow.free_bytes) = ("slow".to_owned(), 80 << 30);
    all.datastores.push(slow);
    let chosen = |storage: Storage| {
        let wanted = Request {
            storage,
            ..request()
        };
        ask(&wanted, &all, &[])
            .map(|choice| choice.datastore)
            .map_err(|r| r.summary())
    };
    let gib = |bytes: u64| bytes << 30;
    assert_eq!(chosen(Storage::default()), Ok(None));
    let excluded = names(&["fast"]);
    assert_eq!(
        chosen(Storage {
            excluded,
            ..Storage::default()
        }),
        Ok(Some("slow".to_owned()))
    );
    let preferred = names(&["fast"]);
    let small = Storage {
        bytes: gib(10),
        preferred: preferred.clone(),
        ..Storage::default()
    };
    assert_eq!(chosen(small), Ok(Some("fast".to_owned())));
    let large = Storage {
        bytes: gib(11),
        preferred,
        ..Storage::default()
    };
    assert_eq!(chosen(large), Ok(Some("slow".to_owned())));
    let too_large = Storage {
        bytes: gib(81),
        ..Storage::default()
    };
    assert_eq!(
        chosen(too_large),
        Err("0/1 hosts are available: 1 too little disk space".to_owned())
    );
    let reserve = Storage {
        bytes: gib(1),
        keep_free: gib(80),
        ..Storage::default()
    };
    assert!(chosen(reserve).is_err());
    let busy = Storage {
        bytes: gib(10),
        most_used_percent: Some(29),
        ..Storage::default()
    };
    assert!(chosen(busy).is_err());
    let unknown = Storage {
        named: Some("x".to_owned()),
        ..Storage::default()
    };
    assert_eq!(
        chosen(unknown),
        Err("0/1 hosts are available: 1 no datastore that may be used".to_owned())
    );
    let elsewhere = BTreeMap::from([("fast".to_owned(), gib(11))]);
    assert!(
        chosen(Storage {
            elsewhere,
            ..Storage::default()
        })
        .is_err()
    );
}

#[test]
fn hosts_with_devices_are_left_to_those_who_need_them() {
    let mut all = inventory(vec![host("a", "", &[]), host("b", "", &[])]);
    all.hosts[0].devices = BTreeMap::from([("nvidia.com/t4".to_owned(), 2)]);
    all.hosts[1].memory_used_mib = 2048;
    assert_eq!(ask(&request(), &all, &[]).expect("a host").host, "b");
    let gpus = |count| Request {
        devices: vec![DeviceRequest {
            kind: DeviceKind::Gpu,
            count,
            ..DeviceRequest::default()
        }],
        ..request()
    };
    let choice = ask(&gpus(2), &all, &[]).expect("a host");
    assert_eq!(
        (choice.host.as_str(), choice.devices["nvidia.com/t4"]),
        ("a", 2)
    );
    let none = BTreeMap::new();
    let held = BTreeMap::from([("nvidia.com/t4".to_owned(), 1)]);
    let vms = [Placed {
        devices: Some(&held),
        ..placed("user", "a", &none)
    }];
    let refusal = ask(&gpus(2), &all, &vms).expect_err("one is taken");
    assert_eq!(
        refusal.summary(),
        "0/2 hosts are available: 2 too few devices 2 × gpu"
    );
}

#[test]
fn the_best_of_several_providers_is_found_and_equals_are_taken_by_name() {
    let (one, two) = (
        inventory(vec![host("x", "", &[])]),
        inventory(vec![host("x", "", &[])]),
    );
    let mut busy = one.clone();
    busy.hosts[0].cpus_used = 3;
    let at = |provider, inventory| Site {
        provider,
        ..site(inventory)
    };
    let best = |sites: &[Site<'_>]| {
        place(
            &request(),
            &World {
                sites,
                vms: &[],
                namespaces: &NO_NAMESPACES,
            },
        )
        .expect("a host")
        .provider
    };
    assert_eq!(
        best(&[at("lab/one", &busy), at("lab/two", &two)]),
        "lab/two"
    );
    assert_eq!(best(&[at("lab/two", &two), at("lab/one", &one)]), "lab/one");
}

#[test]
fn a_host_that_is_named_on_purpose_must_answer_and_have_the_memory() {
    let hosts = ["fit", "down", "closed", "busy", "full"];
    let mut all = inventory(hosts.map(|name| host(name, "", &[])).to_vec());
    all.hosts[1].health = HostHealth::Down;
    all.hosts[2].health = HostHealth::Cordoned;
    all.hosts[3].cpus_used = 4000;
    all.hosts[4].memory_used_mib = 4000;
    let mut wanted = request();
    wanted.rules = vec![Rule::Labels(labels(&[("tier", "gold")]))];
    let full = Reason::TooLittleMemory {
        wanted_mib: 1024,
        free_mib: 96,
    };
    let table = [
        ("fit", Some(Ok(()))),
        ("down", Some(Err(Reason::HostDown))),
        ("closed", Some(Ok(()))),
        ("busy", Some(Ok(()))),
        ("full", Some(Err(full))),
        ("nowhere", None),
    ];
    let sites = [site(&all)];
    let world = World {
        sites: &sites,
        vms: &[],
        namespaces: &NO_NAMESPACES,
    };
    for (name, expected) in table {
        assert_eq!(named(&wanted, &world, name), expected, "{name}");
    }
}

#[test]
fn each_host_has_the_room_of_its_own_disks() {
    let gib = |count: u64| count << 30;
    let mut all = inventory(vec![
        host("a", "", &[]),
        host("b", "", &[]),
        host("c", "", &[]),
    ]);
    let store = |host: &str, free: u64| Datastore {
        name: "default".to_owned(),
        capacity_bytes: gib(100),
        free_bytes: gib(free),
        hosts: vec![host.to_owned()],
        ..Datastore::default()
    };
    all.datastores = vec![store("a", 10), store("b", 60)];
    let wanted = Request {
        storage: Storage {
            bytes: gib(40),
            ..Storage::default()
        },
        ..request()
    };
    assert_eq!(fitting(&wanted, &all, &[]), ["b"]);
    assert_eq!(reason(&wanted, &all, &[], "c"), Reason::NoDatastore);
    let none = labels(&[]);
    let claims = |host| Placed {
        claim: Some(Claim {
            disk_bytes: gib(30),
            ..Claim::default()
        }),
        ..placed("x", host, &none)
    };
    assert_eq!(fitting(&wanted, &all, &[claims("a")]), ["b"]);
    assert!(fitting(&wanted, &all, &[claims("b")]).is_empty());
    all.datastores = vec![Datastore {
        hosts: Vec::new(),
        ..store("", 60)
    }];
    assert_eq!(fitting(&wanted, &all, &[]).len(), 3);
    assert!(fitting(&wanted, &all, &[claims("a")]).is_empty());
}
