//! Row by row: how the VM stands, and how the Machine does.

use polyvirt_api::infra::{VirtualMachineSpec, VirtualMachineStatus};
use serde_json::{Value, json};

use super::*;
use crate::vitistack::assign::AssignError;
use crate::vitistack::lower::LowerError;

fn machine(deleting: bool) -> Machine {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "team", "uid": "u1", "generation": 3},
        "spec": {"template": "small"},
    });
    if deleting {
        object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    }
    serde_json::from_value(object).unwrap()
}

fn vm(status: Value) -> VirtualMachine {
    let mut vm = VirtualMachine::new("web", VirtualMachineSpec::default());
    vm.metadata.resource_version = Some("7".into());
    let status: Option<VirtualMachineStatus> = serde_json::from_value(status).unwrap();
    vm.status = status;
    vm
}

fn ready(status: &str, reason: &str, message: &str) -> Value {
    json!([{"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z"}])
}

fn running() -> VirtualMachine {
    vm(json!({
        "id": "team/vm-web",
        "phase": "Running",
        "powerState": "On",
        "message": "The VM is running",
        "host": "node-1",
        "ips": ["10.0.0.5", "fe80::1"],
        "currentResources": {"cpu": 2, "memoryMiB": 2048},
        "provider": {"kubevirt.printableStatus": "Running"},
        "conditions": ready("True", "ReconcileSuccess", "The VM is running"),
    }))
}

fn facts<'a>(
    machine: &'a Machine,
    vm: Option<&'a VirtualMachine>,
    trouble: Option<&'a Trouble>,
) -> Facts<'a> {
    Facts {
        machine,
        config: None,
        config_name: Some("east"),
        lowered: None,
        vm,
        trouble,
        handed_out: None,
        now: Timestamp::from_second(1_000).unwrap(),
    }
}

