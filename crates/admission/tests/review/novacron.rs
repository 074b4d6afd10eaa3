//! VirtualMachines of NovaCron.

use polyvirt_admission::{Decision, GroupKind, Operation, Request, Verdict, review};
use serde_json::{Value, json};

use crate::world::{World, assert_warned, fields};

fn manifest(spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "novacron.io/v1alpha1", "kind": "VirtualMachine", "metadata": {"name": "it"},
        "spec": {"template": {"spec": {
            "resources": {"cpu": 2, "memory": "4Gi", "disk": "50Gi"},
            "image": {"source": "marketplace://ubuntu-22.04-lts"},
        }}},
    });
    merge(&mut object["spec"], &spec);
    object
}

fn merge(into: &mut Value, patch: &Value) {
    match patch {
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| merge(&mut into[name.as_str()], value)),
        other => *into = other.clone(),
    }
}

fn ask(operation: Operation, new: Value, old: Value) -> Verdict {
    let request = Request {
        kind: GroupKind {
            group: "novacron.io".to_owned(),
            kind: "VirtualMachine".to_owned(),
        },
        uid: "1".to_owned(),
        name: "it".to_owned(),
        namespace: "team".to_owned(),
        operation,
        object: new,
        old_object: old,
        ..Request::default()
    };
    review(&request, &World::furnished())
}

#[test]
fn what_can_never_work_is_refused_with_its_field() {
    let made_of = |patch: Value| json!({"template": {"spec": patch}});
    for (spec, expected) in [
        (json!({}), vec![]),
        (
            json!({"running": true, "snapshotPolicy": {"schedule": "0 2 * * *", "retention": 7}}),
            vec![],
        ),
        (json!({"migrationPolicy": {"bandwidth": "10Gbps"}}), vec![]),
        (
            json!({"snapshotPolicy": {"schedule": "TZ=Europe/Oslo 0 2 * * *"}}),
            vec![],
        ),
        (
            json!({"snapshotPolicy": {"schedule": "TZ=Europe/Atlantis 0 2 * * *"}}),
            vec!["spec.snapshotPolicy.schedule"],
        ),
        (
            json!({"snapshotPolicy": {"schedule": "0 25 * * *"}}),
            vec!["spec.snapshotPolicy.schedule"],
        ),
        (
            json!({"snapshotPolicy": {"schedule": "often"}}),
            vec!["spec.snapshotPolicy.schedule"],
        ),
        (
            json!({"migrationPolicy": {"bandwidth": "fast"}}),
            vec!["spec.migrationPolicy.bandwidth"],
        ),
        (
            made_of(json!({"resources": {"memory": "4GB"}})),
            vec!["spec.template.spec.resources.memory"],
        ),
        (
            made_of(json!({"resources": {"disk": "big"}})),
            vec!["spec.template.spec.resources.disk"],
        ),
        (
            made_of(json!({"image": {"source": "ftp://x"}})),
            vec!["spec.template.spec.image.source"],
        ),
        (
            made_of(
                json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}}),
            ),
            vec![
                "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            ],
        ),
        (
            made_of(
                json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}}]}}}),
            ),
            vec![
                "spec.template.spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector.matchExpressions[0].operator",
            ],
        ),
        (
            made_of(json!({"lifecycle": {"preStart": {"exec": {"command": ["x"]}}}})),
            vec!["spec.template.spec.lifecycle.preStart.exec"],
        ),
        (
            made_of(
                json!({"networks": [{"name": "a", "type": "bridge", "ipv4": {"method": "static"}}]}),
            ),
            vec!["spec.template.spec.networks[0].ipv4.address"],
        ),
    ] {
        let verdict = ask(Operation::Create, manifest(spec.clone()), Value::Null);
        assert_eq!(fields(&verdict), expected, "{spec}");
    }
}

#[test]
fn old_faults_stay_and_new_ones_are_refused() {
    let old = manifest(json!({"migrationPolicy": {"bandwidth": "fast"}}));
    let mut new = old.clone();
    new["spec"]["running"] = json!(true);
    assert_eq!(
        ask(Operation::Update, new.clone(), old.clone()).decision,
        Decision::Allowed
    );
    new["spec"]["updateStrategy"] = json!({"type": "Whatever"});
    let verdict = ask(Operation::Update, new, old);
    assert_eq!(fields(&verdict), ["spec.updateStrategy.type"]);
}

#[test]
fn an_image_that_is_not_there_yet_is_warned_of() {
    let named = manifest(json!({"template": {"spec": {"image": {"source": "nowhere"}}}}));
    let verdict = ask(Operation::Create, named, Value::Null);
    assert_eq!(verdict.decision, Decision::Allowed);
    assert_warned(&verdict, &["VMImage team/nowhere"]);
}

#[test]
fn labels_that_do_nothing_are_warned_of() {
    let labels = json!({"app": "web", "polyvirt.io/identity": "x"});
    let labels = manifest(json!({"template": {"metadata": {"labels": labels}}}));
    let verdict = ask(Operation::Create, labels, Value::Null);
    assert_eq!(verdict.decision, Decision::Allowed);
    let field = "spec.template.metadata.labels[polyvirt.io/identity]";
    assert_warned(&verdict, &[field]);
}

#[test]
fn a_claim_that_no_provider_can_read_is_warned_of() {
    let claim = manifest(json!({"template": {"spec": {"image": {"source": "pvc://team/disk"}}}}));
    let ask = |object: &Value, world: &World| {
        let request = Request {
            kind: GroupKind {
                group: "novacron.io".to_owned(),
                kind: "VirtualMachine".to_owned(),
            },
            namespace: "team".to_owned(),
            operation: Operation::Create,
            object: object.clone(),
            ..Request::default()
        };
        review(&request, world)
    };
    let of = |kind: &str| json!({"spec": {"type": kind, "runtime": {"mode": "InProcess"}}});
    let alone = World::default().with("Provider", "kvm", of("qemu"));
    let verdict = ask(&claim, &alone);
    assert_eq!(verdict.decision, Decision::Allowed);
    assert_warned(&verdict, &["There is no Provider of type kubevirt"]);

    let both = alone.with("Provider", "cluster", of("kubevirt"));
    assert!(ask(&claim, &both).warnings.is_empty());
    let mut named = claim;
    named["metadata"]["annotations"] = json!({"novacron.io/provider": "kvm"});
    let verdict = ask(&named, &both);
    assert_warned(&verdict, &["Provider team/kvm is not of type kubevirt"]);
    named["metadata"]["annotations"] = json!({"novacron.io/provider": "cluster"});
    assert!(ask(&named, &both).warnings.is_empty());
}
