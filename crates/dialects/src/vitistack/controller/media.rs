//! How big installation media are. Their servers are asked in the background, once each, and a Machine goes on when one has told
//! or has not told in time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use polyvirt_disks::fetch::{Fetcher, Options, Reach, Source};
use polyvirt_engine::runtime::key::{Kind, ObjectKey};
use polyvirt_engine::runtime::queue::Urgency;
use tokio::sync::mpsc;

use super::Controller;

/// How long a server may take to tell.
const PATIENCE: Duration = Duration::from_secs(10);
/// Servers that are asked at the same time.
const AT_ONCE: usize = 4;
/// Questions that wait.
const WAITING: usize = 1024;
/// Answers that are remembered: they are written down with the VM, so one is needed once.
const REMEMBERED: usize = 4096;

/// A question, and who wants to know.
pub(super) type Question = (String, ObjectKey);

/// What is known of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// Its server is being asked; the Machine is woken.
    Asked,
    /// Its server has told, or will not.
    Known(Option<u64>),
}

/// What is known of media.
pub(super) struct Media {
    known: Mutex<HashMap<String, Size>>,
    questions: mpsc::Sender<Question>,
    waiting: Mutex<Option<mpsc::Receiver<Question>>>,
}

impl Default for Media {
    fn default() -> Self {
        let (questions, waiting) = mpsc::channel(WAITING);
        Self {
            known: Mutex::default(),
            questions,
            waiting: Mutex::new(Some(waiting)),
        }
    }
}

impl Media {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Size>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known; whoever asks first has the server asked. With too many questions nobody waits.
    pub(super) fn look(&self, url: &str, machine: &ObjectKey) -> Size {
        let mut known = self.known();
        if let Some(Size::Known(size)) = known.get(url) {
            return Size::Known(*size);
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, size| *size == Size::Asked);
        }
        match self.questions.try_send((url.to_owned(), machine.clone())) {
            Ok(()) => *known.entry(url.to_owned()).or_insert(Size::Asked),
            Err(_) => Size::Known(None),
        }
    }

    fn answered(&self, url: String, size: Option<u64>) {
        self.known().insert(url, Size::Known(size));
    }
}

impl Controller {
    /// Asks servers until the controller goes.
    pub(super) async fn ask_servers(self: Arc<Self>) {
        let waiting = self.media.waiting.lock().ok().and_then(|mut w| w.take());
        let (Some(mut waiting), Some(fetcher)) = (waiting, fetcher(self.settings.media)) else {
            return;
        };
        let (me, fetcher) = (&self, &fetcher);
        stream::poll_fn(|context| waiting.poll_recv(context))
            .for_each_concurrent(AT_ONCE, |(url, machine)| async move {
                me.ask_server(fetcher, url, &machine).await;
            })
            .await;
    }

    async fn ask_server(&self, fetcher: &Fetcher, url: String, machine: &ObjectKey) {
        let known = self.media.known().get(&url).copied();
        if !matches!(known, Some(Size::Known(_))) {
            let size = match Source::parse(&url) {
                Ok(source) => fetcher.size(&source, PATIENCE).await,
                Err(_) => None,
            };
            self.media.answered(url, size);
        }
        self.wake(Kind::Machine, machine, Urgency::Event);
    }
}

/// Without one, questions stay unanswered; then nobody may wait for answers.
fn fetcher(reach: Reach) -> Option<Fetcher> {
    let options = Options {
        connect_timeout: PATIENCE,
        reach,
        ..Options::default()
    };
    Fetcher::new(options)
        .inspect_err(
            |error| tracing::warn!(%error, "servers of media cannot be asked how big they are"),
        )
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medium_is_asked_for_until_somebody_has_answered() {
        let (media, key) = (Media::default(), ObjectKey::new("a", "b"));
        assert_eq!(media.look("http://x/y", &key), Size::Asked);
        assert_eq!(media.look("http://x/y", &key), Size::Asked);
        media.answered("http://x/y".to_owned(), Some(7));
        assert_eq!(media.look("http://x/y", &key), Size::Known(Some(7)));
    }

    #[test]
    fn nobody_waits_where_nobody_asks() {
        let (media, key) = (Media::default(), ObjectKey::new("a", "b"));
        *media.waiting.lock().unwrap() = None;
        assert_eq!(media.look("http://x/y", &key), Size::Known(None));
    }
}
