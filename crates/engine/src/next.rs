//! When an object is to be looked at again.

use std::time::Duration;

use polyvirt_contract::{ErrorKind, Retry};

use crate::cluster::ClusterError;

/// When an object is to be looked at again, if nothing wakes it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Not before something wakes it.
    Idle,
    /// After this time.
    After(Duration),
    /// After a pause that grows with each failure in a row.
    Backoff,
    /// After this pause, which an operation that failed has set itself.
    Retry(Duration),
}

/// The world outside may have changed without telling us: a name freed, a quota raised.
const WORLD_RECHECK: Duration = Duration::from_secs(300);

impl Next {
    /// What the kind of an error asks for.
    pub const fn after_error(kind: ErrorKind) -> Self {
        match (kind, kind.retry()) {
            (ErrorKind::NameConflict | ErrorKind::IdentityConflict, _) => {
                Self::After(WORLD_RECHECK)
            }
            (_, Retry::OnChange) => Self::Idle,
            (_, Retry::Backoff | Retry::Replan) => Self::Backoff,
        }
    }

    /// What a refusal of Kubernetes asks for. A conflict is cleared by the watch, which wakes us; the pause is for a watch
    /// that is slow.
    pub fn after_refusal(error: &ClusterError) -> Self {
        match error {
            ClusterError::NotFound | ClusterError::Invalid(_) => Self::Idle,
            ClusterError::Conflict
            | ClusterError::AlreadyExists
            | ClusterError::Forbidden(_)
            | ClusterError::Unavailable(_) => Self::Backoff,
        }
    }
}
