//! Which host a VM goes to, why none, and that no manager's death changes the choice.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_api::infra::{VMPhase, VMPlacementPolicy, VirtualMachine};
use polyvirt_contract::Provider as _;
use polyvirt_contract::model::HostHealth;
use polyvirt_engine::context::Stores;
use polyvirt_engine::link::{Link, Links};
use polyvirt_engine::placement::Chooser;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_placement::Request;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{HostPool, Mock, MockConfig, Offer};
use serde_json::{Value, json};

use crate::support::look::{condition, ready, runs, says};
use crate::support::world::{GLANCE, HYPERVISOR, Manifest, PATIENCE};
use crate::support::{World, message, phase, vm};

pub fn hosts(count: u16) -> MockConfig {
    MockConfig {
        hosts: HostPool {
            count,
            cpus: 8,
            memory_mib: 4096,
            zones: 2,
            gpus: 2,
            virtual_functions: 2,
        },
        ..MockConfig::default()
    }
}

pub fn placed(name: &str, placement: Value) -> Manifest<VirtualMachine> {
    vm(name).spec(json!({ "placement": placement }))
}

fn on(vm: &VirtualMachine) -> String {
    let status = vm.status.as_ref();
    status.and_then(|s| s.host.clone()).unwrap_or_default()
}

fn chosen(vm: &VirtualMachine) -> Option<String> {
    vm.status.as_ref()?.placement.as_ref()?.host.clone()
}

pub fn refused(vm: &VirtualMachine) -> bool {
    says(vm, "Placed", "False", Reason::Unschedulable)
}

/// All VMs of the application are to be on hosts of their own.
fn apart(name: &str) -> Manifest<VirtualMachine> {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}});
    let affinity =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    placed(name, json!({ "affinity": affinity }))
        .changed(json!({"metadata": {"labels": {"app": "db"}}}))
}

fn hosts_of(mock: &Mock) -> Vec<String> {
    let mut hosts: Vec<_> = mock.vms().into_iter().map(|vm| vm.host).collect();
    hosts.sort();
    hosts
}

#[tokio::test]
async fn a_selector_chooses_the_host_and_the_status_says_why() {
    let (world, mock) = World::furnished("place", hosts(3)).await;
    world
        .create(placed(
            "web",
            json!({"nodeSelector": {"kubernetes.io/hostname": "host-3"}}),
        ))
        .await;
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!(hosts_of(&mock), ["host-3"]);
    assert_eq!(
        (chosen(&vm).as_deref(), on(&vm).as_str()),
        (Some("host-3"), "host-3")
    );
    assert!(says(&vm, "Placed", "True", Reason::Placed));
    let placement = vm
        .status
        .clone()
        .and_then(|s| s.placement)
        .expect("a placement");
    assert_eq!((placement.cpu, placement.memory_mib), (Some(2), Some(2048)));
    let verdicts: Vec<_> = placement
        .hosts
        .iter()
        .map(|h| (h.name.as_str(), h.fits))
        .collect();
    assert_eq!(
        verdicts,
        [("host-3", true), ("host-1", false), ("host-2", false)]
    );
    assert_eq!(
        placement.hosts[1].message,
        "did not match the selector on label kubernetes.io/hostname"
    );
    let event = world.told("web", Reason::Placed).await;
    assert!(
        event
            .note
            .starts_with("Goes to host host-3. Best of 1 hosts"),
        "{}",
        event.note
    );
}

#[tokio::test]
async fn a_vm_without_wishes_is_left_to_its_provider() {
    let (world, _mock) = World::furnished("unplaced", hosts(3)).await;
    world.create(vm("web")).await;
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!((chosen(&vm), condition(&vm, "Placed")), (None, None));
}

#[tokio::test]
async fn vms_that_are_to_be_apart_are_and_one_too_many_waits_until_one_goes() {
    let (world, mock) = World::furnished("apart", hosts(2)).await;
    for name in ["a", "b"] {
        world.create(apart(name)).await;
    }
    for name in ["a", "b"] {
        world.vm(name, "runs", runs).await;
    }
    assert_eq!(hosts_of(&mock), ["host-1", "host-2"]);
    world.create(apart("c")).await;
    let third = world.vm("c", "is refused", refused).await;
    assert_eq!(phase(&third), Some(VMPhase::Pending));
    let text = "spec.placement: 0/2 hosts are available: 2 a VM to be away from in the same host. `polyvirt vm explain c` tells it of each host";
    assert_eq!(message(&third), text);
    let event = world.told("c", Reason::Unschedulable).await;
    assert!(event.warning && event.note == text, "{event:?}");
    let first = world.get::<VirtualMachine>("a").await;
    world.delete::<VirtualMachine>("a").await;
    let third = world.vm("c", "runs where a was", runs).await;
    assert_eq!(on(&third), on(&first));
}

