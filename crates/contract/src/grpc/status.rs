//! Errors over the wire: the code for everyone, and in the details the exact kind and field for those who look.

use std::error::Error;

use prost::Message;
use tonic::{Code, Status, TimeoutExpired};

use crate::error::{ErrorKind, ProviderError};
use crate::wire::ext;

/// Headers are limited, and a text for a person needs no more.
const MAX_TEXT_BYTES: usize = 2048;

const DETAIL_URL: &str = "type.googleapis.com/polyvirt.provider.v1.ErrorDetail";

/// `google.rpc.Status`, which Go clients insist on finding in the details.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Packed>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Packed {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// The status that tells a peer of this error.
pub fn to_status(error: ProviderError) -> Status {
    let code = code_of(error.kind);
    let message = shortened(error.message);
    let detail = ext::ErrorDetail {
        kind: ext::ErrorKind::from(error.kind).into(),
        field: error.field,
    };
    let rpc = RpcStatus {
        code: code.into(),
        message: message.clone(),
        details: vec![Packed {
            type_url: DETAIL_URL.to_owned(),
            value: detail.encode_to_vec(),
        }],
    };
    Status::with_details(code, message, rpc.encode_to_vec().into())
}

/// The error that a peer told of, or that kept us from the peer.
pub fn from_status(status: &Status) -> ProviderError {
    if let Some(detail) = detail_of(status) {
        let kind: Option<ErrorKind> = detail.kind().into();
        return ProviderError {
            kind: kind.unwrap_or_else(|| kind_of(status.code())),
            message: status.message().to_owned(),
            field: detail.field,
        };
    }
    match status.source() {
        Some(source) => from_transport(source),
        None => ProviderError::new(kind_of(status.code()), text_of(status)),
    }
}

/// Whether the peer does not have the method at all, in contrast to a provider that says "not supported".
pub(super) fn lacks_method(status: &Status) -> bool {
    status.code() == Code::Unimplemented && detail_of(status).is_none()
}

/// A status with a source was made on our side: the answer never came.
fn from_transport(source: &(dyn Error + 'static)) -> ProviderError {
    let chain = || std::iter::successors(Some(source), |e: &&(dyn Error + 'static)| (*e).source());
    if chain().any(<dyn Error>::is::<TimeoutExpired>) {
        return ProviderError::new(ErrorKind::Timeout, "The provider did not answer in time");
    }
    let mut causes: Vec<String> = chain().map(ToString::to_string).collect();
    causes.dedup();
    ProviderError::new(
        ErrorKind::Unavailable,
        format!("The provider cannot be reached: {}", causes.join(": ")),
    )
}

fn detail_of(status: &Status) -> Option<ext::ErrorDetail> {
    let rpc = RpcStatus::decode(status.details()).ok()?;
    let packed = rpc.details.into_iter().find(|d| d.type_url == DETAIL_URL)?;
    ext::ErrorDetail::decode(packed.value.as_slice()).ok()
}

fn text_of(status: &Status) -> String {
    if status.message().is_empty() {
        return format!("The provider answered {:?} without a text", status.code());
    }
    status.message().to_owned()
}

const fn code_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::NameConflict | ErrorKind::IdentityConflict => Code::AlreadyExists,
        ErrorKind::Precondition => Code::FailedPrecondition,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::Unauthenticated => Code::Unauthenticated,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::Exhausted => Code::ResourceExhausted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Timeout => Code::DeadlineExceeded,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::Internal => Code::Internal,
    }
}

const fn kind_of(code: Code) -> ErrorKind {
    match code {
        Code::NotFound => ErrorKind::NotFound,
        Code::InvalidArgument => ErrorKind::Invalid,
        Code::AlreadyExists => ErrorKind::NameConflict,
        Code::FailedPrecondition | Code::Aborted => ErrorKind::Precondition,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::Unauthenticated => ErrorKind::Unauthenticated,
        Code::PermissionDenied => ErrorKind::PermissionDenied,
        Code::ResourceExhausted => ErrorKind::Exhausted,
        Code::Unavailable => ErrorKind::Unavailable,
        Code::DeadlineExceeded => ErrorKind::Timeout,
        Code::Cancelled => ErrorKind::Cancelled,
        Code::Ok | Code::Unknown | Code::OutOfRange | Code::Internal | Code::DataLoss => {
            ErrorKind::Internal
        }
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let end = (0..=MAX_TEXT_BYTES)
            .rev()
            .find(|i| text.is_char_boundary(*i))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_with_its_field() {
        for kind in ErrorKind::ALL {
            for field in [None, Some("spec.disks[1].sizeGiB".to_owned())] {
                let error = ProviderError {
                    kind,
                    message: "Größe: 5 > 4".to_owned(),
                    field,
                };
                assert_eq!(from_status(&to_status(error.clone())), error);
            }
        }
    }

    #[test]
    fn a_peer_without_details_is_read_by_its_code() {
        for (code, kind) in [
            (Code::NotFound, ErrorKind::NotFound),
            (Code::InvalidArgument, ErrorKind::Invalid),
            (Code::AlreadyExists, ErrorKind::NameConflict),
            (Code::FailedPrecondition, ErrorKind::Precondition),
            (Code::Aborted, ErrorKind::Precondition),
            (Code::Unimplemented, ErrorKind::Unsupported),
            (Code::Unauthenticated, ErrorKind::Unauthenticated),
            (Code::PermissionDenied, ErrorKind::PermissionDenied),
            (Code::ResourceExhausted, ErrorKind::Exhausted),
            (Code::Unavailable, ErrorKind::Unavailable),
            (Code::DeadlineExceeded, ErrorKind::Timeout),
            (Code::Cancelled, ErrorKind::Cancelled),
            (Code::Internal, ErrorKind::Internal),
            (Code::Unknown, ErrorKind::Internal),
            (Code::DataLoss, ErrorKind::Internal),
            (Code::OutOfRange, ErrorKind::Internal),
        ] {
            let error = from_status(&Status::new(code, "No"));
            assert_eq!(
                (error.kind, error.message.as_str()),
                (kind, "No"),
                "{code:?}"
            );
        }
    }

    #[test]
    fn the_code_tells_peers_that_do_not_look_into_details() {
        for kind in ErrorKind::ALL {
            let status = to_status(ProviderError::new(kind, "No"));
            let foreign = kind_of(status.code());
            let expected = match kind {
                ErrorKind::IdentityConflict => ErrorKind::NameConflict,
                same => same,
            };
            assert_eq!(foreign, expected);
        }
    }

    #[test]
    fn details_are_a_status_that_agrees_with_the_code() {
        let status = to_status(ProviderError::not_found("VM 7"));
        let rpc = RpcStatus::decode(status.details()).unwrap();
        assert_eq!(rpc.code, i32::from(Code::NotFound));
        assert_eq!(rpc.message, status.message());
    }

    #[test]
    fn unknown_details_are_ignored() {
        let status = Status::with_details(Code::NotFound, "No", vec![0xff, 0xff].into());
        assert_eq!(from_status(&status).kind, ErrorKind::NotFound);
    }

    #[test]
    fn only_a_bare_unimplemented_means_that_the_method_is_missing() {
        assert!(lacks_method(&Status::unimplemented("")));
        assert!(!lacks_method(&to_status(ProviderError::unsupported(
            "watch"
        ))));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let status = to_status(ProviderError::new(ErrorKind::Internal, "ü".repeat(5000)));
        assert!(status.message().len() <= MAX_TEXT_BYTES + '…'.len_utf8());
        assert!(status.message().ends_with("ü…"));
    }
}
