//! Errors that are part of an answer.

use crate::error::{ErrorKind, ProviderError};
use crate::wire::ext;

/// The kind whose reason is this word; an unknown word is of a newer peer.
pub(crate) fn kind_of_word(word: &str) -> Option<ErrorKind> {
    ErrorKind::ALL
        .into_iter()
        .find(|kind| kind.reason() == word)
}

/// An error in the way `provider.v1` carries it: a text, and in the additions its kind and field.
pub(crate) fn failure(message: String, kind: &str, field: String) -> ProviderError {
    ProviderError {
        kind: kind_of_word(kind).unwrap_or(ErrorKind::Internal),
        message,
        field: (!field.is_empty()).then_some(field),
    }
}

impl From<ErrorKind> for ext::ErrorKind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Invalid => Self::Invalid,
            ErrorKind::NameConflict => Self::NameConflict,
            ErrorKind::IdentityConflict => Self::IdentityConflict,
            ErrorKind::Precondition => Self::Precondition,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Unauthenticated => Self::Unauthenticated,
            ErrorKind::PermissionDenied => Self::PermissionDenied,
            ErrorKind::Exhausted => Self::Exhausted,
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::Internal => Self::Internal,
        }
    }
}

impl From<ext::ErrorKind> for Option<ErrorKind> {
    fn from(kind: ext::ErrorKind) -> Self {
        ErrorKind::ALL
            .into_iter()
            .find(|k| ext::ErrorKind::from(*k) == kind)
    }
}

impl From<ProviderError> for ext::Failure {
    fn from(error: ProviderError) -> Self {
        Self {
            kind: ext::ErrorKind::from(error.kind).into(),
            field: error.field,
            message: error.message,
        }
    }
}

impl From<ext::Failure> for ProviderError {
    fn from(failure: ext::Failure) -> Self {
        Self {
            kind: Option::from(failure.kind()).unwrap_or(ErrorKind::Internal),
            field: failure.field,
            message: failure.message,
        }
    }
}
