//! Whether VMs of a provider can be connected to a network: what the network names must be there. Pure.

use polyvirt_api::infra::{NetworkConfig, NetworkProviderStatus, ProviderType};
use polyvirt_contract::Features;
use polyvirt_contract::model::Inventory;

/// What is known of a provider.
pub(super) enum Told<'a> {
    /// It does not answer.
    Silent,
    /// It answers.
    Answers {
        /// What it offers.
        features: &'a Features,
        /// What it has, as it was when it was connected; `None` if it does not tell.
        inventory: Option<&'a Inventory>,
    },
}

/// Something that a network names on the hypervisor.
struct Named<'a> {
    field: &'static str,
    /// What it is, in the words of inventories.
    kinds: &'static [&'static str],
    name: &'a str,
}

/// The entry of a provider in the status of a network.
pub(super) fn entry(
    config: &NetworkConfig,
    kind: ProviderType,
    told: &Told<'_>,
) -> NetworkProviderStatus {
    match refusal(config, kind, told) {
        Ok(message) => NetworkProviderStatus {
            available: true,
            message,
            ..NetworkProviderStatus::default()
        },
        Err(message) => NetworkProviderStatus {
            available: false,
            message: Some(message),
            ..NetworkProviderStatus::default()
        },
    }
}

/// Why VMs cannot be connected; else what could not be verified, if anything.
fn refusal(
    config: &NetworkConfig,
    kind: ProviderType,
    told: &Told<'_>,
) -> Result<Option<String>, String> {
    if let Some(field) = lacks_section(config, kind) {
        return Err(format!("{field} is not set"));
    }
    let Told::Answers {
        features,
        inventory,
    } = told
    else {
        return Err("The provider does not answer".to_owned());
    };
    let named = named(config);
    let acts = |n: &&Named<'_>| features.honours(n.field.trim_start_matches("spec."));
    let used: Vec<_> = named.iter().filter(acts).collect();
    match (named.first(), used.first()) {
        (None, _) => Ok(None),
        (Some(first), None) => Err(format!("{} has no effect on this provider", first.field)),
        (_, Some(first)) => is_there(first, kind, *inventory),
    }
}

fn lacks_section(config: &NetworkConfig, kind: ProviderType) -> Option<&'static str> {
    let (field, set) = match kind {
        ProviderType::Vsphere => ("spec.network.vsphere", config.vsphere.is_some()),
        ProviderType::Libvirt => ("spec.network.libvirt", config.libvirt.is_some()),
        ProviderType::Proxmox => ("spec.network.proxmox", config.proxmox.is_some()),
        _ => return None,
    };
    (!set).then_some(field)
}

/// What the network names, the most decisive first.
fn named(config: &NetworkConfig) -> Vec<Named<'_>> {
    let libvirt = config.libvirt.as_deref();
    let bridge = libvirt.and_then(|l| l.bridge.as_ref());
    let found = [
        bridge.map(|b| Named {
            field: "spec.network.libvirt.bridge.name",
            kinds: &["bridge"],
            name: &b.name,
        }),
        libvirt
            .and_then(|l| l.network_name.as_deref())
            .map(|name| Named {
                field: "spec.network.libvirt.networkName",
                kinds: &["network", "multus"],
                name,
            }),
    ];
    found.into_iter().flatten().collect()
}

/// Kinds of networks that the inventory of a provider lists completely. What is not among them cannot be verified.
const fn listed(kind: ProviderType) -> &'static [&'static str] {
    match kind {
        ProviderType::Qemu => &["bridge"],
        ProviderType::Libvirt => &["network"],
        ProviderType::Kubevirt => &["multus"],
        _ => &[],
    }
}

fn is_there(
    wanted: &Named<'_>,
    kind: ProviderType,
    inventory: Option<&Inventory>,
) -> Result<Option<String>, String> {
    let complete = wanted.kinds.iter().any(|k| listed(kind).contains(k));
    let Some(inventory) = inventory.filter(|_| complete) else {
        let text = format!(
            "{} is not verified: the provider does not list what it names",
            wanted.field
        );
        return Ok(Some(text));
    };
    // In KubeVirt, with its namespace before it.
    let same = |name: &str| name.rsplit('/').next() == wanted.name.rsplit('/').next();
    let mut networks = inventory.networks.iter();
    if networks.any(|n| wanted.kinds.contains(&n.kind.as_str()) && same(&n.name)) {
        return Ok(None);
    }
    Err(format!(
        "{}: {} was not on the provider when it connected. Create it there, or correct the name",
        wanted.field, wanted.name
    ))
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::model::NetworkEntry;
    use serde_json::{Value, json};

    use super::*;

    fn config(libvirt: &Value) -> NetworkConfig {
        serde_json::from_value(json!({"type": "bridged", "mtu": 1500, "libvirt": libvirt}))
            .expect("a network")
    }

    fn seen(
        config: &NetworkConfig,
        kind: ProviderType,
        networks: &[(&str, &str)],
    ) -> (bool, String) {
        let entry_of = |(kind, name): &(&str, &str)| NetworkEntry {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
        };
        let inventory = Inventory {
            networks: networks.iter().map(entry_of).collect(),
            ..Inventory::default()
        };
        let fields = ["network.libvirt.networkName", "network.libvirt.bridge.name"];
        let mut features = Features {
            honoured_fields: Some(fields.map(str::to_owned).into_iter().collect()),
            ..Features::default()
        };
        if kind == ProviderType::Kubevirt {
            let only = ["network.libvirt.networkName".to_owned()];
            features.honoured_fields = Some(only.into_iter().collect());
        }
        let told = Told::Answers {
            features: &features,
            inventory: Some(&inventory),
        };
        let entry = entry(config, kind, &told);
        (entry.available, entry.message.unwrap_or_default())
    }

    #[test]
    fn a_network_is_available_where_what_it_names_is_there() {
        let bridge = config(&json!({"bridge": {"name": "br0"}}));
        let named = config(&json!({"networkName": "lan"}));
        for (network, kind, has, available, says) in [
            (
                &bridge,
                ProviderType::Qemu,
                vec![("bridge", "br0")],
                true,
                "",
            ),
            (
                &bridge,
                ProviderType::Qemu,
                vec![("user", "user")],
                false,
                "br0 was not on",
            ),
            (
                &bridge,
                ProviderType::Libvirt,
                vec![("network", "lan")],
                true,
                "not verified",
            ),
            (
                &bridge,
                ProviderType::Kubevirt,
                vec![],
                false,
                "has no effect",
            ),
            (
                &named,
                ProviderType::Libvirt,
                vec![("network", "lan")],
                true,
                "",
            ),
            (
                &named,
                ProviderType::Libvirt,
                vec![("network", "wan")],
                false,
                "lan was not on",
            ),
            (
                &named,
                ProviderType::Kubevirt,
                vec![("multus", "team/lan")],
                true,
                "",
            ),
            (
                &named,
                ProviderType::Kubevirt,
                vec![("pod", "pod")],
                false,
                "lan was not on",
            ),
            (&named, ProviderType::Mock, vec![], true, "not verified"),
        ] {
            let (there, text) = seen(network, kind, &has);
            assert_eq!(there, available, "{kind:?} {has:?}: {text}");
            assert!(
                text.contains(says) && says.is_empty() == text.is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_provider_that_does_not_answer_has_no_network() {
        let named = config(&json!({"networkName": "lan"}));
        let entry = entry(&named, ProviderType::Qemu, &Told::Silent);
        assert!(!entry.available && entry.message.is_some());
    }
}