#[tokio::test]
async fn many_at_once_never_get_more_than_the_hosts_have() {
    let (world, mock) = World::furnished("room", hosts(3)).await;
    let begin = std::time::Instant::now();
    for number in 0..9 {
        let name = format!("vm-{number}");
        world
            .create(placed(
                &name,
                json!({"nodeSelector": {"topology.kubernetes.io/zone": "zone-1"}}),
            ))
            .await;
    }
    // Two hosts are in zone-1, and each has room for two VMs of 2 GiB.
    let waiting = loop {
        let (running, others): (Vec<_>, Vec<_>) = world
            .list::<VirtualMachine>()
            .await
            .into_iter()
            .partition(runs);
        if running.len() == 4 && others.iter().all(refused) {
            break others;
        }
        assert!(
            begin.elapsed() < 2 * PATIENCE,
            "{} run: {others:#?}",
            running.len()
        );
        tokio::time::sleep(GLANCE).await;
    };
    assert_eq!(hosts_of(&mock), ["host-1", "host-1", "host-3", "host-3"]);
    assert_eq!(waiting.len(), 5);
    let text = message(&waiting[0]);
    assert!(text.contains("2 too little memory"), "{text}");
    assert!(text.contains("1 did not match the selector"), "{text}");
}

fn gpus(name: &str, count: u32) -> Manifest<VirtualMachine> {
    let gpu = json!({"name": "card", "type": "gpu", "vendor": "nvidia", "count": count});
    vm(name).spec(json!({"resources": {"devices": [gpu], "memoryMiB": 512}}))
}

#[tokio::test]
async fn a_device_is_given_to_one_vm_only() {
    let (world, mock) = World::furnished("devices", hosts(2)).await;
    for (name, count) in [("a", 1), ("b", 1), ("c", 1), ("d", 1)] {
        world.create(gpus(name, count)).await;
    }
    for name in ["a", "b", "c", "d"] {
        let vm = world.vm(name, "runs", runs).await;
        let placement = vm.status.and_then(|s| s.placement).expect("a placement");
        assert_eq!(placement.devices["nvidia.com/tesla-t4"], 1);
    }
    assert_eq!(hosts_of(&mock), ["host-1", "host-1", "host-2", "host-2"]);
    let told = mock
        .vms()
        .into_iter()
        .filter(|vm| vm.details["devices"] == "nvidia.com/tesla-t4=1");
    assert_eq!(told.count(), 4);
    world.create(gpus("e", 2)).await;
    let fifth = world.vm("e", "is refused", refused).await;
    assert!(
        message(&fifth).contains("2 too few devices 2 × gpu nvidia"),
        "{}",
        message(&fifth)
    );
    for name in ["a", "b", "c"] {
        world.delete::<VirtualMachine>(name).await;
    }
    world.vm("e", "runs", runs).await;
}

#[tokio::test]
async fn a_choice_outlives_the_manager_that_made_it() {
    let (mut world, mock) = World::furnished("choice", hosts(4)).await;
    let set = |health| {
        for host in ["host-1", "host-2", "host-3"] {
            mock.out_of_band()
                .host_health(host, health)
                .expect("a host");
        }
    };
    set(HostHealth::Cordoned);
    mock.faults()
        .parse("fail=Create:Unavailable")
        .expect("a rule");
    world
        .create(placed(
            "web",
            json!({"nodeSelector": {"topology.kubernetes.io/zone": "zone-2"}}),
        ))
        .await;
    world
        .vm("web", "has a host", |vm| chosen(vm).is_some())
        .await;
    world.stop().await;
    assert!(mock.vms().is_empty());
    set(HostHealth::Ready);
    mock.faults().clear();
    world.start().await;
    let vm = world.vm("web", "runs", runs).await;
    // Chosen anew, it would be host-2, which comes first.
    assert_eq!((on(&vm).as_str(), mock.vms().len()), ("host-4", 1));
}

#[tokio::test]
async fn a_host_that_is_full_after_all_is_passed_over() {
    let (world, mock) = World::furnished("full", hosts(2)).await;
    // Each host takes 8 CPUs for certain, and is believed to take 32.
    let first = json!({"nodeSelector": {"kubernetes.io/hostname": "host-1"}});
    let large = json!({"resources": {"cpu": 8, "memoryMiB": 512}});
    world.create(placed("large", first).spec(large)).await;
    world.vm("large", "runs", runs).await;
    let prefers = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["host-1"]}]}}]}});
    world
        .create(placed("small", json!({ "affinity": prefers })))
        .await;
    let vm = world.vm("small", "runs elsewhere", runs).await;
    assert_eq!(on(&vm), "host-2");
    assert_eq!(mock.vms().len(), 2);
}

