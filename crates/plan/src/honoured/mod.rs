//! Which fields a user has set that only a provider can bring to life, and which of those it leaves undone.
//!
//! A field is named by its path from one of three roots, with `[]` for any entry of a list:
//!
//! | root | object |
//! |---|---|
//! | `spec` | the VirtualMachine's spec |
//! | `class` | the spec of its VMClass, or `spec.class` |
//! | `network` | the spec of a VMNetworkAttachment, with `spec.network` unfolded: `network.libvirt.model`, `network.qos.dscp` |
//!
//! Every property of the three schemas is in [`FIELDS`] or in [`ENGINE_FIELDS`]; a test holds that, so a new field cannot be
//! forgotten.

mod basic;
mod fields;
pub mod finding;
pub mod kinds;
pub mod once;
pub mod provider;

use polyvirt_api::infra::{VMClassSpec, VMNetwork, VMNetworkAttachmentSpec, VirtualMachineSpec};
use polyvirt_contract::Features;
use serde::Serialize;
use serde_json::Value;

pub use basic::BASIC_PROVIDER;
pub use fields::{Counts, ENGINE_FIELDS, FIELDS, Field};

/// The paths of fields that are set, that differ from their default, and that need a provider's help; in the order of
/// [`FIELDS`].
///
/// `networks` are the attachments of the VM's network cards, each with the index of its card in `spec.networks`.
pub fn fields_in_use(
    vm: &VirtualMachineSpec,
    class: Option<&VMClassSpec>,
    networks: &[(usize, &VMNetworkAttachmentSpec)],
) -> Vec<String> {
    let roots = Roots::of(vm, class, networks);
    let named = FIELDS
        .iter()
        .filter(|field| roots.use_field(field))
        .map(|field| field.path.to_owned());
    let named = named.chain(idle_name_servers(vm, networks));
    named.chain(idle_secrets(vm)).collect()
}

/// Secrets and headers of an image that stands in the VM itself: they go with VMImages only.
fn idle_secrets(vm: &VirtualMachineSpec) -> Vec<String> {
    let image = vm.image.as_deref();
    let http = image.and_then(|image| image.http.as_ref());
    let registry = image.and_then(|image| image.registry.as_ref());
    let found = [
        (
            "spec.image.http.authentication",
            http.is_some_and(|http| http.authentication.is_some()),
        ),
        (
            "spec.image.http.headers",
            http.is_some_and(|http| !http.headers.is_empty()),
        ),
        (
            "spec.image.registry.pullSecretRef",
            registry.is_some_and(|registry| registry.pull_secret_ref.is_some()),
        ),
    ];
    let set = found.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(path, _)| path.to_owned()).collect()
}

/// What name servers are called that go nowhere: the contract carries them with a fixed address only.
const IDLE_NAME_SERVERS: &str = "name servers of a card without a fixed address";

fn idle_name_servers(
    vm: &VirtualMachineSpec,
    networks: &[(usize, &VMNetworkAttachmentSpec)],
) -> Option<String> {
    let shared = |index| {
        let found = networks.iter().find(|(i, _)| *i == index);
        found.and_then(|(_, network)| network.ip_allocation.as_ref())
    };
    let idle = |(index, card): (usize, &VMNetwork)| {
        let shared = shared(index);
        let fixed = card.ip_address.is_some() || shared.is_some_and(|s| s.static_config.is_some());
        let pool = shared.and_then(|s| s.dns_config.as_ref());
        let wanted = card.dns.is_some() || pool.is_some_and(|dns| !dns.servers.is_empty());
        wanted && !fixed
    };
    let any = vm.networks.iter().enumerate().any(idle);
    any.then(|| IDLE_NAME_SERVERS.to_owned())
}

