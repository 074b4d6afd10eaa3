//! One demand on a host. What must hold and what should hold are said in the same words.

use std::collections::{BTreeMap, BTreeSet};

use polyvirt_contract::model::Host;

use crate::labels::{Requirement, all_met};
use crate::world::{Topology, label};

/// The label that every namespace carries, with its name.
pub(crate) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// One demand on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The host carries these labels.
    Labels(BTreeMap<String, String>),
    /// The host meets one of these terms at least.
    Nodes(Vec<NodeTerm>),
    /// The place is one of these.
    Named(Topology, BTreeSet<String>),
    /// The place is none of these.
    NotNamed(Topology, BTreeSet<String>),
    /// A VM of the term is in the same place.
    Near(VmTerm),
    /// No VM of the term is in the same place.
    Away(VmTerm),
    /// Fewer VMs of the term than this are in the same place.
    AtMost(VmTerm, usize),
    /// The provider has a network of this name.
    Network(String),
    /// The host has so many CPUs free before the VM comes.
    FreeCpus(u32),
    /// The host has so much memory free before the VM comes, in MiB.
    FreeMemory(u64),
    /// With the VM, no more than this part of the CPUs is given away, in percent.
    CpuUse(u32),
    /// With the VM, no more than this part of the memory is given away, in percent.
    MemoryUse(u32),
    /// The host has the feature: a label of that name, or of the node feature discovery.
    Feature(String),
}

/// Demands on the labels and on the name of a host, all of which must be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTerm {
    /// On its labels.
    pub labels: Vec<Requirement>,
    /// On its name.
    pub name: Vec<Requirement>,
}

impl NodeTerm {
    /// Whether the host meets them. A term without demands is met by no host, as in Kubernetes.
    pub fn met_by(&self, host: &Host) -> bool {
        let empty = self.labels.is_empty() && self.name.is_empty();
        let name = self.name.iter().all(|d| d.met_by(Some(&host.name)));
        !empty && name && self.labels.iter().all(|d| d.met_by(label(host, &d.key)))
    }
}

/// Labels by namespace.
pub type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// VMs, and what being near them means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmTerm {
    /// The VMs.
    pub who: Who,
    /// What near means.
    pub topology: Topology,
}

/// VMs that a term speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Those with these labels.
    Labelled(Selection),
    /// Those that name a VMPlacementPolicy.
    OfPolicy {
        /// Its namespace, which is theirs.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// VMs by their labels and namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Demands on their labels; `None` is no VM at all, an empty list is every VM.
    pub labels: Option<Vec<Requirement>>,
    /// Their namespaces.
    pub namespaces: BTreeSet<String>,
    /// Further namespaces, by their labels.
    pub namespace_labels: Option<Vec<Requirement>>,
}

/// What a term looks at in a VM.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The VMPlacementPolicy that it names.
    pub policy: Option<&'a str>,
}

impl VmTerm {
    /// Whether the term speaks of this VM, where namespaces have these labels.
    pub fn selects(&self, vm: &Subject<'_>, namespaces: &Namespaces) -> bool {
        match &self.who {
            Who::Labelled(selection) => selection.selects(vm, namespaces),
            Who::OfPolicy { namespace, name } => {
                vm.namespace == namespace && vm.policy == Some(name.as_str())
            }
        }
    }
}

impl Selection {
    fn selects(&self, vm: &Subject<'_>, namespaces: &Namespaces) -> bool {
        let labels = self.labels.as_ref();
        labels.is_some_and(|demands| all_met(demands, vm.labels))
            && self.reaches(vm.namespace, namespaces)
    }

    /// A namespace whose labels nobody told is reached by its name only.
    fn reaches(&self, namespace: &str, namespaces: &Namespaces) -> bool {
        let labels = namespaces.get(namespace);
        let met = |demand: &Requirement| match labels {
            _ if demand.key == NAMESPACE_NAME => demand.met_by(Some(namespace)),
            Some(labels) => demand.met_by(labels.get(&demand.key).map(String::as_str)),
            None => false,
        };
        let by_label = |demands: &Vec<Requirement>| demands.iter().all(met);
        self.namespaces.contains(namespace) || self.namespace_labels.as_ref().is_some_and(by_label)
    }

    fn namespace_label(&self) -> Option<&str> {
        let mut demands = self.namespace_labels.iter().flatten();
        let found = demands.find(|demand| demand.key != NAMESPACE_NAME);
        found.map(|demand| demand.key.as_str())
    }
}

impl Rule {
    /// A label of namespaces, beside their name, that must be known to tell whether the rule holds.
    pub(crate) fn namespace_label(&self) -> Option<&str> {
        match self {
            Self::Near(term) | Self::Away(term) | Self::AtMost(term, _) => match &term.who {
                Who::Labelled(selection) => selection.namespace_label(),
                Who::OfPolicy { .. } => None,
            },
            _ => None,
        }
    }
}

/// Whether a host says that it has a feature.
pub(crate) fn has_feature(host: &Host, feature: &str) -> bool {
    let discovered = format!("feature.node.kubernetes.io/{feature}");
    let value = label(host, feature).or_else(|| label(host, &discovered));
    value.is_some_and(|value| value != "false")
}
