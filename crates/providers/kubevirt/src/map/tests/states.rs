//! What KubeVirt's answers mean.

use polyvirt_api::kubevirt::details;
use polyvirt_contract::model::{PowerState, Stage};
use serde_json::{Value, json};

use super::key;
use crate::facts::{Fact, InstanceFacts, VmFacts};
use crate::kinds::Kind;
use crate::map::from_kubevirt::Known;

fn vm_facts(status: Value) -> VmFacts {
    let object = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": "web", "namespace": "team", "labels": {"polyvirt.io/identity": "id-1"}},
        "spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 4}, "memory": {"guest": "2Gi"}}}}},
        "status": status,
    });
    let object = serde_json::from_value(object).expect("an object");
    match Fact::read(Kind::Vm, &object) {
        Some(Fact::Vm(facts)) => *facts,
        other => panic!("{other:?}"),
    }
}

fn state(vm: &VmFacts, instance: Option<&InstanceFacts>) -> polyvirt_contract::model::VmState {
    let key = key();
    let known = Known {
        key: &key,
        vm,
        instance,
        claims: std::collections::BTreeMap::new(),
        snapshots: None,
        revision: 1,
    };
    known.state()
}

fn instance(phase: &str) -> InstanceFacts {
    InstanceFacts {
        phase: phase.to_owned(),
        ..InstanceFacts::default()
    }
}

#[test]
fn every_printable_status_has_a_meaning() {
    let failing = json!([{"type": "Ready", "status": "False", "message": "why"}]);
    for (printable, phase, power, fault) in [
        ("Stopped", None, PowerState::Off, ""),
        ("Provisioning", None, PowerState::Off, ""),
        ("WaitingForVolumeBinding", None, PowerState::Off, ""),
        (
            "WaitingForReceiver",
            Some("WaitingForSync"),
            PowerState::Off,
            "",
        ),
        ("Starting", Some("Scheduling"), PowerState::Off, ""),
        ("Running", Some("Running"), PowerState::On, ""),
        ("Migrating", Some("Running"), PowerState::On, ""),
        ("Stopping", Some("Running"), PowerState::On, ""),
        ("Terminating", Some("Succeeded"), PowerState::Off, ""),
        ("Unknown", None, PowerState::Unknown, ""),
        ("Unknown", Some("Unknown"), PowerState::Unknown, ""),
        (
            "ErrorUnschedulable",
            Some("Scheduling"),
            PowerState::Off,
            "ErrorUnschedulable: why",
        ),
        (
            "ErrImagePull",
            Some("Scheduling"),
            PowerState::Off,
            "ErrImagePull: why",
        ),
        (
            "ImagePullBackOff",
            Some("Scheduling"),
            PowerState::Off,
            "ImagePullBackOff: why",
        ),
        (
            "ErrorPvcNotFound",
            None,
            PowerState::Off,
            "ErrorPvcNotFound: why",
        ),
        (
            "DataVolumeError",
            None,
            PowerState::Off,
            "DataVolumeError: why",
        ),
        (
            "CrashLoopBackOff",
            None,
            PowerState::Off,
            "CrashLoopBackOff: why",
        ),
    ] {
        let vm = vm_facts(json!({"printableStatus": printable, "conditions": failing}));
        let instance = phase.map(instance);
        let state = state(&vm, instance.as_ref());
        assert_eq!(state.power, power, "{printable}");
        assert_eq!(state.fault, fault, "{printable}");
        assert_eq!(state.stage, Stage::Whole, "{printable}");
    }
    let mut paused = instance("Running");
    paused.is_paused = true;
    let vm = vm_facts(json!({"printableStatus": "Paused"}));
    assert_eq!(state(&vm, Some(&paused)).power, PowerState::Suspended);
}

/// The last word about a machine that was stopped is the right one: what comes after it changes nothing that is worth a write.
#[test]
fn a_machine_that_has_ended_says_nothing_of_itself() {
    for (printable, phase, says) in [
        ("Running", Some("Succeeded"), "Stopped"),
        ("Stopping", Some("Succeeded"), "Stopped"),
        ("Stopping", Some("Failed"), "Stopped"),
        ("Stopping", None, "Stopped"),
        ("Stopping", Some("Running"), "Stopping"),
        ("CrashLoopBackOff", Some("Failed"), "CrashLoopBackOff"),
    ] {
        let vm = vm_facts(json!({"printableStatus": printable}));
        let mut machine = instance(phase.unwrap_or_default());
        machine.guest_os = "Linux".to_owned();
        machine.card_ips = vec![("net".to_owned(), vec!["10.0.0.1".to_owned()])];
        let details = state(&vm, phase.map(|_| &machine)).details;
        let told = |key: &str| details.get(key).map(String::as_str);
        assert_eq!(told(details::PRINTABLE_STATUS), Some(says), "{printable}");
        let runs = phase == Some("Running");
        assert_eq!(told(details::GUEST_OS).is_some(), runs, "{printable}");
        assert_eq!(told("kubevirt.ips.net").is_some(), runs, "{printable}");
    }
}

