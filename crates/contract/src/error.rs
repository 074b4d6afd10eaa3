//! Errors as data: the kind decides whether to retry, what the event is called and which metric counts it.

/// What went wrong, as far as the caller's next move depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The VM, task, image or snapshot is not there. A fact for the planner.
    NotFound,
    /// The request can never work as it is. Wait for a change of the object.
    Invalid,
    /// Something of that name is there and is not ours. Never touched, never taken over.
    NameConflict,
    /// The VM carries the identity of another object. Never touched, never taken over.
    IdentityConflict,
    /// The VM's present state forbids it (for example "must be off"). Plan again.
    Precondition,
    /// The provider cannot do this at all.
    Unsupported,
    /// The hypervisor refused our credentials.
    Unauthenticated,
    /// The hypervisor knows us and says no.
    PermissionDenied,
    /// No capacity or quota left, or too many requests: the field says which ([`ProviderError::blames_host`]).
    Exhausted,
    /// The provider or its hypervisor cannot be reached.
    Unavailable,
    /// No answer in time; the request may have been carried out.
    Timeout,
    /// The caller gave up.
    Cancelled,
    /// A defect or an unknown failure on the other side.
    Internal,
}

/// When to try the same request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Only after the object or something that it refers to has changed.
    OnChange,
    /// After a pause that grows.
    Backoff,
    /// At once, from fresh facts: what we believed was wrong.
    Replan,
}

impl ErrorKind {
    /// All kinds, for tables in tests and documentation.
    pub const ALL: [Self; 13] = [
        Self::NotFound,
        Self::Invalid,
        Self::NameConflict,
        Self::IdentityConflict,
        Self::Precondition,
        Self::Unsupported,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::Exhausted,
        Self::Unavailable,
        Self::Timeout,
        Self::Cancelled,
        Self::Internal,
    ];

    /// When the same request may be sent again.
    pub const fn retry(self) -> Retry {
        match self {
            Self::Invalid | Self::Unsupported | Self::NameConflict | Self::IdentityConflict => {
                Retry::OnChange
            }
            Self::NotFound | Self::Precondition => Retry::Replan,
            Self::Unauthenticated
            | Self::PermissionDenied
            | Self::Exhausted
            | Self::Unavailable
            | Self::Timeout
            | Self::Cancelled
            | Self::Internal => Retry::Backoff,
        }
    }

    /// Whether the request may have been carried out although it was answered with this error.
    pub const fn may_have_happened(self) -> bool {
        matches!(
            self,
            Self::Timeout | Self::Unavailable | Self::Cancelled | Self::Internal
        )
    }

    /// Whether the provider itself may never have answered: the request may still be on its way, or at work.
    pub const fn is_unanswered(self) -> bool {
        matches!(self, Self::Timeout | Self::Unavailable | Self::Cancelled)
    }

    /// Whether the failure speaks about the provider itself and not about one VM: the circuit breaker counts these.
    pub const fn blames_provider(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::Timeout | Self::Unauthenticated
        )
    }

    /// The word used as event reason, condition reason and metric label.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::Invalid => "InvalidRequest",
            Self::NameConflict => "NameConflict",
            Self::IdentityConflict => "IdentityConflict",
            Self::Precondition => "PreconditionFailed",
            Self::Unsupported => "UnsupportedByProvider",
            Self::Unauthenticated => "CredentialsRefused",
            Self::PermissionDenied => "PermissionDenied",
            Self::Exhausted => "CapacityExhausted",
            Self::Unavailable => "ProviderUnavailable",
            Self::Timeout => "ProviderTimeout",
            Self::Cancelled => "Cancelled",
            Self::Internal => "ProviderError",
        }
    }
}

/// The field at fault when a quota is used up: it is that of a namespace.
const QUOTA: &str = "metadata.namespace";
/// The field at fault when the provider cannot keep up.
const HASTE: &str = "spec.providerRef";

/// An error of a provider, the same in process and over the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What decides the next move.
    pub kind: ErrorKind,
    /// For a person: begins with a capital, says what to do, never holds a secret.
    pub message: String,
    /// The path of the field at fault, as in the user's manifest (`spec.disks[1].sizeGiB`), where one is.
    pub field: Option<String>,
}

impl ProviderError {
    /// An error of this kind with a text for a person.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            field: None,
        }
    }

    /// `what` is not there.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(ErrorKind::NotFound, format!("{what} does not exist"))
    }

    /// A field that can never work as it is.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Invalid,
            message: message.into(),
            field: Some(field.into()),
        }
    }

    /// Something this provider cannot do at all.
    pub fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::new(
            ErrorKind::Unsupported,
            format!("This provider does not support {what}"),
        )
    }

    /// The quota of the VM's namespace is used up, wherever the VM goes.
    #[must_use]
    pub fn of_quota(self) -> Self {
        self.at(QUOTA)
    }

    /// The provider asks for a pause, wherever the VM goes.
    #[must_use]
    pub fn of_haste(self) -> Self {
        self.at(HASTE)
    }

    /// Whether the host refused, so that another one may take the VM. One without capacity does; a quota, or too many requests, is
    /// no matter of hosts.
    pub fn blames_host(&self) -> bool {
        let field = self.field.as_deref();
        match self.kind {
            ErrorKind::Exhausted => !matches!(field, Some(QUOTA | HASTE)),
            ErrorKind::Invalid => field == Some("spec.placement.host"),
            _ => false,
        }
    }

    /// The error with the field at fault before it, for people. That a quota is of the namespace is said in words: an object
    /// cannot change that field.
    pub fn text(&self) -> String {
        match self.field.as_deref() {
            Some(QUOTA) => format!("Quota of the namespace: {}", self.message),
            Some(field) => format!("{field}: {}", self.message),
            None => self.message.clone(),
        }
    }

    /// Names the field at fault.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_host_that_refused_is_passed_over() {
        let of = |kind| ProviderError::new(kind, "No");
        for (error, blames) in [
            (of(ErrorKind::Exhausted), true),
            (of(ErrorKind::Exhausted).at("spec.resources.devices"), true),
            (of(ErrorKind::Exhausted).of_quota(), false),
            (of(ErrorKind::Exhausted).of_haste(), false),
            (of(ErrorKind::Invalid).at("spec.placement.host"), true),
            (of(ErrorKind::Invalid).at("spec.disks"), false),
            (of(ErrorKind::Unavailable), false),
        ] {
            assert_eq!(error.blames_host(), blames, "{error:?}");
        }
    }
}
