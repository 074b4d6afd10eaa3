//! One promise, what it needs, and why it was not kept.

use std::fmt;

use futures::future::BoxFuture;
use polyvirt_contract::{Capabilities, ErrorKind, Extension, ProviderError};

use crate::lab::{Lab, Offered};
use crate::profile::{Expect, Profile};

/// Why a check did not come to a good end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// What was seen instead of what was promised.
    #[error("{0}")]
    Broken(String),
    /// The provider says that it does not do this at all.
    #[error("{0}")]
    NotOffered(String),
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::Broken(what.into())
    }

    /// For calls that no capability announces: to say `Unsupported` is an honest answer.
    pub(crate) fn unless_unsupported(error: ProviderError) -> Self {
        match error.kind {
            ErrorKind::Unsupported => Self::NotOffered(error.message),
            _ => error.into(),
        }
    }
}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Self {
        let field = error
            .field
            .map(|field| format!(" at {field}"))
            .unwrap_or_default();
        Self::Broken(format!("{:?}{field}: {}", error.kind, error.message))
    }
}

/// How a check ends.
pub(crate) type Checked<T = ()> = std::result::Result<T, Failure>;

/// Fails with the text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::check::Failure::Broken(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// What a check needs of a provider.
#[derive(Clone, Copy)]
pub enum Need {
    /// The full contract and not only `provider.v1`.
    Full,
    /// An extension.
    Extension(Extension),
    /// A capability, by its name.
    Capability(&'static str, fn(&Capabilities) -> bool),
    /// Fields of a VirtualMachine below this path, as far as the provider says which it honours.
    Fields(&'static str),
    /// Something that the profile gives, by its name.
    Given(&'static str, fn(&Profile) -> bool),
}

impl Need {
    /// Why the check is not applicable; `None` if it is.
    pub(crate) fn missing(&self, offered: &Offered, profile: &Profile) -> Option<String> {
        let (there, reason) = match self {
            Self::Full => (
                profile.expect == Expect::Full,
                "a provider.v1 server does not promise this".to_owned(),
            ),
            Self::Extension(extension) => (
                offered.features.has(*extension),
                format!(
                    "the provider does not offer the extension {}",
                    extension.name()
                ),
            ),
            Self::Capability(name, has) => (
                has(&offered.capabilities),
                format!("the provider does not say that it has {name}"),
            ),
            Self::Fields(path) => (
                honours(offered, path),
                format!("the provider says that it honours nothing of {path}"),
            ),
            Self::Given(name, given) => (given(profile), format!("the profile gives no {name}")),
        };
        (!there).then_some(reason)
    }
}

fn honours(offered: &Offered, path: &str) -> bool {
    let told = offered.features.honoured_fields.as_ref();
    told.is_none_or(|fields| fields.iter().any(|field| field.starts_with(path)))
}

impl fmt::Debug for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("Full"),
            Self::Extension(extension) => write!(f, "Extension({extension:?})"),
            Self::Capability(name, _) => write!(f, "Capability({name})"),
            Self::Fields(path) => write!(f, "Fields({path})"),
            Self::Given(name, _) => write!(f, "Given({name})"),
        }
    }
}

/// One promise of the contract.
#[derive(Clone)]
pub struct Check {
    /// A name to speak of it.
    pub name: &'static str,
    /// The promise.
    pub promise: &'static str,
    /// What it needs.
    pub needs: &'static [Need],
    pub(crate) run: fn(Lab) -> BoxFuture<'static, Checked>,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .field("needs", &self.needs)
            .finish_non_exhaustive()
    }
}

/// Names a check, its promise, its needs and the function that tries it.
macro_rules! check {
    ($name:literal, $promise:literal, $needs:expr, $run:path) => {
        $crate::check::Check {
            name: $name,
            promise: $promise,
            needs: $needs,
            run: |lab| Box::pin(async move { $run(&lab).await }),
        }
    };
}
pub(crate) use check;