/// Those of the fields in use that do nothing on this provider, as far as it has told.
///
/// A network may have a section for each kind of provider. Those for other kinds are no fault as long as there is one for
/// this kind.
pub fn ignored(fields: &[String], features: &Features) -> Vec<String> {
    let kind = features.provider_type.as_str();
    let has_own_section = fields
        .iter()
        .any(|path| section_kinds(path).is_some_and(|k| k.contains(&kind)));
    let is_for_others = |path: &str| {
        has_own_section && section_kinds(path).is_some_and(|kinds| !kinds.contains(&kind))
    };
    fields
        .iter()
        .filter(|path| !features.honours(path) && !is_for_others(path))
        .cloned()
        .collect()
}

/// The sections of a network, and the types of provider that read them.
const SECTIONS: [(&str, &[&str]); 3] = [
    ("network.vsphere.", &["vsphere"]),
    ("network.libvirt.", &["libvirt", "qemu"]),
    ("network.proxmox.", &["proxmox"]),
];

fn section_kinds(path: &str) -> Option<&'static [&'static str]> {
    SECTIONS
        .iter()
        .find(|(section, _)| path.starts_with(section))
        .map(|(_, kinds)| *kinds)
}

struct Roots {
    spec: Value,
    class: Value,
    networks: Vec<Value>,
}

impl Roots {
    fn of(
        vm: &VirtualMachineSpec,
        class: Option<&VMClassSpec>,
        networks: &[(usize, &VMNetworkAttachmentSpec)],
    ) -> Self {
        let networks = networks.iter();
        Self {
            spec: json(vm),
            class: class.or(vm.class.as_deref()).map(json).unwrap_or_default(),
            networks: networks
                .map(|(i, n)| attachment(n, vm.networks.get(*i)))
                .collect(),
        }
    }

    fn use_field(&self, field: &Field) -> bool {
        let Some((root, path)) = field.path.split_once('.') else {
            return false;
        };
        match root {
            "spec" => field.counts_in(&self.spec, path),
            "class" => field.counts_in(&self.class, path),
            _ => self
                .networks
                .iter()
                .any(|network| field.counts_in(network, path)),
        }
    }
}

impl Field {
    fn counts_in(&self, root: &Value, path: &str) -> bool {
        values(root, path)
            .into_iter()
            .any(|value| self.counts.says(value))
    }
}

impl Counts {
    fn says(&self, value: &Value) -> bool {
        match self {
            Self::WhenSet => !is_empty(value),
            Self::Unless(words) => !is_empty(value) && !words.contains(&word(value).as_str()),
            Self::WhenEnabled => value.get("enabled") == Some(&Value::Bool(true)),
        }
    }
}

/// All values at a path; a list stands for each of its entries, and the empty path for the root.
fn values<'v>(root: &'v Value, path: &str) -> Vec<&'v Value> {
    let segments = path.split('.').filter(|segment| !segment.is_empty());
    segments.fold(vec![root], |found, segment| {
        let name = segment.trim_end_matches("[]");
        let members = found.into_iter().filter_map(|value| value.get(name));
        if name == segment {
            return members.collect();
        }
        members.filter_map(Value::as_array).flatten().collect()
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn word(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The attachment as one card sees it: what the card says itself wins over what the network says.
fn attachment(spec: &VMNetworkAttachmentSpec, card: Option<&VMNetwork>) -> Value {
    let mut seen = spec.clone();
    if let Some(ip) = &mut seen.ip_allocation {
        if card.is_some_and(|card| card.ip_address.is_some()) {
            ip.type_ = polyvirt_api::infra::IpAllocationType::default();
            (ip.static_config, ip.pool_config, ip.dhcp_config) = (None, None, None);
        }
        if let (Some(dns), true) = (
            &mut ip.dns_config,
            card.is_some_and(|card| card.dns.is_some()),
        ) {
            dns.servers.clear();
        }
    }
    unfolded(json(&seen))
}

fn unfolded(mut spec: Value) -> Value {
    let inner = spec
        .as_object_mut()
        .and_then(|members| members.remove("network"));
    if let (Some(members), Some(Value::Object(inner))) = (spec.as_object_mut(), inner) {
        members.extend(inner);
    }
    spec
}

/// The API types are plain trees with text for keys, which always become JSON.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod schema;
#[cfg(test)]
mod tests;
