//! Numbers of traces and spans: different, and of no meaning.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

static SEEDS: LazyLock<[RandomState; 2]> =
    LazyLock::new(|| [RandomState::new(), RandomState::new()]);
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A span's number; never zero, which would mean none.
pub fn span() -> u64 {
    number(0).max(1)
}

/// A trace's number.
pub fn trace() -> u128 {
    (u128::from(number(0)) << 64 | u128::from(number(1))).max(1)
}

fn number(seed: usize) -> u64 {
    let next = COUNTER.fetch_add(1, Ordering::Relaxed);
    SEEDS[seed].hash_one(next)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_comes_twice() {
        let spans: HashSet<_> = (0..10_000).map(|_| span()).collect();
        let traces: HashSet<_> = (0..10_000).map(|_| trace()).collect();
        assert_eq!((spans.len(), traces.len()), (10_000, 10_000));
    }
}
