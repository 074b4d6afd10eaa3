//! Which VirtualMachine is meant where two APIs have one.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The API whose VirtualMachine has the short name `vm`, and comes first for `kubectl get virtualmachines`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VmShortName {
    /// infra.virtrigaud.io
    #[default]
    Infra,
    /// novacron.io: every command of NovaCron's README means its VirtualMachines
    Novacron,
}

impl VmShortName {
    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Infra => "infra",
            Self::Novacron => "novacron",
        }
    }

    /// For the definitions.
    pub const fn names(self) -> polyvirt_api::VmShortName {
        match self {
            Self::Infra => polyvirt_api::VmShortName::Infra,
            Self::Novacron => polyvirt_api::VmShortName::Novacron,
        }
    }

    /// For discovery.
    pub const fn order(self) -> polyvirt_gateway::Order {
        match self {
            Self::Infra => polyvirt_gateway::Order::ByName,
            Self::Novacron => polyvirt_gateway::Order::NovacronFirst,
        }
    }
}
