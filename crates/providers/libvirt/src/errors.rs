//! Errors that are not libvirt's own.

use polyvirt_contract::{ErrorKind, ProviderError};
use polyvirt_provider_kit::uuid::Uuid;

use crate::xml::XmlError;

/// A defect, or a failure that nobody foresaw.
pub(crate) fn internal(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorKind::Internal, message)
}

/// The VM's present state forbids it.
pub(crate) fn precondition(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorKind::Precondition, message)
}

/// There is no such VM.
pub(crate) fn no_vm(uuid: Uuid) -> ProviderError {
    ProviderError::not_found(format!("The VM {uuid}"))
}

impl From<XmlError> for ProviderError {
    fn from(error: XmlError) -> Self {
        internal(error.to_string())
    }
}
