//! How a Provider is reached, and what is known of the place where its code runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
use polyvirt_api::infra::{Provider, RuntimeMode};
use polyvirt_plan::Problem;

use crate::link::session::Connector;
use crate::runtime::key::ObjectKey;

/// Decides how a Provider is reached: in process, at an address, in pods that it makes for it, …
#[async_trait]
pub trait Runtime: Send + Sync {
    /// Makes sure that the Provider's code runs where it is to run, and says how to get there.
    async fn way(&self, provider: &Provider) -> Result<Way, NoWay>;

    /// The Provider is gone.
    async fn forget(&self, _provider: &ObjectKey) {}

    /// Providers of whose place there is something new to know. Asked for once.
    fn news(&self) -> BoxStream<'static, ObjectKey> {
        stream::pending().boxed()
    }
}

/// Why there is no way to a Provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWay {
    /// It has none as it is written: what runs for it ends.
    #[error("{0}")]
    Wrong(Problem),
    /// It could not be found out just now: what runs for it goes on, and the question is asked again soon.
    #[error("{0}")]
    Unknown(Problem),
}

impl NoWay {
    /// What to tell people.
    pub const fn problem(&self) -> &Problem {
        match self {
            Self::Wrong(problem) | Self::Unknown(problem) => problem,
        }
    }
}

impl From<Problem> for NoWay {
    fn from(problem: Problem) -> Self {
        Self::Wrong(problem)
    }
}

/// How a Provider is reached.
pub struct Way {
    /// Connects.
    pub connector: Arc<dyn Connector>,
    /// Changes exactly when the session must be made anew.
    pub made_from: String,
    /// Where its code runs.
    pub place: Place,
}

/// Where a Provider's code runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Where, in one word; `None` if it is what the object says.
    pub mode: Option<RuntimeMode>,
    /// The address at which it is called.
    pub endpoint: Option<String>,
    /// The Service in front of its pods.
    pub service: Option<String>,
    /// Its pods, if it has any.
    pub pods: Option<Pods>,
    /// What protects the way there.
    pub security: Security,
    /// When to look after it again, though nothing has changed.
    pub look_again: Option<Duration>,
}

/// The pods of a Provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pods {
    /// That are to be.
    pub wanted: i32,
    /// That answer.
    pub ready: i32,
    /// That have answered for a while.
    pub available: i32,
    /// Why one of them does not.
    pub trouble: Option<String>,
}

/// What protects the way to a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// There is no way: it is in this process.
    #[default]
    Inside,
    /// Certificates of the manager's own authority, on both sides.
    Own,
    /// Certificates of a Secret, on both sides.
    Secret(String),
    /// Certificates of a Secret, but the provider's is not looked at.
    Unverified,
    /// Nothing.
    Plain,
}
