//! Why a VM cannot become what it is written as.

/// Why a VM cannot become what it is written as. Tried again when it, or what it refers to, changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// A field that is wrong.
    #[error("{field}: {message}")]
    Invalid {
        /// Its path.
        field: String,
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// Something that the VM names does not exist.
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

    /// The path of the field.
    pub fn field(&self) -> &str {
        match self {
            Self::Invalid { field, .. } | Self::Missing { field, .. } => field,
        }
    }

    /// What is wrong with it, and what to do.
    pub fn message(&self) -> &str {
        match self {
            Self::Invalid { message, .. } | Self::Missing { message, .. } => message,
        }
    }
}
