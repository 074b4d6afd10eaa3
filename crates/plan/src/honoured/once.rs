//! Fields that are read once: when the VM is created, at its first boot, or when its host is chosen.
//!
//! An edit of such a field after that moment has no effect. It is found by comparing the declaration with a digest of what it was
//! at that moment, which is kept in `status.applied.created`: so it is reported until it is reverted, also after a restart of the
//! manager, and it is not confused with an edit that acts.

use std::collections::BTreeMap;

use polyvirt_api::infra::{
    VMClassSpec, VMImageSource, VMNetworkAttachmentSpec, VirtualMachineSpec,
};
use serde_json::{Map, Value};

use super::{FIELDS, Roots, values};
use crate::digest;

/// Digests of the fields that are read once, by path; fields that are not set have none.
pub type Declared = BTreeMap<String, String>;

/// When a field is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// When the VM, its disk or its network interface is created.
    Creation,
    /// At the first boot of the guest.
    FirstBoot,
    /// When the host is chosen.
    Placement,
    /// When the VM is created, and with each change of its size, disks, networks or `class.extraConfig`.
    NextChange,
}

impl Moment {
    /// What people read behind the field.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Creation => "read at creation",
            Self::FirstBoot => "read at the first boot",
            Self::Placement => "placement is decided once",
            Self::NextChange => {
                "sent with the next change of size, disks, networks or class.extraConfig"
            }
        }
    }
}

/// A field that is read once.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    /// Its path, or that of a group of fields, or of a list whose entries are read one by one.
    pub path: &'static str,
    /// When it is read.
    pub moment: Moment,
}

const fn once(path: &'static str, moment: Moment) -> Once {
    Once { path, moment }
}

/// All fields that are read once.
pub const ONCE: &[Once] = &[
    once("spec.imageRef", Moment::Creation),
    once("spec.image", Moment::Creation),
    once("spec.importedDisk", Moment::Creation),
    once("spec.imagePullPolicy", Moment::Creation),
    once("spec.userData", Moment::FirstBoot),
    once("spec.metaData", Moment::FirstBoot),
    once("spec.networkData", Moment::FirstBoot),
    once("spec.placement.cluster", Moment::Creation),
    once("spec.placement.datastore", Moment::Creation),
    once("spec.placement.storagePod", Moment::Creation),
    once("spec.placement.folder", Moment::Creation),
    once("spec.placement.resourcePool", Moment::Creation),
    once("spec.placement.host", Moment::Placement),
    once("spec.placement.nodeSelector", Moment::Placement),
    once("spec.placement.affinity", Moment::Placement),
    once("spec.placementRef", Moment::Placement),
    once("spec.resources.gpu", Moment::Placement),
    once("spec.resources.devices", Moment::Placement),
    once("spec.disks[]", Moment::Creation),
    once("spec.networks[]", Moment::Creation),
    once("spec.tags", Moment::NextChange),
    once("class.firmware", Moment::NextChange),
    once("class.diskDefaults", Moment::Creation),
    once("class.guestToolsPolicy", Moment::NextChange),
    once("class.resourceLimits", Moment::NextChange),
    once("class.performanceProfile", Moment::NextChange),
    once("class.securityProfile", Moment::NextChange),
];

/// Members of the entries of lists that are read with the entry, beside those that need a provider's help.
const OF_ENTRIES: [&str; 2] = ["networkRef", "prefix"];

/// An edit that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The field, with the name of an entry of a list in brackets.
    pub path: String,
    /// When it was read.
    pub moment: Moment,
}

impl std::fmt::Display for Edited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.path, self.moment.explanation())
    }
}

/// The fields as they are declared now. Arguments as for [`super::fields_in_use`].
pub fn declared(
    vm: &VirtualMachineSpec,
    class: Option<&VMClassSpec>,
    networks: &[(usize, &VMNetworkAttachmentSpec)],
) -> Declared {
    let roots = Roots::of(vm, class, networks);
    let cards: BTreeMap<_, _> = networks
        .iter()
        .map(|(i, _)| *i)
        .zip(&roots.networks)
        .collect();
    let mut found = Declared::new();
    for row in ONCE {
        match row.path.strip_suffix("[]") {
            Some(list) => found.extend(entries(list, &roots.spec, &cards)),
            None => found.extend(whole(row.path, &roots).map(|d| (row.path.to_owned(), d))),
        }
    }
    found
}

/// The digest of a field or group; `None` if nothing of it is in use.
fn whole(path: &str, roots: &Roots) -> Option<String> {
    let (root, rest) = path.split_once('.')?;
    let tree = if root == "class" {
        &roots.class
    } else {
        &roots.spec
    };
    let under = |field: &str| covers(path, field);
    if !FIELDS.iter().any(|field| under(field.path)) {
        let value = digest::canonical(values(tree, rest).first().copied()?.clone());
        return value.map(|value| digest::of(&value));
    }
    let mut said = Map::new();
    for field in FIELDS.iter().filter(|field| under(field.path)) {
        let inner = field.path.split_once('.').map_or("", |(_, inner)| inner);
        let counts = values(tree, inner).into_iter();
        for value in counts.filter(|value| field.counts.says(value)) {
            said.insert(field.path.to_owned(), value.clone());
        }
    }
    (!said.is_empty()).then(|| digest::of(&said))
}

