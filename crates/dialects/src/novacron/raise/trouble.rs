//! What stands in the way of a VM.

use polyvirt_plan::Reason;

use crate::novacron::lower::LowerError;
use crate::novacron::place::PlaceError;
use crate::shared::lost::remedy;

/// What stands in the way of a VM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It cannot be said where it is to run.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It cannot become what it is written as.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// An object of its name is somebody else's.
    #[error(
        "metadata.name: There is a {kind} {name} of infra.virtrigaud.io that was not made of this VirtualMachine. Rename one of them"
    )]
    NameConflict {
        /// What it is.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The VirtualMachine that was made for it was deleted behind it, and its VM with it.
    #[error("{}", remedy("virtualmachines.novacron.io", name, id))]
    VmMissing {
        /// The name of both.
        name: String,
        /// The VM on its provider.
        id: String,
    },
    /// The API server refuses what is made for it.
    #[error("What is made for this VirtualMachine was refused: {0}")]
    Refused(String),
}

impl Trouble {
    /// The reason in conditions, events and metrics.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Place(_) => Reason::NodeSelectionFailed,
            Self::Lower(LowerError::Missing { .. }) => Reason::WaitingForDependencies,
            Self::Lower(LowerError::Invalid { .. }) | Self::Refused(_) => Reason::CreateFailed,
            Self::NameConflict { .. } => Reason::NameConflict,
            Self::VmMissing { .. } => Reason::VmMissing,
        }
    }

    /// Whether it may pass without an edit of the VM.
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Place(_) | Self::Lower(LowerError::Missing { .. })
        )
    }
}
