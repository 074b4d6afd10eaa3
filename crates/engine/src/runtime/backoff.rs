//! Pauses that grow with each failure in a row, with jitter so that many failures do not come back together.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::runtime::key::Key;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(300);

/// Counts failures in a row, by object.
#[derive(Default)]
pub struct Backoff {
    failures: Mutex<HashMap<Key, u32>>,
    random: RandomState,
}

impl Backoff {
    /// One more failure: how long to wait.
    pub fn failed(&self, key: &Key) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(key.clone()).or_insert(0);
        *count = count.saturating_add(1);
        pause(*count, self.random.hash_one((key, *count)))
    }

    /// No failure: the next one begins anew.
    pub fn succeeded(&self, key: &Key) {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }
}

/// Doubles from half a second to five minutes, less up to a quarter.
pub fn pause(failures: u32, random: u64) -> Duration {
    let doubled = FIRST.saturating_mul(
        1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX),
    );
    let full = doubled.min(LONGEST);
    full.mul_f64(1.0 - f64::from(u32::try_from(random % 256).unwrap_or(0)) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        assert_eq!(pause(1, 0), FIRST);
        assert_eq!(pause(2, 0), FIRST * 2);
        assert_eq!(pause(40, 0), LONGEST);
        assert!(pause(1, 255) >= FIRST.mul_f64(0.75));
    }
}
