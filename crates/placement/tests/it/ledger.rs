//! What never happens, whatever is asked: no device is given twice, no host promises more than it may.

use std::collections::BTreeMap;

use polyvirt_contract::model::{Host, Inventory};
use polyvirt_placement::{
    Choice, Claim, DeviceKind, DeviceRequest, Overcommit, Placed, Request, Site, World, place,
};
use proptest::prelude::*;

use crate::support::{NO_NAMESPACES, PROVIDER, inventory, request};

const HOSTS: usize = 4;
const DEVICES: [(&str, u32); 3] = [
    ("nvidia.com/tesla-t4", 3),
    ("nvidia.com/a100", 1),
    ("sriov/net1", 4),
];

/// Four hosts with eight devices each.
fn hosts() -> Inventory {
    let devices = DEVICES.map(|(name, count)| (name.to_owned(), count));
    let host = |number| Host {
        name: format!("h{number}"),
        cpus: 16,
        memory_mib: 32_768,
        devices: devices.clone().into(),
        ..Host::default()
    };
    inventory((0..HOSTS).map(host).collect())
}

#[derive(Clone, Debug)]
enum Wanted {
    Place(Box<Request>),
    /// The VM of this number, among those that are there, goes.
    Release(usize),
}

fn device() -> impl Strategy<Value = DeviceRequest> {
    let kinds = [
        (DeviceKind::Gpu, "", ""),
        (DeviceKind::Gpu, "nvidia", "t4"),
        (DeviceKind::Any, "", "a100"),
        (DeviceKind::Sriov, "", "net1"),
    ];
    (prop::sample::select(kinds.to_vec()), 1_u32..4).prop_map(|((kind, vendor, model), count)| {
        DeviceRequest {
            kind,
            vendor: vendor.to_owned(),
            model: model.to_owned(),
            count,
            memory_mib: 0,
        }
    })
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let ask = (
        1_u32..9,
        256_u64..8192,
        prop::collection::vec(device(), 0..3),
    );
    let ask = ask.prop_map(|(cpus, memory_mib, devices)| {
        Wanted::Place(Box::new(Request {
            cpus,
            memory_mib,
            devices,
            ..request()
        }))
    });
    prop_oneof![3 => ask, 2 => any::<usize>().prop_map(Wanted::Release)]
}

/// A VM as the books have it.
struct Kept {
    request: Request,
    choice: Choice,
    devices: BTreeMap<String, i32>,
}

fn books(kept: &[Kept]) -> Vec<Placed<'_>> {
    kept.iter().map(entry).collect()
}

fn entry(vm: &Kept) -> Placed<'_> {
    Placed {
        namespace: "lab",
        name: "vm",
        labels: &vm.request.labels,
        policy: None,
        provider: PROVIDER,
        host: &vm.choice.host,
        claim: Some(Claim {
            cpus: vm.request.cpus,
            memory_mib: vm.request.memory_mib,
            ..Claim::default()
        }),
        devices: Some(&vm.devices),
        keeps_away: Vec::new(),
    }
}

fn decide(
    request: &Request,
    kept: &[Kept],
    hosts: &Inventory,
    overcommit: Overcommit,
) -> Option<Choice> {
    let site = Site {
        provider: PROVIDER,
        inventory: hosts,
        overcommit,
        rules: None,
    };
    let vms = books(kept);
    place(
        request,
        &World {
            sites: &[site],
            vms: &vms,
            namespaces: &NO_NAMESPACES,
        },
    )
    .ok()
}

fn check(kept: &[Kept], hosts: &Inventory, overcommit: Overcommit) {
    for host in &hosts.hosts {
        let here = || kept.iter().filter(|vm| vm.choice.host == host.name);
        let cpus: u32 = here().map(|vm| vm.request.cpus).sum();
        let memory: u64 = here().map(|vm| vm.request.memory_mib).sum();
        assert!(
            cpus * 100 <= host.cpus * overcommit.cpu_percent,
            "{cpus} CPUs of {}",
            host.name
        );
        assert!(memory * 100 <= host.memory_mib * u64::from(overcommit.memory_percent));
        for (name, count) in &host.devices {
            let given: i32 = here().filter_map(|vm| vm.devices.get(name)).sum();
            assert!(
                given <= i32::try_from(*count).expect("few"),
                "{given} of {count} {name}"
            );
        }
    }
    for vm in kept {
        let wanted: u32 = vm.request.devices.iter().map(|d| d.count).sum();
        assert_eq!(vm.choice.devices.values().sum::<u32>(), wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_thousand_requests_and_releases_never_give_anything_twice(
        list in prop::collection::vec(wanted(), 1000),
        cpu_percent in 100_u32..500,
    ) {
        let hosts = hosts();
        let overcommit = Overcommit { cpu_percent, ..Overcommit::default() };
        let mut kept: Vec<Kept> = Vec::new();
        for wanted in list {
            match wanted {
                Wanted::Release(number) if !kept.is_empty() => drop(kept.swap_remove(number % kept.len())),
                Wanted::Release(_) => {}
                Wanted::Place(request) => {
                    let Some(choice) = decide(&request, &kept, &hosts, overcommit) else { continue };
                    let counted = choice.devices.iter().map(|(n, c)| (n.clone(), i32::try_from(*c).expect("few")));
                    let devices = counted.collect();
                    kept.push(Kept { request: *request, choice, devices });
                    check(&kept, &hosts, overcommit);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn the_same_question_has_the_same_answer_and_more_room_never_hurts(
        list in prop::collection::vec(wanted(), 1..40),
        more in 1_u32..64,
    ) {
        let (small, overcommit) = (hosts(), Overcommit::default());
        let mut kept: Vec<Kept> = Vec::new();
        for wanted in list {
            let Wanted::Place(request) = wanted else { continue };
            let choice = decide(&request, &kept, &small, overcommit);
            prop_assert_eq!(&choice, &decide(&request, &kept, &small, overcommit));
            let mut shuffled = small.clone();
            shuffled.hosts.reverse();
            prop_assert_eq!(&choice, &decide(&request, &kept, &shuffled, overcommit));
            let Some(choice) = choice else { continue };
            let mut large = small.clone();
            for host in &mut large.hosts {
                host.cpus += more;
                host.memory_mib += u64::from(more);
                host.devices.values_mut().for_each(|count| *count += more);
            }
            large.hosts.push(Host { name: "extra".to_owned(), ..Host::default() });
            prop_assert!(decide(&request, &kept, &large, overcommit).is_some());
            let devices = choice.devices.iter().map(|(n, c)| (n.clone(), i32::try_from(*c).expect("few"))).collect();
            kept.push(Kept { request: *request, choice, devices });
        }
    }
}
