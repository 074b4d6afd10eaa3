//! What is said to whoever cannot be served, in the words of the Kubernetes API.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use polyvirt_contract::{ErrorKind, ProviderError};
use serde_json::json;

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody we believe says who this is.
    #[error("Who you are is not known here: come through the API server")]
    Unknown,
    /// The user lacks the permission.
    #[error(
        "User {user:?} may not {verb} virtualmachines/{part} of {name:?} in the namespace {namespace:?}: ask for a role with that permission in the group subresources.polyvirt.io"
    )]
    Forbidden {
        /// Who asked.
        user: String,
        /// What for.
        verb: &'static str,
        /// Which part of the VirtualMachine.
        part: &'static str,
        /// Where.
        namespace: String,
        /// Which VirtualMachine.
        name: String,
    },
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Not in this state of the VM.
    #[error("{0}")]
    Conflict(String),
    /// The provider has no such thing to offer.
    #[error("{0}")]
    Unsupported(String),
    /// Too many at once.
    #[error("Too many sessions are open: close some, or try again later")]
    TooMany,
    /// Not in time.
    #[error("{0}")]
    Timeout(String),
    /// Something that we need does not answer.
    #[error("{0}")]
    Unavailable(String),
}

impl Refusal {
    /// The HTTP code and the reason as the Kubernetes API has them.
    fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Unknown => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Forbidden { .. } => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Invalid(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Conflict(_) => (StatusCode::CONFLICT, "Conflict"),
            Self::Unsupported(_) => (StatusCode::NOT_IMPLEMENTED, "NotImplemented"),
            Self::TooMany => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            Self::Timeout(_) => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        }
    }
}

impl From<ProviderError> for Refusal {
    fn from(error: ProviderError) -> Self {
        let text = error.to_string();
        match error.kind {
            ErrorKind::NotFound => Self::NotFound(text),
            ErrorKind::Invalid => Self::Invalid(text),
            ErrorKind::NameConflict | ErrorKind::IdentityConflict | ErrorKind::Precondition => {
                Self::Conflict(text)
            }
            ErrorKind::Unsupported => Self::Unsupported(text),
            ErrorKind::Timeout => Self::Timeout(text),
            _ => Self::Unavailable(text),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (code, reason) = self.code();
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.to_string(),
            "reason": reason,
            "code": code.as_u16(),
        });
        (code, Json(status)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_provider_says_becomes_the_nearest_code() {
        for (kind, code) in [
            (ErrorKind::NotFound, 404),
            (ErrorKind::Precondition, 409),
            (ErrorKind::Unsupported, 501),
            (ErrorKind::Timeout, 504),
            (ErrorKind::Unavailable, 503),
            (ErrorKind::Internal, 503),
        ] {
            let refusal = Refusal::from(ProviderError::new(kind, "why"));
            assert_eq!(refusal.code().0.as_u16(), code, "{kind:?}");
            assert!(refusal.to_string().contains("why"), "{refusal}");
        }
    }
}
