//! What stands in the way of a Machine.

use polyvirt_api::infra::VirtualMachine;
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::kind;

use crate::vitistack::assign::AssignError;
use crate::vitistack::lower::LowerError;

/// What stands in the way of a Machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It cannot be said where it is to run.
    #[error(transparent)]
    Assign(#[from] AssignError),
    /// It cannot become a VirtualMachine.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A VirtualMachine of its name is somebody else's.
    #[error(
        "metadata.name: There is a VirtualMachine {0} that was not made of this Machine. Rename one of them"
    )]
    NameConflict(String),
    /// The API server refuses its VirtualMachine.
    #[error("The VirtualMachine was refused: {0}")]
    Refused(String),
}

impl Trouble {
    /// The reason in conditions, events and metrics.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Assign(_) => Reason::KubevirtConfigNotFound,
            Self::Lower(error) => error.reason(),
            Self::NameConflict(_) => Reason::NameConflict,
            Self::Refused(_) => Reason::InvalidSpec,
        }
    }

    /// The network that it is about.
    pub fn network(&self) -> Option<&str> {
        match self {
            Self::Lower(error) => error.network(),
            _ => None,
        }
    }
}

/// Why a VM failed, in the words that people know.
pub fn of_vm(vm: &VirtualMachine) -> (Reason, String) {
    let conditions = vm.status.iter().flat_map(|s| &s.conditions);
    let ready = conditions.into_iter().find(|c| c.type_ == kind::READY);
    let Some(ready) = ready else {
        return (Reason::VMFailed, String::new());
    };
    let reason = match Reason::parse(&ready.reason) {
        Some(Reason::CapacityExhausted) => Reason::InsufficientResources,
        _ if is_about_storage_class(&ready.message) => Reason::StorageClassNotFound,
        Some(
            reason @ (Reason::InvalidSpec
            | Reason::SecretInvalid
            | Reason::UserDataInvalid
            | Reason::NameConflict
            | Reason::IdentityConflict
            | Reason::VmMissing),
        ) => reason,
        _ => Reason::KubeVirtApiError,
    };
    (reason, ready.message.clone())
}

fn is_about_storage_class(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("storageclass") && message.contains("not")
}
