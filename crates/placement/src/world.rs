//! What is there: hosts as their providers tell of them, and VMs that are on them or soon will be.

use std::borrow::Cow;
use std::collections::BTreeMap;

use polyvirt_contract::model::{Host, Inventory};

use crate::rule::{Namespaces, Subject, VmTerm};

/// The label that names the cluster of a host.
pub const CLUSTER: &str = "polyvirt.io/cluster";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

/// How much more than it has a host may promise, in percent of what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overcommit {
    /// CPUs: VMs seldom use all of theirs at once.
    pub cpu_percent: u32,
    /// Memory: what is promised is used, sooner or later.
    pub memory_percent: u32,
}

impl Default for Overcommit {
    fn default() -> Self {
        Self {
            cpu_percent: 400,
            memory_percent: 100,
        }
    }
}

/// One provider and what it told of itself.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The Provider, as `namespace/name`.
    pub provider: &'a str,
    /// Its hosts, datastores and networks.
    pub inventory: &'a Inventory,
    /// How much its hosts may promise.
    pub overcommit: Overcommit,
    /// What holds for single hosts instead, by name.
    pub rules: Option<&'a HostRules>,
}

/// What holds for single hosts, by name.
pub type HostRules = BTreeMap<String, HostRule>;

/// What holds for one host instead of what holds for all of its provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostRule {
    /// How much it may promise; `None` for as much as the others.
    pub overcommit: Option<Overcommit>,
    /// Whether it is filled up or spared.
    pub packing: Packing,
}

/// Which of several hosts that fit is preferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// The one with the most free capacity.
    #[default]
    Spread,
    /// The one with the least.
    BinPack,
}

/// What a VM takes that its host does not count yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim<'a> {
    /// CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Bytes.
    pub disk_bytes: u64,
    /// The datastore of the bytes; empty if the provider chooses.
    pub datastore: &'a str,
}

/// A VM that is on a host, or for which one was chosen.
#[derive(Clone, Debug)]
pub struct Placed<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The VMPlacementPolicy that it names.
    pub policy: Option<&'a str>,
    /// The Provider, as `namespace/name`.
    pub provider: &'a str,
    /// The host.
    pub host: &'a str,
    /// What the inventory does not show yet; `None` if it shows all.
    pub claim: Option<Claim<'a>>,
    /// Devices that are its own, by name. Inventories tell how many there are, not how many are free.
    pub devices: Option<&'a BTreeMap<String, i32>>,
    /// VMs that it must not share a place with.
    pub keeps_away: Vec<VmTerm>,
}

impl Placed<'_> {
    pub(crate) const fn subject(&self) -> Subject<'_> {
        Subject {
            namespace: self.namespace,
            labels: self.labels,
            policy: self.policy,
        }
    }

    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// All that a decision is made from, besides the request.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// Providers to choose from.
    pub sites: &'a [Site<'a>],
    /// VMs, on these and other hosts. The VM that is to be placed is not among them.
    pub vms: &'a [Placed<'a>],
    /// The labels of namespaces, as far as they are known.
    pub namespaces: &'a Namespaces,
}

/// What two VMs share when they are near each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topology {
    /// The host.
    Host,
    /// The cluster, by the label `polyvirt.io/cluster`.
    Cluster,
    /// The zone.
    Zone,
    /// The region.
    Region,
    /// The value of another label of hosts.
    Label(String),
}

impl Topology {
    /// The topology of a key: a label of hosts, or one of the words host, cluster, zone and region.
    pub fn parse(key: &str) -> Self {
        match key {
            "host" | HOSTNAME => Self::Host,
            "cluster" | CLUSTER => Self::Cluster,
            "zone" | ZONE => Self::Zone,
            "region" | REGION => Self::Region,
            other => Self::Label(other.to_owned()),
        }
    }

    /// The word or key, for people.
    pub fn word(&self) -> &str {
        match self {
            Self::Host => "host",
            Self::Cluster => "cluster",
            Self::Zone => "zone",
            Self::Region => "region",
            Self::Label(key) => key,
        }
    }

    /// The label of hosts that tells it; `None` for the host itself, which has a name.
    pub(crate) fn label(&self) -> Option<&str> {
        match self {
            Self::Host => None,
            Self::Cluster => Some(CLUSTER),
            Self::Zone => Some(ZONE),
            Self::Region => Some(REGION),
            Self::Label(key) => Some(key),
        }
    }

    /// Where the host is; `None` if it does not say. Hosts of two providers may have one name and are two.
    pub fn of<'h>(&self, provider: &str, host: &'h Host) -> Option<Cow<'h, str>> {
        match self {
            Self::Host => Some(Cow::Owned(format!("{provider}/{}", host.name))),
            _ => self.name_of(host).map(Cow::Borrowed),
        }
    }

    /// The name that people know the place by.
    pub fn name_of<'h>(&self, host: &'h Host) -> Option<&'h str> {
        match self {
            Self::Host => Some(&host.name),
            Self::Cluster => label(host, CLUSTER),
            Self::Zone => label(host, ZONE),
            Self::Region => label(host, REGION),
            Self::Label(key) => label(host, key),
        }
    }
}

/// A label of a host. Name and zone are labels too, whether the provider writes them as such or not.
pub(crate) fn label<'h>(host: &'h Host, key: &str) -> Option<&'h str> {
    let written = host.labels.get(key).map(String::as_str);
    written.or_else(|| match key {
        HOSTNAME => Some(host.name.as_str()),
        ZONE => Some(host.zone.as_str()).filter(|zone| !zone.is_empty()),
        _ => None,
    })
}
