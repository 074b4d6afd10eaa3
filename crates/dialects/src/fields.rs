//! The fields of every kind of the dialects: those that act, and those that do not in this version. A test walks the schemas.

use polyvirt_plan::honoured::kinds::{Fields, set, unless};

const OFF: &[&str] = &["false"];
const NOT_HERE: &str = "KubeVirt has nothing like it";
const OTHERS: &str = "another operator of Viti Stack acts on it";

/// VirtualMachine of `novacron.io`.
pub const NOVACRON: Fields = Fields {
    kind: "VirtualMachine (novacron.io)",
    acts: &["spec"],
    never: &[],
    sometimes: &[
        (
            "spec.template.spec.networks[].type",
            "other than bridge, on a Provider that is not of type kubevirt",
        ),
        (
            "spec.template.spec.volumes[].accessMode",
            "shared, on a Provider that is not of type kubevirt",
        ),
        (
            "spec.template.spec.devices",
            "edited after the VM was created (placement is decided once)",
        ),
        (
            "spec.template.spec.image.source",
            "edited after the VM was created (read at creation)",
        ),
        (
            "spec.template.spec.userData",
            "edited after the VM was created (read at the first boot)",
        ),
        (
            "spec.template.spec.nodeSelector",
            "edited after the VM was created (placement is decided once), but for KubeVirt",
        ),
        (
            "spec.template.spec.affinity",
            "edited after the VM was created (placement is decided once), but for KubeVirt",
        ),
        ("spec.snapshotPolicy.retention", "without a schedule"),
        (
            "spec.template.metadata",
            "labels and annotations of Polyvirt's own domains",
        ),
        (
            "spec.template.spec.lifecycle",
            "timeouts longer than an hour are cut",
        ),
    ],
};

/// Machine of `vitistack.io`.
pub const MACHINE: Fields = Fields {
    kind: "Machine (vitistack.io)",
    acts: &["spec"],
    never: &[
        unless("spec.monitoring", OFF, NOT_HERE),
        set("spec.securityGroups", NOT_HERE),
        set("spec.providerConfig", NOT_HERE),
        unless("spec.network.assignPublicIP", OFF, NOT_HERE),
        set("spec.network.privateIP", NOT_HERE),
        set("spec.network.publicIP", NOT_HERE),
        set("spec.network.subnet", NOT_HERE),
        set("spec.network.vpc", NOT_HERE),
        set("spec.network.interfaces[].securityGroups", NOT_HERE),
        unless("spec.disks[].encrypted", OFF, NOT_HERE),
        set("spec.disks[].iops", NOT_HERE),
        set("spec.disks[].throughput", NOT_HERE),
        set("spec.disks[].device", NOT_HERE),
    ],
    sometimes: &[
        ("spec.backup", "unless enabled is false"),
        (
            "spec.os.imageID",
            "without the annotation kubevirt.io/boot-source",
        ),
        ("spec.network.interfaces", "beyond the first"),
        (
            "spec.sshKeys",
            "beside user data that is not a plain cloud-config",
        ),
    ],
};

/// KubevirtConfig of `vitistack.io`.
pub const KUBEVIRT_CONFIG: Fields = Fields {
    kind: "KubevirtConfig (vitistack.io)",
    acts: &["spec"],
    never: &[],
    sometimes: &[],
};

/// MachineClass of `vitistack.io`.
pub const MACHINE_CLASS: Fields = Fields {
    kind: "MachineClass (vitistack.io)",
    acts: &["spec"],
    never: &[],
    sometimes: &[(
        "spec.gpu",
        "if manufacturer is not the name of a device (vendor/device)",
    )],
};

/// NetworkConfiguration of `vitistack.io`: written by Polyvirt, read by the operators of the network.
pub const NETWORK_CONFIGURATION: Fields = Fields {
    kind: "NetworkConfiguration (vitistack.io)",
    acts: &["spec"],
    never: &[],
    sometimes: &[("spec.networkInterfaces", OTHERS)],
};

/// NetworkNamespace of `vitistack.io`: read by the operators of the network.
pub const NETWORK_NAMESPACE: Fields = Fields {
    kind: "NetworkNamespace (vitistack.io)",
    acts: &["spec"],
    never: &[],
    sometimes: &[("spec.ipAllocation", OTHERS)],
};

/// All of them.
pub const KINDS: &[Fields] = &[
    NOVACRON,
    MACHINE,
    KUBEVIRT_CONFIG,
    MACHINE_CLASS,
    NETWORK_CONFIGURATION,
    NETWORK_NAMESPACE,
];

#[cfg(test)]
mod tests {
    use polyvirt_api::crds;
    use serde_json::{Value, json};

    use super::*;

    fn leaves(path: String, schema: &Value, found: &mut Vec<(String, Value)>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                leaves(format!("{path}.{name}"), property, found);
            }
        } else if schema.pointer("/items/properties").is_some() {
            leaves(format!("{path}[]"), &schema["items"], found);
        } else {
            found.push((path, schema.clone()));
        }
    }

    fn covers(path: &str, leaf: &str) -> bool {
        let rest = leaf.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }

    #[test]
    fn every_field_of_every_kind_acts_or_is_listed() {
        let mut seen = 0;
        for crd in crds() {
            let name = format!("{} ({})", crd.spec.names.kind, crd.spec.group);
            if crd.spec.group == "infra.virtrigaud.io" {
                continue;
            }
            let fields = KINDS.iter().find(|f| f.kind == name);
            let fields = fields.unwrap_or_else(|| panic!("{name} has no list"));
            let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
            let mut found = Vec::new();
            let crd = json!(crd);
            leaves(
                "spec".to_owned(),
                crd.pointer(spec).expect("a spec"),
                &mut found,
            );
            let never = fields.never.iter().map(|n| n.path);
            let listed: Vec<_> = fields.acts.iter().copied().chain(never).collect();
            for (leaf, _) in &found {
                assert!(listed.iter().any(|p| covers(p, leaf)), "{leaf} of {name}");
            }
            for path in listed
                .into_iter()
                .chain(fields.sometimes.iter().map(|s| s.0))
            {
                assert!(
                    found.iter().any(|(leaf, _)| covers(path, leaf)),
                    "{path} of {name}"
                );
            }
            seen += 1;
        }
        assert_eq!(seen, KINDS.len());
    }
}
