//! Providers.

use polyvirt_admission::Decision;
use serde_json::{Value, json};

use crate::world::{World, assert_warned, fields};

#[test]
fn what_this_manager_cannot_run_is_refused() {
    let table = [
        (
            json!({"type": "mock", "runtime": {"mode": "InProcess"}}),
            vec![],
        ),
        (
            json!({"type": "vsphere", "endpoint": "https://v", "runtime": {"mode": "InProcess"}}),
            vec!["spec.runtime.mode"],
        ),
        (json!({"type": "vsphere", "endpoint": "https://v"}), vec![]),
        (
            json!({"type": "qemu", "endpoint": "grpc://h:9443", "runtime": {"mode": "External"}}),
            vec![],
        ),
        (
            json!({"type": "qemu", "endpoint": "h:9443", "runtime": {"mode": "External"}}),
            vec![],
        ),
        (
            json!({"type": "qemu", "endpoint": "https://h:9443", "runtime": {"mode": "External"}}),
            vec!["spec.endpoint"],
        ),
    ];
    for (spec, expected) in table {
        let verdict = World::default().create("Provider", spec.clone());
        assert_eq!(fields(&verdict), expected, "{spec}");
    }
}

#[test]
fn what_is_insecure_is_told() {
    let external = |tls: Value| json!({"type": "qemu", "endpoint": "grpc://h:9443", "runtime": {"mode": "External", "service": {"tls": tls}}});
    let table = [
        (
            json!({"type": "vsphere", "endpoint": "https://v", "insecureSkipVerify": true}),
            vec!["spec.insecureSkipVerify"],
        ),
        (
            json!({"type": "vsphere", "endpoint": "http://v"}),
            vec!["plain text"],
        ),
        (external(json!({"enabled": false})), vec!["tls.enabled"]),
        (
            external(json!({"insecureSkipVerify": true})),
            vec!["can pose as this provider"],
        ),
        (external(json!({"secretRef": {"name": "s"}})), vec![]),
        (
            json!({"type": "mock", "runtime": {"mode": "InProcess", "service": {"tls": {"enabled": false}}}}),
            vec!["tls.enabled (not read in mode InProcess)"],
        ),
        (
            json!({"type": "mock", "runtime": {"mode": "InProcess"}, "healthCheck": {"interval": "1s", "timeout": "10s"}}),
            vec!["noticed late"],
        ),
    ];
    each_is_warned_of(table.to_vec());
}

#[test]
fn pods_that_add_nothing_are_told() {
    let pods = |mode: &str, number: u8| json!({"type": "vsphere", "endpoint": "https://v", "runtime": {"mode": mode, "image": "i", "replicas": number}});
    each_is_warned_of(vec![
        (pods("Remote", 2), vec!["spec.runtime.replicas"]),
        (pods("Remote", 1), vec![]),
    ]);
}

fn each_is_warned_of(table: Vec<(Value, Vec<&str>)>) {
    for (spec, expected) in table {
        let verdict = World::default().create("Provider", spec);
        assert_eq!(verdict.decision, Decision::Allowed);
        assert_warned(&verdict, &expected);
    }
}

#[test]
fn the_type_is_fixed_while_there_are_vms() {
    let (old, new) = (json!({"type": "libvirt"}), json!({"type": "qemu"}));
    let used = World::default().used("it", 3);
    let verdict = used.update("Provider", old.clone(), new.clone());
    assert_eq!(fields(&verdict), ["spec.type"]);
    assert_eq!(
        fields(&World::default().update("Provider", old, new)),
        Vec::<&str>::new()
    );
}

#[test]
fn another_address_is_told_while_there_are_vms() {
    let (old, new) = (
        json!({"type": "libvirt"}),
        json!({"type": "libvirt", "endpoint": "qemu+ssh://h/system"}),
    );
    let verdict = World::default().used("it", 3).update("Provider", old, new);
    assert_warned(&verdict, &["3 VirtualMachines are looked for"]);
}

#[test]
fn credentials_that_are_not_there_are_told_but_not_those_of_others() {
    let spec = |reference: Value| json!({"type": "libvirt", "endpoint": "qemu+ssh://h/system", "credentialSecretRef": reference});
    let here = spec(json!({"name": "s"}));
    let verdict = World::default().create("Provider", here.clone());
    assert_eq!(verdict.decision, Decision::Allowed);
    assert_warned(
        &verdict,
        &["spec.credentialSecretRef: Secret team/s does not exist yet"],
    );
    let there = World::default().with("Secret", "s", json!({}));
    assert_warned(&there.create("Provider", here), &[]);
    let elsewhere = spec(json!({"name": "s", "namespace": "others"}));
    assert_warned(&World::default().create("Provider", elsewhere), &[]);
}