#[test]
fn what_waits_for_a_restart_is_named() {
    let waits = json!({"conditions": [{"type": "RestartRequired", "status": "True"}]});
    let mut running = instance("Running");
    running.size.cpu = 2;
    running.size.memory_mib = 2048;
    let state_of = |status: Value| state(&vm_facts(status), Some(&running));
    assert_eq!(
        state_of(waits.clone()).restart_required,
        ["spec.resources.cpu"]
    );
    assert_eq!(state_of(waits).cpu, 2, "what it has, not what it will have");
    assert!(
        state_of(json!({})).restart_required.is_empty(),
        "it is being plugged in"
    );
}

/// A machine with those disks and cards, and a VirtualMachine with those.
fn told(vm: &Value, instance: &Value) -> Vec<String> {
    let card = |name: &&str| json!({"name": name, "bridge": {}});
    let spec = |of: &Value| {
        let names = |list: &str| -> Vec<&str> {
            let all = of[list].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).collect()
        };
        let (disks, cards) = (names("disks"), names("cards"));
        let pod = names("pod");
        let cold = pod
            .iter()
            .map(|name| json!({"name": name, "masquerade": {}}));
        let disk = |name: &&str| json!({"name": name, "disk": {"bus": "virtio"}});
        let volume =
            |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        json!({
            "domain": {"devices": {
                "disks": disks.iter().map(disk).collect::<Vec<_>>(),
                "interfaces": cards.iter().map(card).chain(cold).collect::<Vec<_>>(),
            }},
            "volumes": disks.iter().map(volume).collect::<Vec<_>>(),
        })
    };
    let object = |kind: &str, spec: Value, status: Value| {
        serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1", "kind": kind,
            "metadata": {"name": "web", "namespace": "team"},
            "spec": spec, "status": status,
        }))
        .expect("an object")
    };
    let says = json!({"conditions": vm["conditions"]});
    let machine = object(
        "VirtualMachine",
        json!({"template": {"spec": spec(vm)}}),
        says,
    );
    let status = json!({"phase": "Running", "interfaces": instance["told"]});
    let running = object("VirtualMachineInstance", spec(instance), status);
    match (
        Fact::read(Kind::Vm, &machine),
        Fact::read(Kind::Vmi, &running),
    ) {
        (Some(Fact::Vm(vm)), Some(Fact::Instance(running))) => {
            state(&vm, Some(&running)).restart_required
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn disks_and_cards_that_wait_for_a_restart_are_named_both_ways() {
    let held = json!([{"type": "RestartRequired", "status": "True"}]);
    let plugged = |name: &str| json!({"name": name, "infoSource": "domain, guest-agent"});
    // What the guest has made itself, and what only the pod has any more.
    let bridge_of_guest = json!({"infoSource": "guest-agent", "ipAddress": "172.17.0.1"});
    let left = json!({"name": "b", "infoSource": "multus-status"});
    for (what, vm, instance, waits) in [
        (
            "a disk was taken away",
            json!({"disks": ["root"], "conditions": held}),
            json!({"disks": ["root", "data"]}),
            &["spec.disks"][..],
        ),
        (
            "a disk has come",
            json!({"disks": ["root", "data"], "conditions": held}),
            json!({"disks": ["root"]}),
            &["spec.disks"],
        ),
        (
            "a card was taken away",
            json!({"disks": ["root"], "cards": ["a"], "conditions": held}),
            json!({"disks": ["root"], "told": [plugged("b"), plugged("a")]}),
            &["spec.networks"],
        ),
        (
            "something else changed",
            json!({"disks": ["root"], "cards": ["a"], "conditions": held}),
            json!({"disks": ["root"], "told": [bridge_of_guest, plugged("a"), left]}),
            &["spec.class"],
        ),
        (
            "a card on the network of the pods, of which KubeVirt says nothing",
            json!({"disks": ["root"], "cards": ["a"], "pod": ["p"]}),
            json!({"disks": ["root"], "cards": ["a"], "told": [plugged("a")]}),
            &["spec.networks"],
        ),
        (
            "a card that is being plugged in",
            json!({"disks": ["root"], "cards": ["a", "b"]}),
            json!({"disks": ["root"], "cards": ["a"], "told": [plugged("a")]}),
            &[],
        ),
    ] {
        assert_eq!(told(&vm, &instance), waits, "{what}");
    }
}
