//! What a VM needs and would like.

use std::collections::BTreeMap;

use crate::device::DeviceRequest;
use crate::rule::{Rule, Subject};
use crate::storage::Storage;

/// A rule that should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Against other wishes; 1 to 100.
    pub weight: u32,
    /// What should hold.
    pub rule: Rule,
}

/// What a VM needs and would like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The VMPlacementPolicy that it names.
    pub policy: Option<String>,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Room for its disks.
    pub storage: Storage,
    /// Devices of the host.
    pub devices: Vec<DeviceRequest>,
    /// What must hold.
    pub rules: Vec<Rule>,
    /// What should hold.
    pub wishes: Vec<Wish>,
}

impl Request {
    /// A label of namespaces, beside their name, that must be known to place the VM.
    pub fn namespace_label(&self) -> Option<&str> {
        let wishes = self.wishes.iter().map(|wish| &wish.rule);
        let mut all = self.rules.iter().chain(wishes);
        all.find_map(Rule::namespace_label)
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            namespace: &self.namespace,
            labels: &self.labels,
            policy: self.policy.as_deref(),
        }
    }
}
