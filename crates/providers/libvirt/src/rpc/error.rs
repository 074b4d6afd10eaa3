//! What libvirt says is wrong, and what that means for the caller.

use bytes::Bytes;
use polyvirt_contract::{ErrorKind, ProviderError};

use super::xdr::{self, Decode, Reader, XdrError};

/// Words by which a full storage shows, whoever says them.
const FULL: [&str; 4] = [
    "No space left on device",
    "Disk quota exceeded",
    "too big for",
    // Of a volume group.
    "insufficient free space",
];

/// Numbers of libvirt's errors that something depends on.
pub(crate) mod code {
    pub(crate) const NO_MEMORY: i32 = 2;
    pub(crate) const NO_SUPPORT: i32 = 3;
    pub(crate) const INVALID_ARG: i32 = 8;
    pub(crate) const XML_ERROR: i32 = 27;
    pub(crate) const OPERATION_DENIED: i32 = 29;
    pub(crate) const XML_DETAIL: i32 = 35;
    pub(crate) const NO_DOMAIN: i32 = 42;
    pub(crate) const NO_NETWORK: i32 = 43;
    pub(crate) const AUTH_FAILED: i32 = 45;
    pub(crate) const NO_STORAGE_POOL: i32 = 49;
    pub(crate) const NO_STORAGE_VOL: i32 = 50;
    pub(crate) const OPERATION_INVALID: i32 = 55;
    pub(crate) const CONFIG_UNSUPPORTED: i32 = 67;
    pub(crate) const OPERATION_TIMEOUT: i32 = 68;
    pub(crate) const NO_DOMAIN_SNAPSHOT: i32 = 72;
    pub(crate) const ARGUMENT_UNSUPPORTED: i32 = 74;
    pub(crate) const AUTH_CANCELLED: i32 = 79;
    pub(crate) const NO_DOMAIN_METADATA: i32 = 80;
    pub(crate) const OPERATION_UNSUPPORTED: i32 = 84;
    pub(crate) const AGENT_UNRESPONSIVE: i32 = 86;
    pub(crate) const RESOURCE_BUSY: i32 = 87;
    pub(crate) const ACCESS_DENIED: i32 = 88;
    pub(crate) const STORAGE_VOL_EXIST: i32 = 90;
    pub(crate) const XML_INVALID_SCHEMA: i32 = 92;
    pub(crate) const AUTH_UNAVAILABLE: i32 = 94;
    pub(crate) const AGENT_UNSYNCED: i32 = 97;
    pub(crate) const DEVICE_MISSING: i32 = 99;
    pub(crate) const AGENT_COMMAND_TIMEOUT: i32 = 112;
    pub(crate) const AGENT_COMMAND_FAILED: i32 = 113;
}

/// An error as libvirt tells it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct LibvirtError {
    /// What kind of error.
    pub(crate) code: i32,
    /// Which part of libvirt says it.
    pub(crate) domain: i32,
    /// For people.
    pub(crate) message: String,
}

