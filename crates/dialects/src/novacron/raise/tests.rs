//! What people read, row by row.
#![allow(
    clippy::needless_pass_by_value,
    reason = "specs are written where they are used"
)]

use polyvirt_api::infra::ProviderType;
use serde_json::{Value, json};

use super::*;
use crate::novacron::lower::{LowerError, Offer, Surroundings, lower};
use crate::novacron::place::PlaceError;
use polyvirt_engine::runtime::key::ObjectKey;

fn vm(running: bool, status: Value) -> VirtualMachine {
    let object = json!({
        "metadata": {"name": "my-vm", "namespace": "default", "uid": "u", "generation": 3},
        "spec": {"running": running, "template": {"spec": {
            "resources": {"cpu": 2, "memory": "4Gi", "disk": "50Gi"}, "image": {"source": "golden"},
        }}},
        "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn made(status: Value) -> infra::VirtualMachine {
    let mut made = infra::VirtualMachine::new("my-vm", infra::VirtualMachineSpec::default());
    made.status = serde_json::from_value(status).unwrap();
    made
}

fn running() -> Value {
    json!({
        "id": "vm-1", "phase": "Running", "powerState": "On", "ips": ["192.0.2.7"], "host": "node-1",
        "currentResources": {"cpu": 2, "memoryMiB": 4096},
        "snapshots": [{"id": "s", "name": "nightly", "creationTime": "2026-01-01T00:00:00Z", "sizeBytes": 2_147_483_648_i64}],
        "conditions": [ready("True", "ReconcileSuccess", "The VM runs")],
    })
}

fn ready(status: &str, reason: &str, message: &str) -> Value {
    json!({"type": "Ready", "status": status, "reason": reason, "message": message,
           "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn with(mut base: Value, change: Value) -> Value {
    for (name, value) in change.as_object().unwrap() {
        base[name] = value.clone();
    }
    base
}

fn raised(
    vm: &VirtualMachine,
    made: Option<&infra::VirtualMachine>,
    trouble: Option<&Trouble>,
) -> VirtualMachineStatus {
    raise(&Facts {
        vm,
        lowered: None,
        made,
        migration: None,
        trouble,
        now: "2026-02-02T00:00:00Z".parse().unwrap(),
    })
}

fn word(status: &VirtualMachineStatus) -> (String, String, String) {
    let ready = conditions::find(status, READY).unwrap();
    let reason = ready.reason.clone().unwrap();
    (status.phase.clone().unwrap(), ready.status.clone(), reason)
}

#[test]
fn every_state_has_its_words() {
    let operation = |kind: &str| json!({"kind": kind, "since": "2026-01-01T00:00:00Z"});
    let sick = json!({"conditions": [ready("False", "VmFault", "The disk is full")]});
    let silent = json!({"conditions": [ready("Unknown", "ProviderUnavailable", "No answer")]});
    let off = json!({"id": "vm-1", "phase": "Stopped", "powerState": "Off"});
    for (wanted, status, expected) in [
        (true, json!(null), ("Pending", "False", "Creating")),
        (
            true,
            json!({"phase": "Pending"}),
            ("Pending", "False", "Creating"),
        ),
        (
            true,
            json!({"phase": "Provisioning"}),
            ("Pending", "False", "Creating"),
        ),
        (
            true,
            json!({"phase": "Provisioning", "conditions": [ready("False", "Recreating", "")]}),
            ("Pending", "False", "Recovering"),
        ),
        (
            true,
            json!({"phase": "Provisioning", "id": "vm-1"}),
            ("Pending", "False", "Starting"),
        ),
        (true, running(), ("Running", "True", "Running")),
        (
            true,
            with(running(), sick),
            ("Running", "False", "Unhealthy"),
        ),
        (
            true,
            with(running(), silent),
            ("Running", "Unknown", "Unhealthy"),
        ),
        (
            false,
            with(running(), json!({"operation": operation("GracefulStop")})),
            ("Running", "False", "ShuttingDown"),
        ),
        (
            true,
            with(
                running(),
                json!({"provider": {"printableStatus": "Migrating"}}),
            ),
            ("Migrating", "True", "Migrating"),
        ),
        (false, off.clone(), ("Stopped", "False", "Stopped")),
        (true, off.clone(), ("Pending", "False", "Starting")),
        (
            false,
            with(off, json!({"operation": operation("PowerOn")})),
            ("Pending", "False", "Starting"),
        ),
        (
            true,
            with(running(), json!({"phase": "Reconfiguring"})),
            ("Running", "True", "Running"),
        ),
        (
            true,
            json!({"phase": "Failed"}),
            ("Failed", "False", "CreateFailed"),
        ),
        (
            true,
            json!({"phase": "Failed", "id": "vm-1"}),
            ("Failed", "False", "Failed"),
        ),
    ] {
        let found = word(&raised(
            &vm(wanted, json!(null)),
            Some(&made(status.clone())),
            None,
        ));
        let found = (found.0.as_str(), found.1.as_str(), found.2.as_str());
        assert_eq!(found, expected, "{status}");
    }
}

/// A provider that answers when all is done leaves no operation behind.
#[test]
fn work_that_is_done_at_once_is_no_illness() {
    for (why, expected) in [
        ("ShuttingDown", "ShuttingDown"),
        ("PoweringOff", "ShuttingDown"),
        ("HookRunning", "ShuttingDown"),
        ("Reconfiguring", "Reconfiguring"),
        ("Rebooting", "Reconfiguring"),
        ("VmFault", "Unhealthy"),
    ] {
        let busy = json!({"conditions": [ready("False", why, "At work")]});
        let status = raised(
            &vm(true, json!({})),
            Some(&made(with(running(), busy))),
            None,
        );
        assert_eq!(word(&status).2, expected, "{why}");
    }
}

#[test]
fn a_vm_that_is_to_be_started_does_not_say_that_it_is_off_as_declared() {
    let off = json!({
        "id": "vm-1", "phase": "Stopped", "powerState": "Off",
        "conditions": [ready("True", "ReconcileSuccess", "The VM is off, as declared")],
    });
    let status = raised(&vm(true, json!({})), Some(&made(off)), None);
    assert_eq!(word(&status).2, "Starting");
    let told = conditions::find(&status, READY).unwrap().message.clone();
    assert_eq!(told.as_deref(), Some("The VM is to be started"));
}

#[test]
fn trouble_goes_before_everything() {
    let missing = LowerError::Missing {
        field: "f".to_owned(),
        message: "It is not there".to_owned(),
    };
    let conflict = Trouble::NameConflict {
        kind: "VirtualMachine",
        name: "my-vm".to_owned(),
    };
    for (trouble, phase, reason) in [
        (
            Trouble::from(PlaceError::NoProvider),
            "Pending",
            "NodeSelectionFailed",
        ),
        (Trouble::from(missing), "Pending", "WaitingForDependencies"),
        (
            Trouble::from(LowerError::invalid("f", "Wrong")),
            "Failed",
            "CreateFailed",
        ),
        (conflict, "Failed", "NameConflict"),
        (Trouble::Refused("no".to_owned()), "Failed", "CreateFailed"),
    ] {
        let found = word(&raised(&vm(true, json!(null)), None, Some(&trouble)));
        assert_eq!(
            found,
            (phase.to_owned(), "False".to_owned(), reason.to_owned())
        );
        let on = raised(
            &vm(true, json!(null)),
            Some(&made(running())),
            Some(&trouble),
        );
        assert_eq!(
            word(&on),
            ("Running".to_owned(), "False".to_owned(), reason.to_owned())
        );
    }
}

#[test]
fn a_vm_that_runs_says_where_and_what_it_has() {
    let status = raised(&vm(true, json!(null)), Some(&made(running())), None);
    let shown = serde_json::to_value(&status).unwrap();
    for (path, expected) in [
        ("/nodeName", json!("node-1")),
        ("/vmID", json!("vm-1")),
        ("/ipAddresses", json!(["192.0.2.7"])),
        (
            "/resources",
            json!({"cpu": {"available": "2"}, "memory": {"available": "4Gi"}, "disk": {"available": "50Gi"}}),
        ),
        (
            "/snapshots",
            json!([{"name": "nightly", "createdAt": "2026-01-01T00:00:00Z", "size": "2Gi"}]),
        ),
        ("/lastUpdated", json!("2026-02-02T00:00:00Z")),
        ("/observedGeneration", json!(3)),
    ] {
        assert_eq!(shown.pointer(path), Some(&expected), "{path}");
    }
    let off = with(running(), json!({"phase": "Stopped", "powerState": "Off"}));
    let status = raised(&vm(false, json!(null)), Some(&made(off)), None);
    assert_eq!(status.node_name, None);
    assert_eq!(status.vm_id.as_deref(), Some("vm-1"));
}

#[test]
fn without_news_nothing_moves() {
    let made = made(running());
    let first = raised(&vm(true, json!(null)), Some(&made), None);
    let again = vm(true, serde_json::to_value(&first).unwrap());
    let later = raise(&Facts {
        vm: &again,
        lowered: None,
        made: Some(&made),
        migration: None,
        trouble: None,
        now: "2026-03-03T00:00:00Z".parse().unwrap(),
    });
    assert_eq!(later, first);
    assert_eq!(note(&first, &later), None);
}

#[test]
fn what_was_sick_is_healthy_and_stays_so() {
    let sick = with(
        running(),
        json!({"conditions": [ready("False", "VmFault", "The disk is full")]}),
    );
    let first = raised(&vm(true, json!(null)), Some(&made(sick)), None);
    let note = note(&VirtualMachineStatus::default(), &first).unwrap();
    assert_eq!(
        (note.reason, note.message.as_str()),
        (Reason::Unhealthy, "The disk is full")
    );
    let mut status = first;
    for _ in 0..2 {
        let again = vm(true, serde_json::to_value(&status).unwrap());
        status = raised(&again, Some(&made(running())), None);
        assert_eq!(word(&status).2, "Healthy");
    }
}

#[test]
fn migration_and_idle_fields_have_conditions() {
    let mut wanted = vm(true, json!(null));
    wanted.spec.migration_policy = serde_json::from_value(json!({
        "allowLiveMigration": true, "compression": true, "bandwidth": "10Gbps",
    }))
    .unwrap();
    let around = Surroundings {
        name: "my-vm",
        provider: &ObjectKey::new("default", "p"),
        provider_type: Some(ProviderType::Mock),
        marketplace: &|_| None::<Offer>,
        catalogue: &ObjectKey::new("a", "b"),
        has_network: &|_| false,
        before: None,
    };
    let lowered = lower(&wanted, &around).unwrap();
    let made = made(running());
    let status = raise(&Facts {
        vm: &wanted,
        lowered: Some(&lowered),
        made: Some(&made),
        migration: None,
        trouble: None,
        now: "2026-02-02T00:00:00Z".parse().unwrap(),
    });
    let live = conditions::find(&status, "LiveMigratable").unwrap();
    assert_eq!(
        (live.status.as_str(), live.reason.as_deref()),
        ("True", Some("MigrationEnabled"))
    );
    assert!(live.message.as_deref().unwrap().contains("1250000000"));
    assert!(conditions::find(&status, "FieldsHonoured").is_none());
    wanted.spec.migration_policy = None;
    wanted.status = Some(status);
    let lowered = lower(&wanted, &around).unwrap();
    let status = raise(&Facts {
        vm: &wanted,
        lowered: Some(&lowered),
        made: Some(&made),
        migration: None,
        trouble: None,
        now: "2026-02-02T00:00:00Z".parse().unwrap(),
    });
    let live = conditions::find(&status, "LiveMigratable").unwrap();
    assert_eq!(live.reason.as_deref(), Some("MigrationDisabled"));
    assert!(conditions::find(&status, "FieldsHonoured").is_none());
}

#[test]
fn a_move_is_told_as_its_vm_migration_tells_it() {
    let wanted = vm(true, json!(null));
    let made = made(running());
    let told = |status: Value| {
        let migration: VMMigration = serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMMigration",
            "metadata": {"name": "my-vm-migrate"},
            "spec": {
                "source": {"vmRef": {"name": "my-vm"}},
                "target": {"providerRef": {"name": "p"}, "host": "node-2"},
            },
            "status": status,
        }))
        .unwrap();
        raise(&Facts {
            vm: &wanted,
            lowered: None,
            made: Some(&made),
            migration: Some(&migration),
            trouble: None,
            now: "2026-02-02T00:00:00Z".parse().unwrap(),
        })
    };
    let busy = told(json!({"phase": "Transferring", "progress": {"percentage": 40}}));
    let shown = busy.migration.unwrap();
    assert_eq!(
        (
            shown.state.as_deref(),
            shown.target_node.as_deref(),
            shown.progress
        ),
        (Some("running"), Some("node-2"), Some(40))
    );
    let failed = told(json!({"phase": "Failed", "message": "The link broke"}));
    let ready = conditions::find(&failed, "Ready").unwrap();
    assert_eq!(
        (
            ready.status.as_str(),
            ready.reason.as_deref(),
            ready.message.as_deref()
        ),
        ("True", Some("MigrationFailed"), Some("The link broke"))
    );
    let over = told(json!({"phase": "Ready"})).migration.unwrap();
    assert_eq!(
        (over.state.as_deref(), over.progress),
        (Some("completed"), Some(100))
    );
}