/// The digests of the entries of a list, which have names.
fn entries(list: &str, spec: &Value, cards: &BTreeMap<usize, &Value>) -> Declared {
    let name = list.split_once('.').map_or("", |(_, name)| name);
    let entries = spec.get(name).and_then(Value::as_array);
    let entries = entries.into_iter().flatten().enumerate();
    entries
        .filter_map(|(index, entry)| {
            let key = format!("{list}[{}]", entry.get("name")?.as_str()?);
            let network = cards.get(&index).filter(|_| name == "networks");
            Some((key, digest::of(&said_by(list, entry, network.copied()))))
        })
        .collect()
}

fn said_by(list: &str, entry: &Value, network: Option<&Value>) -> Map<String, Value> {
    let own = format!("{list}[].");
    let mut said = Map::new();
    for field in FIELDS {
        let (tree, path) = match (field.path.strip_prefix(&own), network) {
            (Some(path), _) => (entry, path),
            (None, Some(network)) => match field.path.strip_prefix("network.") {
                Some(path) => (network, path),
                None => continue,
            },
            (None, None) => continue,
        };
        let counts = values(tree, path).into_iter();
        for value in counts.filter(|value| field.counts.says(value)) {
            said.insert(field.path.to_owned(), value.clone());
        }
    }
    let beside = |name: &&str| Some(((*name).to_owned(), entry.get(*name)?.clone()));
    said.extend(OF_ENTRIES.iter().filter_map(beside));
    said
}

/// Whether a path is this one or below it.
pub(crate) fn covers(path: &str, leaf: &str) -> bool {
    leaf.strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Edits that have no effect: what is declared now and was not at its moment. Nothing is known of a VM without a record; an entry
/// of a list that came later is read when it comes.
pub fn edited(created: &Declared, declared: &Declared) -> Vec<Edited> {
    if created.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for row in ONCE {
        match row.path.strip_suffix("[]") {
            Some(list) => {
                let both = of_list(created, list);
                let both = both
                    .filter(|(key, before)| declared.get(*key).is_some_and(|now| now != *before));
                found.extend(both.map(|(key, _)| row.edited(key)));
            }
            None if created.get(row.path) != declared.get(row.path) => {
                found.push(row.edited(row.path));
            }
            None => {}
        }
    }
    found
}

impl Once {
    fn edited(&self, path: &str) -> Edited {
        Edited {
            path: path.to_owned(),
            moment: self.moment,
        }
    }
}

fn of_list<'d>(
    declared: &'d Declared,
    list: &str,
) -> impl Iterator<Item = (&'d String, &'d String)> {
    let begin = format!("{list}[");
    declared
        .iter()
        .filter(move |(key, _)| key.starts_with(&begin))
}

/// The VM was found as declared: entries of lists that came are taken up, those that went are forgotten.
pub fn settle(created: &mut Declared, declared: &Declared) {
    if created.is_empty() {
        created.clone_from(declared);
        return;
    }
    let lists = ONCE.iter().filter_map(|row| row.path.strip_suffix("[]"));
    for list in lists {
        let begin = format!("{list}[");
        created.retain(|key, _| !key.starts_with(&begin) || declared.contains_key(key));
        for (key, digest) in of_list(declared, list) {
            created.entry(key.clone()).or_insert_with(|| digest.clone());
        }
    }
}

/// A change was sent, and with it all fields of [`Moment::NextChange`].
pub fn sent(created: &mut Declared, declared: &Declared) {
    if created.is_empty() {
        return;
    }
    for row in ONCE.iter().filter(|row| row.moment == Moment::NextChange) {
        match declared.get(row.path) {
            Some(digest) => created.insert(row.path.to_owned(), digest.clone()),
            None => created.remove(row.path),
        };
    }
}

/// What a disk is created from, for people.
pub fn image_name(spec: &VirtualMachineSpec) -> Option<String> {
    if let Some(disk) = &spec.imported_disk {
        return Some(disk.disk_id.clone());
    }
    if let Some(inline) = &spec.image {
        return Some(source_name(inline));
    }
    let named = spec.image_ref.as_ref()?;
    Some(match &named.namespace {
        Some(namespace) => format!("{namespace}/{}", named.name),
        None => named.name.clone(),
    })
}

fn source_name(source: &VMImageSource) -> String {
    if let Some(http) = &source.http {
        return http.url.clone();
    }
    if let Some(registry) = &source.registry {
        return registry.image.clone();
    }
    let tree = serde_json::to_value(source).unwrap_or_default();
    let first = tree.as_object().and_then(|members| members.keys().next());
    first.map_or_else(
        || "spec.image".to_owned(),
        |kind| format!("spec.image.{kind}"),
    )
}
