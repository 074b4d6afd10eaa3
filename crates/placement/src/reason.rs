//! Why a host cannot take a VM.

use std::fmt::{Display, Formatter, Result};

use crate::world::Topology;

/// Why a host cannot take a VM: the first thing that is against it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It does not answer.
    HostDown,
    /// It takes no new VMs.
    Cordoned,
    /// Its place is none of those that are named.
    WrongPlace(Topology),
    /// Its place is one of those that are excluded.
    Excluded(Topology),
    /// It lacks a label, or the label has another value.
    NotSelected {
        /// Key of the label.
        key: String,
    },
    /// It meets no term of the node affinity.
    AffinityNotMet,
    /// No VM that this one must be near to is there.
    NoNeighbour(Topology),
    /// A VM that this one must not share the place with is there.
    AntiAffinity {
        /// What they would share.
        topology: Topology,
        /// The VM.
        vm: String,
    },
    /// A VM is there that will not share the place with this one.
    KeptAway {
        /// What they would share.
        topology: Topology,
        /// The VM.
        vm: String,
    },
    /// As many VMs as may share the place are there.
    Crowded {
        /// What they share.
        topology: Topology,
        /// How many may.
        most: usize,
    },
    /// The provider has no such network.
    NoNetwork {
        /// Its name.
        name: String,
    },
    /// It does not say that it has a feature.
    NoFeature {
        /// The feature.
        feature: String,
    },
    /// Too few CPUs are free.
    TooFewCpus {
        /// How many are needed.
        wanted: u32,
        /// How many are free.
        free: u64,
    },
    /// Too little memory is free.
    TooLittleMemory {
        /// MiB that are needed.
        wanted_mib: u64,
        /// MiB that are free.
        free_mib: u64,
    },
    /// So many of its CPUs must not be given away.
    CpusTooBusy {
        /// In percent.
        most: u32,
    },
    /// So much of its memory must not be given away.
    MemoryTooBusy {
        /// In percent.
        most: u32,
    },
    /// The provider has no datastore that may be used.
    NoDatastore,
    /// No datastore that may be used has the room.
    DatastoreFull {
        /// The one with the most room.
        datastore: String,
        /// GiB that are needed.
        wanted_gib: u64,
        /// GiB that are free.
        free_gib: u64,
    },
    /// Too few devices of the kind are free.
    NoDevice {
        /// What is needed.
        wanted: String,
        /// How many are free that would do.
        free: u32,
    },
}

impl Reason {
    /// The reason without figures of the one host, so that hosts can be counted by it.
    pub fn group(&self) -> String {
        match self {
            Self::HostDown => "down".to_owned(),
            Self::Cordoned => "cordoned".to_owned(),
            Self::WrongPlace(topology) => format!("not in a {} that is named", topology.word()),
            Self::Excluded(topology) => format!("in a {} that is excluded", topology.word()),
            Self::NotSelected { key } => format!("did not match the selector on label {key}"),
            Self::AffinityNotMet => "did not match the node affinity".to_owned(),
            Self::NoNeighbour(topology) => {
                format!("no VM to be near to in the same {}", topology.word())
            }
            Self::AntiAffinity { topology, .. } => {
                format!("a VM to be away from in the same {}", topology.word())
            }
            Self::KeptAway { topology, .. } => format!(
                "a VM that keeps this one away in the same {}",
                topology.word()
            ),
            Self::Crowded { topology, most } => format!(
                "with {most}, the most VMs allowed, in the same {}",
                topology.word()
            ),
            Self::NoNetwork { name } => format!("no network {name}"),
            Self::NoFeature { feature } => format!("no feature {feature}"),
            Self::TooFewCpus { .. } => "too few CPUs".to_owned(),
            Self::TooLittleMemory { .. } => "too little memory".to_owned(),
            Self::CpusTooBusy { most } => format!("CPU use above {most} %"),
            Self::MemoryTooBusy { most } => format!("memory use above {most} %"),
            Self::NoDatastore => "no datastore that may be used".to_owned(),
            Self::DatastoreFull { .. } => "too little disk space".to_owned(),
            Self::NoDevice { wanted, .. } => format!("too few devices {wanted}"),
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::AntiAffinity { topology, vm } => {
                write!(
                    f,
                    "VM {vm}, which this one must be away from, is in the same {}",
                    topology.word()
                )
            }
            Self::KeptAway { topology, vm } => {
                write!(
                    f,
                    "VM {vm} in the same {} keeps this one away",
                    topology.word()
                )
            }
            Self::TooFewCpus { wanted, free } => {
                write!(f, "too few CPUs: {wanted} needed, {free} free")
            }
            Self::TooLittleMemory {
                wanted_mib,
                free_mib,
            } => {
                write!(
                    f,
                    "too little memory: {wanted_mib} MiB needed, {free_mib} MiB free"
                )
            }
            Self::DatastoreFull {
                datastore,
                wanted_gib,
                free_gib,
            } => {
                write!(
                    f,
                    "too little disk space: {wanted_gib} GiB needed, {free_gib} GiB free on {datastore}"
                )
            }
            Self::NoDevice { wanted, free } => write!(f, "too few devices {wanted}: {free} free"),
            other => f.write_str(&other.group()),
        }
    }
}
