//! Tasks that nobody waits for, and what becomes of one that panics.
//!
//! A fault in our own code ends as little as possible: a pass that panics is tried again later, a session starts over. What
//! fills a cache cannot be started over, for nobody knows what it has missed: then the process ends, and the next one lists
//! everything anew. The program says where it panicked; who looks after the task says what follows.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::task::{JoinError, JoinSet};

use super::key::Key;
use crate::next::Next;

/// A task that the manager cannot do without has panicked.
#[derive(Debug, thiserror::Error)]
#[error(
    "A part of the manager without which it would not see all changes has failed: {0}. It ends, to be started anew; please report the lines above"
)]
pub struct Fallen(JoinError);

/// What a future that panicked had to say.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Panicked(String);

/// The tasks without which a manager would not see all changes.
#[derive(Default)]
pub struct Background(JoinSet<()>);

impl Background {
    /// Starts one.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }

    /// Waits until one panics; for ever, if none does. One that merely ends was at its end.
    pub async fn fallen(&mut self) -> Fallen {
        while let Some(ended) = self.0.join_next().await {
            if let Err(error) = ended {
                return Fallen(error);
            }
        }
        std::future::pending().await
    }

    /// Ends all that still run.
    pub async fn shutdown(mut self) {
        self.0.shutdown().await;
    }
}

/// The outcome of some work, or what it said when it panicked.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    ended.map_err(|told| Panicked(said(told.as_ref())))
}

/// What is to follow a pass over an object; one that panicked is tried again later.
pub async fn pass(key: &Key, work: impl Future<Output = Next>) -> Next {
    caught(work).await.unwrap_or_else(|panicked| {
        let (kind, object) = (key.kind.name(), &key.object);
        tracing::error!(kind, %object, %panicked, "a pass failed by a fault of ours; it is tried again later");
        Next::Backoff
    })
}

fn said(told: &(dyn Any + Send)) -> String {
    let text = told.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| told.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked and did not say why".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_noticed() {
        let mut background = Background::default();
        background.spawn(async {});
        background.spawn(std::future::pending());
        background.spawn(async { panic!("the cache is upside down") });

        let fallen = background.fallen().await.to_string();

        assert!(fallen.contains("the cache is upside down"), "{fallen}");
        background.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_end_are_no_fall() {
        let mut background = Background::default();
        background.spawn(async {});

        let fall = tokio::time::timeout(std::time::Duration::from_secs(60), background.fallen());

        assert!(fall.await.is_err());
    }

    #[tokio::test]
    async fn a_pass_that_panics_says_why() {
        let fine = caught(async { 7 }).await;
        let number = 8;
        let formatted = caught(async { panic!("{number} is not 7") }).await;

        assert_eq!(fine.ok(), Some(7));
        assert_eq!(
            formatted.map_err(|e: Panicked| e.to_string()),
            Err::<(), _>("8 is not 7".to_owned())
        );
    }
}
