//! An event about an object, before anybody sends it.

use crate::reason::Reason;

/// How an event is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// News.
    Normal,
    /// Somebody should look.
    Warning,
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How it is shown.
    pub severity: Severity,
    /// Why.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

impl Note {
    /// News.
    pub fn normal(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason,
            message: message.into(),
        }
    }

    /// Something that somebody should look at.
    pub fn warning(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason,
            message: message.into(),
        }
    }
}
