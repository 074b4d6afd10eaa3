//! What stands in the way of a Machine.

use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::kubevirt::details;
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::kind;

use crate::shared::lost::remedy;
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
    /// Its VirtualMachine was deleted behind it, and its VM with it.
    #[error("{}", remedy("machines.vitistack.io", name, id))]
    VmMissing {
        /// The name of both.
        name: String,
        /// The VM on its provider.
        id: String,
    },
    /// The API server refuses its VirtualMachine.
    #[error("The VirtualMachine was refused: {0}")]
    Refused(String),
}

impl Trouble {
    /// The reason in conditions, events and metrics.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Assign(AssignError::Elsewhere { .. } | AssignError::Contradiction { .. }) => {
                Reason::InvalidSpec
            }
            Self::Assign(_) => Reason::KubevirtConfigNotFound,
            Self::Lower(error) => error.reason(),
            Self::NameConflict(_) => Reason::NameConflict,
            Self::VmMissing { .. } => Reason::VmMissing,
            Self::Refused(_) => Reason::InvalidSpec,
        }
    }

    /// Whether somebody has made a mistake; else something is not there yet, and the Machine waits for it.
    pub const fn is_fault(&self) -> bool {
        !matches!(self, Self::Lower(LowerError::Missing { .. }))
    }

    /// The network that it is about.
    pub fn network(&self) -> Option<&str> {
        match self {
            Self::Lower(error) => error.network(),
            _ => None,
        }
    }
}

/// What a cluster says is wrong with a VM that is not ready.
pub struct Told {
    /// In the word that people know.
    pub reason: Reason,
    /// In the words of the cluster.
    pub message: String,
    /// Whether somebody has to do something before it goes on.
    pub is_failure: bool,
}

/// States of KubeVirt that do not pass by themselves.
const BROKEN: [&str; 5] = [
    "CrashLoopBackOff",
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrorPvcNotFound",
    "DataVolumeError",
];
const UNSCHEDULABLE: &str = "ErrorUnschedulable";

/// What the cluster says is wrong, if it is something that people have a word for.
pub fn told(vm: &VirtualMachine) -> Option<Told> {
    let status = vm.status.as_ref()?;
    let ready = status.conditions.iter().find(|c| c.type_ == kind::READY);
    let ready = ready.filter(|c| c.status == "False")?;
    let printable = status.provider.get(details::PRINTABLE_STATUS);
    let printable = printable.map_or("", String::as_str);
    let broken = BROKEN.contains(&printable);
    let reason = match Reason::parse(&ready.reason) {
        _ if is_about_storage_class(&ready.message) => Reason::StorageClassNotFound,
        Some(Reason::CapacityExhausted) => Reason::InsufficientResources,
        _ if printable == UNSCHEDULABLE => Reason::InsufficientResources,
        Some(reason) if broken || is_of_the_cluster(reason) => Reason::KubeVirtApiError,
        _ => return None,
    };
    Some(Told {
        reason,
        message: known(vm, Reason::parse(&ready.reason), &ready.message),
        is_failure: broken || reason == Reason::StorageClassNotFound,
    })
}

const fn is_of_the_cluster(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ProviderUnavailable
            | Reason::ProviderError
            | Reason::ProviderTimeout
            | Reason::PermissionDenied
            | Reason::CredentialsRefused
    )
}

/// Why a VM failed, in the words that people know.
pub fn of_vm(vm: &VirtualMachine) -> (Reason, String) {
    let conditions = vm.status.iter().flat_map(|s| &s.conditions);
    let ready = conditions.into_iter().find(|c| c.type_ == kind::READY);
    let Some(ready) = ready else {
        return (Reason::VMFailed, String::new());
    };
    let reason = match Reason::parse(&ready.reason) {
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
    let message = known(vm, Reason::parse(&ready.reason), &ready.message);
    (reason, message)
}

/// The sentence that people of the operator know and search for, before the words of the cluster.
fn known(vm: &VirtualMachine, reason: Option<Reason>, message: &str) -> String {
    let is_there = vm.status.as_ref().is_some_and(|s| s.id.is_some());
    let says = match (reason, is_there) {
        (Some(Reason::SecretInvalid | Reason::UserDataInvalid), _) => return message.to_owned(),
        (Some(reason), false) if is_of_the_link(reason) => {
            "Failed to get KubeVirt client for machine"
        }
        (Some(reason), true) if is_of_the_link(reason) => {
            "Failed to get VirtualMachine from remote cluster"
        }
        (_, false) => "Failed to create VirtualMachine in remote cluster",
        (_, true) => return message.to_owned(),
    };
    format!("{says}: {message}")
}

const fn is_of_the_link(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ProviderUnavailable | Reason::ProviderTimeout | Reason::CredentialsRefused
    )
}

fn is_about_storage_class(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("storageclass") && message.contains("not")
}
