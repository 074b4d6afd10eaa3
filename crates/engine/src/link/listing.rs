//! One list of VMs for all who wait for one.
//!
//! On a provider without extensions every create asks whether its name is free, and only the whole list can tell. A list that began
//! after the question was asked answers it, whoever began it; so however many wait, one list serves them.

use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use polyvirt_contract::model::VmState;
use polyvirt_contract::provider::Result;
use tokio::sync::Mutex;

use crate::context::Clock;

/// A list of VMs, and when it was asked for.
#[derive(Clone, Debug)]
pub struct Listed {
    /// When the provider was asked: the list is the truth of no earlier moment.
    pub begun: Timestamp,
    /// The VMs.
    pub vms: Arc<Vec<VmState>>,
}

/// The last list of a provider.
#[derive(Debug, Default)]
pub struct Listing {
    last: Mutex<Option<Listed>>,
}

impl Listing {
    /// A list that began after this call. Fails as `list` fails; then the next who waits asks again.
    pub async fn fresh(
        &self,
        clock: &Clock,
        list: impl Future<Output = Result<Vec<VmState>>>,
    ) -> Result<Listed> {
        let asked = clock();
        // Held while the provider is asked: those who come meanwhile wait for the next list, and share it.
        let mut known = self.last.lock().await;
        // Not "at or after": within one tick of the clock nobody knows which came first.
        if let Some(listed) = known.as_ref().filter(|listed| listed.begun > asked) {
            return Ok(listed.clone());
        }
        let begun = clock();
        let vms = Arc::new(list.await?);
        Ok(known.insert(Listed { begun, vms }).clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn one_list_serves_all_who_wait() {
        let (listing, asked) = (Listing::default(), AtomicUsize::new(0));
        let clock: Clock = Arc::new(Timestamp::now);
        let list = || async {
            asked.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(vec![VmState::default()])
        };
        let answers = join_all((0..100).map(|_| listing.fresh(&clock, list()))).await;
        assert!(
            answers
                .iter()
                .all(|a| a.as_ref().is_ok_and(|l| l.vms.len() == 1))
        );
        let lists = asked.load(Ordering::SeqCst);
        assert!(
            lists <= 2,
            "{lists} lists for 100 questions asked at the same time"
        );
    }

    #[tokio::test]
    async fn no_list_is_older_than_its_question() {
        let listing = Listing::default();
        let clock: Clock = Arc::new(Timestamp::now);
        for n in 0..3 {
            let vms = vec![VmState::default(); n];
            let listed = listing.fresh(&clock, async { Ok(vms) }).await;
            assert_eq!(listed.map(|l| l.vms.len()), Ok(n));
        }
    }
}
