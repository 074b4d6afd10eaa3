//! The table against the schemas, and the two functions against the table.

mod kinds;
mod once;

use serde_json::json;

use super::once::covers;
use super::schema::{leaves, roots, sample};
use super::*;

fn says(provider_type: &str, honoured: &[&str]) -> Features {
    Features {
        provider_type: provider_type.to_owned(),
        honoured_fields: Some(honoured.iter().map(ToString::to_string).collect()),
        ..Features::default()
    }
}

fn paths(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// What is in use when the three objects are these.
fn in_use(spec: Value, class: Value, network: Value) -> Vec<String> {
    let vm: VirtualMachineSpec = serde_json::from_value(spec).unwrap();
    let class: VMClassSpec = serde_json::from_value(class).unwrap();
    let network: VMNetworkAttachmentSpec = serde_json::from_value(network).unwrap();
    fields_in_use(&vm, Some(&class), &[(0, &network)])
}

fn bare(root: &str) -> Value {
    match root {
        "spec" => json!({"providerRef": {"name": "p"}}),
        "class" => json!({"cpu": 1, "memory": "1Gi"}),
        _ => json!({"network": {}}),
    }
}

#[test]
fn every_property_is_in_exactly_one_list() {
    let leaves = leaves();
    assert!(
        leaves.len() > FIELDS.len() + ENGINE_FIELDS.len(),
        "The schemas were not read"
    );
    for (leaf, _) in leaves {
        let listed = FIELDS
            .iter()
            .map(|f| f.path)
            .chain(ENGINE_FIELDS.iter().copied());
        let count = listed.filter(|path| covers(path, &leaf)).count();
        assert_eq!(
            count, 1,
            "{leaf} must be in FIELDS or in ENGINE_FIELDS, once"
        );
    }
}

#[test]
fn every_listed_path_is_in_the_schema() {
    let leaves = leaves();
    for path in FIELDS
        .iter()
        .map(|f| f.path)
        .chain(ENGINE_FIELDS.iter().copied())
    {
        assert!(
            leaves.iter().any(|(leaf, _)| covers(path, leaf)),
            "{path} is in no schema"
        );
    }
    for path in BASIC_PROVIDER {
        let features = says("", &[path]);
        assert!(
            FIELDS.iter().any(|f| features.honours(f.path)),
            "{path} is no field"
        );
    }
}

#[test]
fn every_default_of_the_schema_is_known_not_to_count() {
    for (leaf, schema) in leaves() {
        let field = FIELDS.iter().find(|f| f.path == leaf);
        let (Some(field), Some(default)) = (field, schema.get("default")) else {
            continue;
        };
        assert!(
            !field.counts.says(default),
            "{leaf} counts at its default {default}"
        );
    }
}

#[test]
fn every_field_is_found_when_it_is_set() {
    for (root, schema) in roots() {
        for field in FIELDS
            .iter()
            .filter(|f| f.path.starts_with(&format!("{root}.")))
        {
            let segments: Vec<_> = field.path.split('.').skip(1).collect();
            let not = if let Counts::Unless(words) = field.counts {
                words
            } else {
                &[]
            };
            let tree = sample(&schema, &segments, not);
            let found = match root {
                "spec" => in_use(tree, bare("class"), bare("network")),
                "class" => in_use(bare("spec"), tree, bare("network")),
                _ => in_use(bare("spec"), bare("class"), folded(&tree)),
            };
            assert!(
                found.iter().any(|f| f == field.path),
                "{} is not in {found:?}",
                field.path
            );
        }
    }
}

/// The reverse of what the paths do to a network.
fn folded(tree: &Value) -> Value {
    let (inner, outer): (serde_json::Map<_, _>, serde_json::Map<_, _>) = tree
        .as_object()
        .cloned()
        .unwrap()
        .into_iter()
        .partition(|(name, _)| {
            ["type", "mtu", "vsphere", "libvirt", "proxmox"].contains(&name.as_str())
        });
    let mut spec = Value::Object(outer);
    spec["network"] = Value::Object(inner);
    spec
}

#[test]
fn defaults_and_empty_groups_are_not_in_use() {
    let spec = json!({
        "providerRef": {"name": "p"}, "powerState": "Off", "tags": [], "placement": {}, "userData": {},
        "disks": [{"name": "a", "sizeGiB": 1}], "networks": [{"name": "lan"}], "resources": {"cpu": 2},
        "lifecycle": {"gracefulShutdownTimeout": "5m"}, "snapshot": {}, "deletionPolicy": "Retain",
    });
    let class = json!({
        "cpu": 1, "memory": "1Gi", "guestToolsPolicy": "install", "diskDefaults": {}, "resourceLimits": {},
        "performanceProfile": {}, "securityProfile": {"encryptionPolicy": {}}, "extraConfig": {},
    });
    let network = json!({
        "network": {"vsphere": {"security": {}, "trafficShaping": {"averageBandwidth": 9}, "vlan": {}}, "libvirt": {}, "proxmox": {}},
        "ipAllocation": {"dnsConfig": {}}, "qos": {}, "metadata": {"displayName": "x"},
        "security": {"firewall": {"rules": []}, "isolation": {"mode": "none"}, "encryption": {}},
    });
    assert_eq!(in_use(spec, class, network), Vec::<String>::new());
}

#[test]
fn the_class_in_place_is_seen_too() {
    let vm: VirtualMachineSpec = serde_json::from_value(json!({
        "providerRef": {"name": "p"}, "class": {"cpu": 1, "memory": "1Gi", "securityProfile": {"tpmEnabled": true}},
    }))
    .unwrap();
    assert_eq!(
        fields_in_use(&vm, None, &[]),
        ["class.securityProfile.tpmEnabled"]
    );
}

#[test]
fn what_a_card_says_itself_hides_what_the_network_says() {
    let network = json!({
        "network": {},
        "ipAllocation": {"type": "Pool", "poolConfig": {"poolRef": {"name": "x"}}, "dnsConfig": {"servers": ["192.0.2.53"]}},
    });
    let spec = |card: Value| json!({"providerRef": {"name": "p"}, "networks": [card]});
    let found = in_use(spec(json!({"name": "lan"})), bare("class"), network.clone());
    assert_eq!(
        found,
        [
            "network.ipAllocation.type",
            "network.ipAllocation.poolConfig",
            "network.ipAllocation.dnsConfig.servers",
            IDLE_NAME_SERVERS,
        ]
    );
    let own = json!({"name": "lan", "ipAddress": "192.0.2.9", "prefix": 24, "dns": "192.0.2.1"});
    let found = in_use(spec(own), bare("class"), network);
    assert_eq!(found, ["spec.networks[].ipAddress", "spec.networks[].dns"]);
}

#[test]
fn name_servers_of_a_card_without_a_fixed_address_are_told_as_ignored() {
    let vm = |card: Value| {
        serde_json::from_value(json!({"providerRef": {"name": "p"}, "networks": [card]}))
            .expect("a spec")
    };
    let told = says("x", &["spec.networks[].*"]);
    let leased = vm(json!({"name": "lan", "dns": "192.0.2.1"}));
    let found = fields_in_use(&leased, None, &[]);
    assert_eq!(ignored(&found, &told), [IDLE_NAME_SERVERS]);
    let fixed =
        vm(json!({"name": "lan", "ipAddress": "192.0.2.9", "prefix": 24, "dns": "192.0.2.1"}));
    let found = fields_in_use(&fixed, None, &[]);
    assert_eq!(ignored(&found, &told), Vec::<String>::new());
}

#[test]
fn what_a_provider_does_not_honour_is_ignored() {
    let fields = paths(&[
        "spec.tags",
        "spec.placement.host",
        "class.securityProfile.tpmEnabled",
    ]);
    assert_eq!(
        ignored(&fields, &says("x", &["spec.tags", "class.*"])),
        ["spec.placement.host"]
    );
    assert_eq!(ignored(&fields, &Features::default()), Vec::<String>::new());
    assert_eq!(
        ignored(&fields, &says("", BASIC_PROVIDER)),
        Vec::<String>::new()
    );
    let beyond = paths(&[
        "spec.userData.ignition",
        "spec.disks[].storageClass",
        "network.mtu",
    ]);
    assert_eq!(ignored(&beyond, &says("", BASIC_PROVIDER)), beyond);
}

#[test]
fn sections_for_other_providers_are_no_fault_beside_ones_own() {
    let fields = paths(&[
        "network.vsphere.portgroup",
        "network.libvirt.networkName",
        "network.libvirt.driver",
    ]);
    let qemu = says("qemu", &["network.libvirt.networkName"]);
    assert_eq!(ignored(&fields, &qemu), ["network.libvirt.driver"]);
    assert_eq!(ignored(&fields[..1], &qemu), ["network.vsphere.portgroup"]);
    assert_eq!(ignored(&fields, &says("aws", &[])), fields);
}

#[test]
fn secrets_of_an_image_in_place_go_nowhere_and_are_told() {
    let spec = |source: serde_json::Value| -> VirtualMachineSpec {
        let spec = serde_json::json!({"providerRef": {"name": "p"}, "image": source});
        serde_json::from_value(spec).unwrap()
    };
    let registry = spec(serde_json::json!({
        "registry": {"image": "r.example/x:1", "pullSecretRef": {"name": "s"}},
    }));
    let found = fields_in_use(&registry, None, &[]);
    assert_eq!(found, ["spec.image.registry.pullSecretRef"]);
    let http = spec(serde_json::json!({"http": {"url": "https://x.example/y"}}));
    assert!(fields_in_use(&http, None, &[]).is_empty());
}