impl Decode for LibvirtError {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let (code, domain, message) = <(i32, i32, Option<String>)>::decode(from)?;
        Ok(Self {
            code,
            domain,
            message: message.unwrap_or_else(|| "no reason was given".to_owned()),
        })
    }
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RpcError {
    /// libvirt answered with an error.
    #[error("{0}")]
    Libvirt(#[from] LibvirtError),
    /// There is no connection, or it broke. The call may have been carried out.
    #[error("libvirt cannot be reached: {0}")]
    Unreachable(String),
    /// libvirt takes us for nobody that it knows.
    #[error("libvirt refuses our credentials: {0}")]
    Refused(String),
    /// No answer in time. The call may have been carried out.
    #[error("libvirt has not answered the call {0} in time")]
    Late(u32),
    /// The answer makes no sense.
    #[error("The answer of libvirt cannot be read: {0}")]
    Garbled(#[from] XdrError),
}

impl LibvirtError {
    /// Reads the body of an answer that is an error.
    pub(crate) fn read(body: Bytes) -> Self {
        xdr::read(body).unwrap_or_else(|error| Self {
            code: 0,
            domain: 0,
            message: error.to_string(),
        })
    }

    /// What the caller's next move depends on.
    pub(crate) fn kind(&self) -> ErrorKind {
        if FULL.iter().any(|word| self.message.contains(word)) {
            return ErrorKind::Exhausted;
        }
        match self.code {
            code::NO_DOMAIN
            | code::NO_STORAGE_VOL
            | code::NO_DOMAIN_SNAPSHOT
            | code::NO_DOMAIN_METADATA
            | code::DEVICE_MISSING => ErrorKind::NotFound,
            code::INVALID_ARG
            | code::XML_ERROR
            | code::XML_DETAIL
            | code::XML_INVALID_SCHEMA
            | code::CONFIG_UNSUPPORTED
            | code::NO_NETWORK
            | code::NO_STORAGE_POOL => ErrorKind::Invalid,
            code::NO_SUPPORT | code::ARGUMENT_UNSUPPORTED | code::OPERATION_UNSUPPORTED => {
                ErrorKind::Unsupported
            }
            code::OPERATION_INVALID
            | code::RESOURCE_BUSY
            | code::AGENT_UNRESPONSIVE
            | code::AGENT_UNSYNCED => ErrorKind::Precondition,
            code::AUTH_FAILED | code::AUTH_CANCELLED | code::AUTH_UNAVAILABLE => {
                ErrorKind::Unauthenticated
            }
            code::ACCESS_DENIED | code::OPERATION_DENIED => ErrorKind::PermissionDenied,
            code::OPERATION_TIMEOUT | code::AGENT_COMMAND_TIMEOUT => ErrorKind::Timeout,
            code::NO_MEMORY => ErrorKind::Exhausted,
            _ => ErrorKind::Internal,
        }
    }
}

impl RpcError {
    /// Whether libvirt answered with this number.
    pub(crate) fn is(&self, code: i32) -> bool {
        matches!(self, Self::Libvirt(error) if error.code == code)
    }

    /// Whether what was asked for is not there.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Libvirt(error) if error.kind() == ErrorKind::NotFound)
    }
}

impl From<RpcError> for ProviderError {
    fn from(error: RpcError) -> Self {
        let kind = match &error {
            RpcError::Libvirt(inner) => inner.kind(),
            RpcError::Unreachable(_) => ErrorKind::Unavailable,
            RpcError::Refused(_) => ErrorKind::Unauthenticated,
            RpcError::Late(_) => ErrorKind::Timeout,
            RpcError::Garbled(_) => ErrorKind::Internal,
        };
        Self::new(kind, capital(&error.to_string()))
    }
}

/// The same text, beginning with a capital.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32, message: &str) -> ProviderError {
        RpcError::Libvirt(LibvirtError {
            code,
            domain: 10,
            message: message.to_owned(),
        })
        .into()
    }

    #[test]
    fn the_number_decides_what_follows() {
        for (number, kind) in [
            (code::NO_DOMAIN, ErrorKind::NotFound),
            (code::NO_STORAGE_VOL, ErrorKind::NotFound),
            (code::XML_ERROR, ErrorKind::Invalid),
            (code::OPERATION_INVALID, ErrorKind::Precondition),
            (code::AGENT_UNRESPONSIVE, ErrorKind::Precondition),
            (code::AUTH_FAILED, ErrorKind::Unauthenticated),
            (code::ACCESS_DENIED, ErrorKind::PermissionDenied),
            (code::OPERATION_TIMEOUT, ErrorKind::Timeout),
            (1, ErrorKind::Internal),
        ] {
            assert_eq!(said(number, "x").kind, kind, "{number}");
        }
    }

    #[test]
    fn a_full_pool_is_told_as_such_and_texts_begin_with_a_capital() {
        let error = said(38, "cannot write: No space left on device");
        assert_eq!(error.kind, ErrorKind::Exhausted);
        assert!(error.message.starts_with("Cannot write"), "{error}");
    }
}
