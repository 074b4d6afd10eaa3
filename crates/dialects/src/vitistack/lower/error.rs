//! Why a Machine cannot become a VirtualMachine as it is written.

use polyvirt_plan::Reason;

/// Why a Machine cannot become a VirtualMachine. Tried again when the Machine, or what it refers to, changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// No size of that name.
    #[error(
        "{field}: There is no template {name}. Use small, medium or large, or the name of a MachineClass"
    )]
    TemplateNotFound {
        /// Where it is named.
        field: &'static str,
        /// The name.
        name: String,
    },
    /// A class that does not exist or cannot be used.
    #[error("{field}: {message}")]
    MachineClass {
        /// Where it is named.
        field: &'static str,
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// A network that does not exist.
    #[error(
        "{field}: There is no {kind} {name} in the namespace of the Machine. Create it, or correct the name"
    )]
    NetworkNotFound {
        /// Where it is named.
        field: String,
        /// NetworkConfiguration or NetworkNamespace.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A network that is not made yet, or cannot be used.
    #[error("{field}: {message}")]
    NetworkUnusable {
        /// Where it is named.
        field: String,
        /// What is wrong with it, and what to do.
        message: String,
        /// The name.
        name: String,
    },
    /// A field that is wrong.
    #[error("{field}: {message}")]
    Invalid {
        /// Its path.
        field: String,
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// Something that the Machine names does not exist.
    #[error("{field}: {message}")]
    Missing {
        /// Where it is named.
        field: String,
        /// What is missing, and what to do.
        message: String,
    },
}

impl LowerError {
    /// A field that is wrong.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            message: message.into(),
        }
    }

    /// The reason in conditions, events and metrics.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::TemplateNotFound { .. } => Reason::TemplateNotFound,
            Self::MachineClass { .. } => Reason::MachineClassError,
            Self::NetworkNotFound { .. } | Self::NetworkUnusable { .. } => {
                Reason::NetworkConfigurationNotFound
            }
            Self::Invalid { .. } => Reason::InvalidSpec,
            Self::Missing { .. } => Reason::WaitingForDependencies,
        }
    }

    /// The network that it is about.
    pub fn network(&self) -> Option<&str> {
        match self {
            Self::NetworkNotFound { name, .. } | Self::NetworkUnusable { name, .. } => Some(name),
            _ => None,
        }
    }
}