#[tokio::test]
async fn a_provider_may_say_how_much_its_hosts_promise() {
    let mut world = World::empty("overcommit").await;
    world.furnish(hosts(1)).await;
    let strict = json!({"spec": {"overcommit": {"cpuPercent": 25}}});
    world
        .edit::<polyvirt_api::infra::Provider>(HYPERVISOR, strict)
        .await;
    world.start().await;
    let anywhere = json!({"nodeSelector": {"kubernetes.io/hostname": "host-1"}});
    world.create(placed("a", anywhere.clone())).await;
    world.vm("a", "runs", runs).await;
    world.create(placed("b", anywhere)).await;
    let second = world.vm("b", "is refused", refused).await;
    assert!(
        message(&second).contains("1 too few CPUs"),
        "{}",
        message(&second)
    );
}

#[tokio::test]
async fn a_policy_places_those_that_name_it_and_stays_while_they_do() {
    let (world, mock) = World::furnished("policy", hosts(2)).await;
    let named = |name: &str| vm(name).spec(json!({"placementRef": {"name": "spread"}}));
    world.create(named("a")).await;
    let waits =
        |vm: &VirtualMachine| message(vm).contains("VMPlacementPolicy spread does not exist");
    world.vm("a", "waits for its policy", waits).await;
    let rules = json!({"antiAffinity": {"hostAntiAffinity": {"enabled": true, "scope": "strict"}}, "hard": {"zones": ["zone-1", "zone-2"]}});
    world
        .create(Manifest::<VMPlacementPolicy>::new("spread", rules))
        .await;
    world.create(named("b")).await;
    for name in ["a", "b"] {
        world.vm(name, "runs", runs).await;
    }
    assert_eq!(hosts_of(&mock), ["host-1", "host-2"]);
    world.create(named("c")).await;
    let third = world.vm("c", "is refused", refused).await;
    assert!(
        message(&third).contains("2 with 1, the most VMs allowed, in the same host"),
        "{}",
        message(&third)
    );
    let counted = |policy: &VMPlacementPolicy| {
        let status = policy.status.clone().unwrap_or_default();
        let stats = status.placement_stats.unwrap_or_default();
        ready(policy)
            && status.used_by_count == Some(3)
            && stats.successful_placements == Some(2)
            && stats.failed_placements == Some(1)
    };
    world.until("spread", "counts its users", counted).await;
    world.delete::<VMPlacementPolicy>("spread").await;
    let held = |policy: &VMPlacementPolicy| says(policy, "Deleting", "True", Reason::InUse);
    world.until("spread", "is held", held).await;
    for name in ["a", "b", "c"] {
        world.delete::<VirtualMachine>(name).await;
    }
    world.gone::<VMPlacementPolicy>("spread").await;
}

#[tokio::test]
async fn on_a_provider_without_hosts_the_wishes_are_named_as_idle() {
    let mut world = World::empty("no-hosts").await;
    let basic = MockConfig {
        offer: Offer::Basic,
        ..MockConfig::default()
    };
    world.furnish(basic).await;
    world.start().await;
    world
        .create(placed("web", json!({"nodeSelector": {"a": "b"}})))
        .await;
    let vm = world.vm("web", "runs", runs).await;
    let idle = condition(&vm, "FieldsHonoured").expect("told");
    assert!(
        idle.message.contains("spec.placement.nodeSelector"),
        "{}",
        idle.message
    );
    assert_eq!(chosen(&vm), None);
}

/// For a dialect whose objects name no provider.
#[tokio::test]
async fn the_best_of_all_providers_that_answer_is_found() {
    let (stores, links, now) = (Stores::default(), Links::default(), Timestamp::now());
    let key = |name: &str| ObjectKey::new("lab", name);
    for (name, count) in [("full", 1), ("roomy", 2)] {
        let mock = Mock::new(hosts(count));
        if name == "full" {
            mock.out_of_band()
                .host_health("host-1", HostHealth::Cordoned)
                .expect("a host");
        }
        let (features, capabilities) = (mock.features().await, mock.capabilities().await);
        let link = Arc::new(Link::new(key(name)));
        link.connected(
            mock,
            features.expect("told"),
            capabilities.expect("told"),
            now,
            Duration::ZERO,
        );
        links.put(link);
    }
    let request = Request {
        cpus: 2,
        memory_mib: 2048,
        ..Request::default()
    };
    let all = [key("full"), key("gone"), key("roomy")];
    let later = now.saturating_add(Duration::from_secs(31)).expect("a time");
    let chooser = Chooser::default();
    let choice = chooser
        .choose(&stores, &links, &all, &request, later)
        .await
        .expect("a host");
    assert_eq!(
        (choice.provider.as_str(), choice.host.as_str()),
        ("lab/roomy", "host-1")
    );
    let refusal = chooser
        .choose(&stores, &links, &all[..2], &request, later)
        .await
        .expect_err("none");
    assert_eq!(refusal.summary(), "0/1 hosts are available: 1 cordoned");
}
