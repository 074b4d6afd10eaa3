//! Waiting until nothing happens any more.

use std::time::Duration;

use polyvirt_provider_mock::{Mock, Rpc};
use tokio::time::{Instant, sleep};

use super::world::{GLANCE, PATIENCE, World, eventually};

/// How long nothing must happen to be taken for rest: counts of users are written three seconds late.
const REST: Duration = Duration::from_millis(3500);

impl World {
    /// Waits until nobody has been looked at, and the provider has not been asked, for a while.
    pub async fn at_rest(&self, mock: &Mock) {
        let state = || (self.passes(), calls_but_health(mock));
        settled("it comes to rest", state).await;
    }
}

/// How many more times an object is reconciled before what has not happened is taken for something that does not happen.
const AGAIN: u32 = 3;

impl World {
    /// Returns when the VM was reconciled several more times, each time because of an edit that needs no action.
    pub async fn reconciled_again(&self, name: &str) {
        for number in 0..AGAIN {
            let before = self.passes_of("VirtualMachine");
            let note = format!("{number}");
            self.annotate(name, "example.com/reconcile-again", note)
                .await;
            let again = || self.passes_of("VirtualMachine") > before;
            eventually("it is reconciled again", again).await;
        }
    }
}

/// Waits until something has been the same for a while.
pub async fn settled<T: PartialEq>(what: &str, state: impl Fn() -> T) {
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut since) = (state(), Instant::now());
    while since.elapsed() < REST {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(GLANCE).await;
        let now = state();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// All calls but those that ask how the provider is.
pub fn calls_but_health(mock: &Mock) -> u64 {
    let counts = mock.counts();
    counts.calls() - counts.of(Rpc::Validate).calls
}
