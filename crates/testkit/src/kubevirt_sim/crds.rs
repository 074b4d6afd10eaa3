//! The kinds, as far as they are used here. They take any field: which fields there are is KubeVirt's to say.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::Error;

/// Whether status is written apart from the rest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Apart,
    /// As KubeVirt has it for instances.
    Within,
}

const KINDS: &[(&str, &str, &str, &str, Status)] = &[
    (
        "kubevirt.io",
        "v1",
        "VirtualMachine",
        "Namespaced",
        Status::Apart,
    ),
    (
        "kubevirt.io",
        "v1",
        "VirtualMachineInstance",
        "Namespaced",
        Status::Within,
    ),
    (
        "kubevirt.io",
        "v1",
        "VirtualMachineInstanceMigration",
        "Namespaced",
        Status::Apart,
    ),
    ("kubevirt.io", "v1", "KubeVirt", "Namespaced", Status::Apart),
    (
        "migrations.kubevirt.io",
        "v1alpha1",
        "MigrationPolicy",
        "Cluster",
        Status::Apart,
    ),
    (
        "cdi.kubevirt.io",
        "v1beta1",
        "DataVolume",
        "Namespaced",
        Status::Apart,
    ),
    (
        "cdi.kubevirt.io",
        "v1beta1",
        "DataSource",
        "Namespaced",
        Status::Within,
    ),
    (
        "cdi.kubevirt.io",
        "v1beta1",
        "StorageProfile",
        "Cluster",
        Status::Apart,
    ),
    (
        "instancetype.kubevirt.io",
        "v1beta1",
        "VirtualMachineInstancetype",
        "Namespaced",
        Status::Within,
    ),
    (
        "instancetype.kubevirt.io",
        "v1beta1",
        "VirtualMachinePreference",
        "Namespaced",
        Status::Within,
    ),
    (
        "snapshot.kubevirt.io",
        "v1beta1",
        "VirtualMachineSnapshot",
        "Namespaced",
        Status::Apart,
    ),
    (
        "snapshot.kubevirt.io",
        "v1beta1",
        "VirtualMachineRestore",
        "Namespaced",
        Status::Apart,
    ),
    (
        "clone.kubevirt.io",
        "v1beta1",
        "VirtualMachineClone",
        "Namespaced",
        Status::Apart,
    ),
];

/// The resource definitions of the simulator.
pub fn definitions() -> Result<Vec<CustomResourceDefinition>, Error> {
    let kinds = KINDS.iter().map(|(group, version, kind, scope, status)| {
        let plural = plural(kind);
        definition(group, version, kind, &plural, scope, *status)
    });
    let networks = definition(
        "k8s.cni.cncf.io",
        "v1",
        "NetworkAttachmentDefinition",
        "network-attachment-definitions",
        "Namespaced",
        Status::Within,
    );
    kinds
        .chain([networks])
        .map(|value| serde_json::from_value(value).map_err(Error::from))
        .collect()
}

/// As Kubernetes forms it.
pub(super) fn plural(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    match word.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if word.ends_with("ss") => format!("{word}es"),
        None => format!("{word}s"),
    }
}

fn definition(
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
    scope: &str,
    status: Status,
) -> Value {
    let subresources = match status {
        Status::Apart => json!({"status": {}}),
        Status::Within => json!({}),
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_ascii_lowercase(),
                "shortNames": short(kind),
            },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": subresources,
                "additionalPrinterColumns": columns(kind),
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

fn short(kind: &str) -> &'static [&'static str] {
    match kind {
        "VirtualMachine" => &["vm", "vms"],
        "VirtualMachineInstance" => &["vmi", "vmis"],
        "VirtualMachineInstanceMigration" => &["vmim", "vmims"],
        "KubeVirt" => &["kv", "kvs"],
        "DataVolume" => &["dv", "dvs"],
        "VirtualMachineSnapshot" => &["vmsnapshot", "vmsnapshots"],
        "VirtualMachineRestore" => &["vmrestore", "vmrestores"],
        "VirtualMachineClone" => &["vmclone", "vmclones"],
        "NetworkAttachmentDefinition" => &["net-attach-def"],
        _ => &[],
    }
}

fn columns(kind: &str) -> Value {
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    match kind {
        "VirtualMachine" => json!([
            age,
            column("Status", ".status.printableStatus"),
            column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#),
        ]),
        "VirtualMachineInstance" => json!([
            age,
            column("Phase", ".status.phase"),
            column("IP", ".status.interfaces[0].ipAddress"),
            column("NodeName", ".status.nodeName"),
        ]),
        "DataVolume" => json!([
            column("Phase", ".status.phase"),
            column("Progress", ".status.progress"),
            age,
        ]),
        _ => json!([age]),
    }
}
