//! What KubeVirt's answers mean.

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