fn condition(status: &MachineStatus, kind: &str) -> (String, String) {
    let all = &status.conditions;
    let found = all.iter().find(|c| c.type_ == kind).unwrap();
    (found.status.clone(), found.reason.clone())
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn phases_follow_the_vm() {
    for (status, expected) in [
        (Value::Null, phase::CREATING),
        (json!({"phase": "Pending"}), phase::PENDING),
        (json!({"phase": "Provisioning"}), phase::CREATING),
        (json!({"phase": "Running"}), phase::RUNNING),
        (
            json!({"phase": "Running", "operation": {"kind": "GracefulStop", "since": "2026-01-02T03:04:05Z"}}),
            phase::STOPPING,
        ),
        (json!({"phase": "Stopped"}), phase::STOPPED),
        (
            json!({"phase": "Reconfiguring", "powerState": "On"}),
            phase::RUNNING,
        ),
        (
            json!({"phase": "Reconfiguring", "powerState": "Off"}),
            phase::STOPPED,
        ),
        (json!({"phase": "Deleting"}), phase::TERMINATING),
        (json!({"phase": "Failed"}), phase::FAILED),
    ] {
        let (machine, vm) = (machine(false), vm(status.clone()));
        let raised = raise(&facts(&machine, Some(&vm), None));
        assert_eq!(raised.phase.as_deref(), Some(expected), "{status}");
    }
    let waiting = machine(false);
    let raised = raise(&facts(&waiting, None, None));
    assert_eq!(raised.phase.as_deref(), Some(phase::PENDING));
    let (deleting, vm) = (machine(true), running());
    let raised = raise(&facts(&deleting, Some(&vm), None));
    assert_eq!(raised.phase.as_deref(), Some(phase::TERMINATING));
}

#[test]
fn a_machine_that_runs_says_so_in_all_its_conditions() {
    let (machine, vm) = (machine(false), running());
    let raised = raise(&facts(&machine, Some(&vm), None));
    for (kind, expected) in [
        ("Ready", pair("True", "ReconcileSuccess")),
        ("VirtualMachineReady", pair("True", "VMCreated")),
        ("StorageReady", pair("True", "PVCBound")),
        ("InfrastructureReady", pair("True", "VMCreated")),
    ] {
        assert_eq!(condition(&raised, kind), expected, "{kind}");
    }
    assert_eq!(raised.ip_addresses, ["10.0.0.5", "fe80::1"]);
    assert_eq!(raised.ipv6_addresses, ["fe80::1"]);
    assert_eq!(raised.node_name.as_deref(), Some("node-1"));
    assert_eq!((raised.cpus, raised.memory), (Some(2), Some(2048 << 20)));
    assert_eq!(raised.state.as_deref(), Some("Running"));
    assert_eq!(raised.kubevirt_config_ref.as_deref(), Some("east"));
    assert_eq!(raised.resource_version.as_deref(), Some("7"));
    assert_eq!(raised.observed_generation, Some(3));
    assert_eq!(
        (raised.failure_reason, raised.failure_message),
        (None, None)
    );
}

#[test]
fn without_news_nothing_changes_not_even_the_time() {
    let (mut machine, mut vm) = (machine(false), running());
    let first = raise(&facts(&machine, Some(&vm), None));
    machine.status = Some(first.clone());
    vm.metadata.resource_version = Some("8".into());
    let later = Facts {
        now: Timestamp::from_second(2_000).unwrap(),
        ..facts(&machine, Some(&vm), None)
    };
    assert_eq!(raise(&later), first);
    let stopped = super::tests::vm(json!({"id": "x", "phase": "Stopped"}));
    let news = raise(&Facts {
        vm: Some(&stopped),
        ..later
    });
    assert_ne!(news.last_updated, first.last_updated);
    assert_eq!(news.phase.as_deref(), Some("Stopped"));
    let kept = |status: &MachineStatus| {
        let all = status.conditions.iter();
        let mut storage = all.filter(|c| c.type_ == STORAGE_READY);
        storage.next().and_then(|c| c.last_transition_time.clone())
    };
    assert_eq!(kept(&news), kept(&first));
}

#[test]
fn errors_have_the_names_of_the_page() {
    let network = LowerError::NetworkNotFound {
        field: "spec.networks[0].networkName".into(),
        kind: "NetworkConfiguration",
        name: "prod".into(),
    };
    let template = LowerError::TemplateNotFound {
        field: "spec.template",
        name: "huge".into(),
    };
    for (trouble, reason) in [
        (Trouble::Lower(template), "TemplateNotFound"),
        (
            Trouble::Lower(network.clone()),
            "NetworkConfigurationNotFound",
        ),
        (
            Trouble::Assign(AssignError::None("web".into())),
            "KubevirtConfigNotFound",
        ),
        (Trouble::NameConflict("web".into()), "NameConflict"),
    ] {
        let machine = machine(false);
        let raised = raise(&facts(&machine, None, Some(&trouble)));
        assert_eq!(raised.phase.as_deref(), Some(phase::FAILED));
        assert_eq!(raised.failure_reason.as_deref(), Some(reason));
        assert_eq!(condition(&raised, "Ready"), pair("False", reason));
        assert_eq!(
            condition(&raised, "VirtualMachineReady"),
            pair("False", "VMFailed")
        );
        let note = note(&MachineStatus::default(), &raised).unwrap();
        assert_eq!(note.reason.as_str(), reason);
    }
    let (machine, trouble) = (machine(false), Trouble::Lower(network));
    let raised = raise(&facts(&machine, None, Some(&trouble)));
    assert_eq!(
        condition(&raised, "NetworkReady"),
        pair("False", "NetworkFailed")
    );
}

#[test]
fn failures_of_the_vm_are_told_in_known_words() {
    let create = "Failed to create VirtualMachine in remote cluster: ";
    let client = "Failed to get KubeVirt client for machine: ";
    let get = "Failed to get VirtualMachine from remote cluster: ";
    for (id, reason, message, expected, sentence) in [
        (
            None,
            "CapacityExhausted",
            "no node fits",
            "InsufficientResources",
            create,
        ),
        (
            None,
            "InvalidRequest",
            "StorageClass fast does not exist",
            "StorageClassNotFound",
            create,
        ),
        (
            None,
            "ProviderError",
            "admission webhook denied",
            "KubeVirtApiError",
            create,
        ),
        (
            None,
            "ProviderUnavailable",
            "no answer",
            "KubeVirtApiError",
            client,
        ),
        (
            Some("a/b"),
            "ProviderUnavailable",
            "no answer",
            "KubeVirtApiError",
            get,
        ),
        (Some("a/b"), "ProviderError", "no", "KubeVirtApiError", ""),
        (None, "UserDataInvalid", "line 3", "UserDataInvalid", ""),
    ] {
        let conditions = ready("False", reason, message);
        let status = json!({"phase": "Failed", "id": id, "conditions": conditions});
        let (machine, vm) = (machine(false), vm(status));
        let raised = raise(&facts(&machine, Some(&vm), None));
        assert_eq!(raised.failure_reason.as_deref(), Some(expected));
        assert_eq!(raised.failure_message, Some(format!("{sentence}{message}")));
    }
}

#[test]
fn what_is_over_is_forgotten() {
    let mut machine = machine(false);
    let trouble = Trouble::NameConflict("web".into());
    machine.status = Some(raise(&facts(&machine, None, Some(&trouble))));
    let vm = running();
    let raised = raise(&facts(&machine, Some(&vm), None));
    assert_eq!(
        (&raised.failure_reason, &raised.failure_message),
        (&None, &None)
    );
    assert_eq!(condition(&raised, "Ready").0, "True");
}

#[test]
fn a_wrong_edit_does_not_hide_the_vm() {
    let (machine, vm) = (machine(false), running());
    let trouble = Trouble::Lower(LowerError::invalid("spec.disks", "No"));
    let raised = raise(&facts(&machine, Some(&vm), Some(&trouble)));
    assert_eq!(raised.phase.as_deref(), Some(phase::RUNNING));
    assert_eq!(condition(&raised, "Ready"), pair("False", "InvalidSpec"));
    assert_eq!(raised.message.as_deref(), Some("spec.disks: No"));
}

#[test]
fn what_waits_for_a_restart_is_told_while_it_waits() {
    let mut machine = machine(false);
    let mut vm = running();
    let text = "These changes take effect at the next restart: spec.networks. Restart the VM (annotation virtrigaud.io/reboot)";
    let waits = json!([{"type": "RestartRequired", "status": "True", "reason": "RestartRequired", "message": text, "lastTransitionTime": "2026-01-02T03:04:05Z"}]);
    let waits: Vec<_> = serde_json::from_value(waits).unwrap();
    let before = vm.status.clone();
    vm.status.as_mut().unwrap().conditions.extend(waits);
    let raised = raise(&facts(&machine, Some(&vm), None));
    let told = pair("True", "RestartRequired");
    assert_eq!(condition(&raised, "RestartRequired"), told);
    let mut all = raised.conditions.iter();
    let message = all
        .find(|c| c.type_ == "RestartRequired")
        .map(|c| &*c.message);
    let expected = "These changes take effect at the next restart: spec.networks. Restart it: polyvirt vm restart web, or the annotation vitistack.io/power-state Off and then On";
    assert_eq!(message, Some(expected));
    assert_eq!(condition(&raised, "Ready").0, "True");
    machine.status = Some(raised);
    vm.status = before;
    let raised = raise(&facts(&machine, Some(&vm), None));
    assert!(
        raised
            .conditions
            .iter()
            .all(|c| c.type_ != "RestartRequired")
    );
}
