//! Why an object cannot go on as it is written: a reason for machines, a path and a text for people.

use crate::reason::Reason;

/// A problem with the object itself or with what it refers to. Retried only when one of those changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Problem {
    /// The condition's reason.
    pub reason: Reason,
    /// The path of the field in the manifest, for example `spec.classRef.name`.
    pub field: String,
    /// Begins with a capital and tells what to do.
    pub message: String,
}

impl Problem {
    /// A problem at a field.
    pub fn new(reason: Reason, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason,
            field: field.into(),
            message: message.into(),
        }
    }
}
