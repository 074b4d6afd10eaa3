//! What providers have, asked for once for all who wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use jiff::Timestamp;
use polyvirt_contract::model::Inventory;
use polyvirt_contract::{ErrorKind, Provider, ProviderError, VmId};

use crate::link::Link;
use crate::runtime::key::ObjectKey;
use crate::virtual_machine::reach::Ready;

/// How long a provider may take to tell what it has.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a provider had at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// When it was asked.
    pub asked: Timestamp,
    /// What it answered.
    pub inventory: Inventory,
    /// VMs that were there when it was asked, so that their disks are in its figures, each with the host in whose figures its CPUs
    /// and memory are; empty if it was off.
    pub counted: HashMap<VmId, String>,
}

type Answer = Shared<BoxFuture<'static, Result<Arc<Snapshot>, ProviderError>>>;

/// The last answer of each provider, or the one that is on its way.
#[derive(Default)]
pub(super) struct Snapshots(Mutex<HashMap<ObjectKey, (Timestamp, Answer)>>);

impl Snapshots {
    pub(super) async fn get(
        &self,
        ready: &Ready,
        now: Timestamp,
        oldest: Timestamp,
    ) -> Result<Arc<Snapshot>, ProviderError> {
        let result = self.answer(ready, now, oldest).await;
        if result.is_err() {
            self.forget(&ready.link.key);
        }
        result
    }

    /// One question at a time: whoever comes while it is on its way waits for the same answer.
    fn answer(&self, ready: &Ready, now: Timestamp, oldest: Timestamp) -> Answer {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((asked, answer)) = known.get(&ready.link.key)
            && *asked >= oldest
        {
            return answer.clone();
        }
        let answer = ask(ready, now);
        known.insert(ready.link.key.clone(), (now, answer.clone()));
        answer
    }

    pub(super) fn forget(&self, provider: &ObjectKey) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(provider);
    }
}

fn ask(ready: &Ready, asked: Timestamp) -> Answer {
    let (provider, link) = (ready.provider.clone(), ready.link.clone());
    fetch(provider, link, asked).boxed().shared()
}

async fn fetch(
    provider: Arc<dyn Provider>,
    link: Arc<Link>,
    asked: Timestamp,
) -> Result<Arc<Snapshot>, ProviderError> {
    let counted = link.seen(|seen| seen.in_memory());
    let inventory = tokio::time::timeout(PATIENCE, provider.inventory()).await;
    Ok(Arc::new(Snapshot {
        asked,
        inventory: inventory.unwrap_or_else(|_| Err(late()))?,
        counted,
    }))
}

fn late() -> ProviderError {
    let text = "The provider did not tell in time what its hosts have; it is asked again";
    ProviderError::new(ErrorKind::Timeout, text)
}
