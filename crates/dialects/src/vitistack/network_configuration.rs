//! The NetworkConfiguration of a Machine: its interfaces and their hardware addresses, for those who hand out addresses.

use std::collections::BTreeMap;

use polyvirt_api::vitistack::{
    ConfiguredInterface, Machine, NetworkConfiguration, NetworkConfigurationSpec,
    SOURCE_MACHINE_LABEL,
};

use super::lower::{LoweredNic, labels};
use super::settings::Settings;
use crate::shared::names::shortened;
use crate::shared::owner::{is_owned, owner_reference};

/// The longest name that they take.
const LONGEST: usize = 32;

/// The object to write, of the Machine's name and owned by it.
pub fn desired(
    machine: &Machine,
    nics: &[LoweredNic],
    settings: &Settings,
) -> NetworkConfiguration {
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    let space = machine.spec.network.as_ref();
    let spec = NetworkConfigurationSpec {
        name: short_name(name),
        network_namespace_name: space.and_then(|n| n.network_namespace_name.clone()),
        network_interfaces: nics.iter().map(interface).collect(),
        ..NetworkConfigurationSpec::default()
    };
    let mut object = NetworkConfiguration::new(name, spec);
    object
        .metadata
        .namespace
        .clone_from(&machine.metadata.namespace);
    object.metadata.labels = Some(labels(machine, settings));
    object.metadata.owner_references = Some(vec![owner_reference(machine)]);
    object
}

fn interface(nic: &LoweredNic) -> ConfiguredInterface {
    ConfiguredInterface {
        name: Some(nic.name.clone()),
        mac_address: Some(nic.mac.clone()),
        vlan: nic.vlan.filter(|vlan| *vlan > 0).map(|v| v.to_string()),
        ..ConfiguredInterface::default()
    }
}

/// Whether it is that of the Machine: one that we made, or that the operator before us made and marked with its name alone.
pub fn is_of(object: &NetworkConfiguration, machine: &Machine) -> bool {
    let labels = object.metadata.labels.as_ref();
    let source = labels.and_then(|labels| labels.get(SOURCE_MACHINE_LABEL));
    let free = object
        .metadata
        .owner_references
        .iter()
        .flatten()
        .next()
        .is_none();
    is_owned(object, machine)
        || (free && source.is_some() && source == machine.metadata.name.as_ref())
}

/// Whether what is there says the same of the interfaces. What others have added is theirs.
pub fn says_the_same(there: &NetworkConfiguration, wanted: &NetworkConfiguration) -> bool {
    let facts = |object: &NetworkConfiguration| {
        let each = object.spec.network_interfaces.iter();
        let each = each.map(|i| (i.name.clone(), i.mac_address.clone(), i.vlan.clone()));
        each.collect::<Vec<_>>()
    };
    let space = |object: &NetworkConfiguration| object.spec.network_namespace_name.clone();
    facts(there) == facts(wanted)
        && space(there) == space(wanted)
        && there.spec.name == wanted.spec.name
}

/// Hardware addresses by interface.
pub fn known_macs(object: &NetworkConfiguration) -> BTreeMap<String, String> {
    let each = object.spec.network_interfaces.iter();
    each.filter_map(|i| Some((i.name.clone()?, i.mac_address.clone()?)))
        .collect()
}

/// A name that they take: the usual words of cluster nodes are shortened before anything is cut off.
pub fn short_name(machine: &str) -> String {
    let name = match machine.len() {
        0..=1 => format!("m-{machine}"),
        2..=LONGEST => machine.to_owned(),
        _ => abbreviated(machine).unwrap_or_else(|| machine.to_owned()),
    };
    shortened(&name, LONGEST)
}

/// `c-worker-x-pool-3` is `c-wrk3`, and `c-control-plane-1` is `c-ctp1`.
fn abbreviated(machine: &str) -> Option<String> {
    let (head, number) = machine.rsplit_once('-')?;
    number.parse::<u32>().ok()?;
    if let Some(cluster) = head.strip_suffix("-control-plane") {
        return Some(format!("{cluster}-ctp{number}"));
    }
    let (cluster, pool) = head.split_once("-worker-")?;
    let is_pool = pool == "pool" || pool.ends_with("-pool");
    is_pool.then(|| format!("{cluster}-wrk{number}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_operator_before_us_made_is_known_by_its_label() {
        let read = |meta| {
            let object = json!({"metadata": meta, "spec": {"name": "web"}});
            serde_json::from_value::<NetworkConfiguration>(object).unwrap()
        };
        let machine = json!({"metadata": {"name": "web", "uid": "u"}, "spec": {}});
        let machine: Machine = serde_json::from_value(machine).unwrap();
        let labels = json!({SOURCE_MACHINE_LABEL: "web"});
        let owner = |uid: &str| json!([{"apiVersion": "v", "kind": "Machine", "name": "x", "uid": uid, "controller": true}]);
        for (meta, expected) in [
            (json!({"name": "web", "labels": labels}), true),
            (json!({"name": "web", "ownerReferences": owner("u")}), true),
            (json!({"name": "web"}), false),
            (
                json!({"name": "web", "labels": {SOURCE_MACHINE_LABEL: "db"}}),
                false,
            ),
            (
                json!({"name": "web", "labels": labels, "ownerReferences": owner("other")}),
                false,
            ),
        ] {
            assert_eq!(is_of(&read(meta.clone()), &machine), expected, "{meta}");
        }
    }

    #[test]
    fn names_fit() {
        let long = "x".repeat(40);
        for (machine, expected) in [
            ("a", "m-a"),
            ("web", "web"),
            ("prod-worker-default-pool-3", "prod-worker-default-pool-3"),
            (
                "production-north-worker-default-pool-3",
                "production-north-wrk3",
            ),
            (
                "production-northeast-control-plane-1",
                "production-northeast-ctp1",
            ),
            (long.as_str(), &shortened(&long, 32)),
        ] {
            let name = short_name(machine);
            assert_eq!(name, expected);
            assert!((2..=LONGEST).contains(&name.len()));
        }
    }
}
