//! How many calls a provider gets in a second, if its object sets a limit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use polyvirt_api::infra::RateLimit;
use tokio::time::Instant;

/// A bucket of calls. Whoever finds it empty is told when the next one is theirs, so nobody overtakes.
#[derive(Debug)]
pub struct Rate {
    per_second: f64,
    burst: f64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Below zero: calls that are promised.
    calls: f64,
    filled: Instant,
}

impl Rate {
    /// A full bucket.
    pub fn new(limit: &RateLimit, now: Instant) -> Self {
        let burst = f64::from(limit.burst.max(1));
        Self {
            per_second: f64::from(limit.qps.max(1)),
            burst,
            bucket: Mutex::new(Bucket {
                calls: burst,
                filled: now,
            }),
        }
    }

    /// Takes a call, and tells how long to wait before it is made.
    pub fn take(&self, now: Instant) -> Duration {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.calls = passed
            .mul_add(self.per_second, bucket.calls)
            .min(self.burst)
            - 1.0;
        bucket.filled = now;
        Duration::from_secs_f64((-bucket.calls).max(0.0) / self.per_second)
    }

    /// Waits for a turn.
    pub async fn turn(&self) {
        let wait = self.take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_through_and_the_rest_waits_its_turn() {
        let begin = Instant::now();
        let rate = Rate::new(&RateLimit { qps: 10, burst: 3 }, begin);
        let waits: Vec<_> = (0..5).map(|_| rate.take(begin).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = begin + Duration::from_secs(1);
        assert_eq!(rate.take(later).as_millis(), 0);
    }

    #[test]
    fn a_pause_saves_up_no_more_than_a_burst() {
        let begin = Instant::now();
        let rate = Rate::new(&RateLimit { qps: 100, burst: 2 }, begin);
        let later = begin + Duration::from_secs(3600);
        let waits: Vec<_> = (0..3).map(|_| rate.take(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 10]);
    }
}
