//! Which events were told lately, so that a repeat becomes a count and not another object. It keeps a few bytes an event.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// A repeat within this time belongs to the series.
pub const SERIES: Duration = Duration::from_secs(6 * 60);
/// Old entries are looked for at most this often.
const SWEEP: Duration = Duration::from_secs(30);
/// More than can be told in a series' time; beyond it, a repeat is told as if it were new.
const MOST: usize = 65_536;

/// How an event is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Tells this series from all others; part of the event's name.
    pub series: u64,
    /// How often it was told, this time included.
    pub count: i32,
}

struct Told {
    telling: Telling,
    last: Instant,
}

/// What was told lately.
pub struct Repeats {
    told: HashMap<u64, Told>,
    random: RandomState,
    swept: Instant,
}

impl Repeats {
    /// Nothing was told yet.
    pub fn new(now: Instant) -> Self {
        Self {
            told: HashMap::new(),
            random: RandomState::new(),
            swept: now,
        }
    }

    /// Takes note that this event is told now. A new series gets the number that is given.
    pub fn tell(&mut self, event: &impl Hash, now: Instant, new_series: u64) -> Telling {
        self.sweep(now);
        let key = self.random.hash_one(event);
        let before = self
            .told
            .get(&key)
            .filter(|told| now.duration_since(told.last) < SERIES);
        let telling = match before {
            Some(told) => Telling {
                count: told.telling.count.saturating_add(1),
                ..told.telling
            },
            None => Telling {
                series: new_series,
                count: 1,
            },
        };
        self.told.insert(key, Told { telling, last: now });
        telling
    }

    /// The event was told before, by another process: this time it is told for the `count`th time.
    pub fn continued(&mut self, event: &impl Hash, count: i32) {
        if let Some(told) = self.told.get_mut(&self.random.hash_one(event)) {
            told.telling.count = count;
        }
    }

    /// The event could not be told: the next one begins anew.
    pub fn forget(&mut self, event: &impl Hash) {
        self.told.remove(&self.random.hash_one(event));
    }

    fn sweep(&mut self, now: Instant) {
        if self.told.len() >= MOST {
            self.told.clear();
        }
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.told
                .retain(|_, told| now.duration_since(told.last) < SERIES);
            self.told.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_is_counted_until_its_time_is_over() {
        let begin = Instant::now();
        let mut repeats = Repeats::new(begin);
        assert_eq!(
            repeats.tell(&"a", begin, 1),
            Telling {
                series: 1,
                count: 1
            }
        );
        assert_eq!(
            repeats.tell(&"a", begin + Duration::from_secs(60), 2),
            Telling {
                series: 1,
                count: 2
            }
        );
        assert_eq!(
            repeats.tell(&"b", begin, 3),
            Telling {
                series: 3,
                count: 1
            }
        );
        let later = begin + Duration::from_secs(60) + SERIES;
        assert_eq!(
            repeats.tell(&"a", later, 4),
            Telling {
                series: 4,
                count: 1
            }
        );
        assert_eq!(repeats.told.len(), 1, "what is over is not kept");
    }

    #[test]
    fn what_could_not_be_told_begins_anew() {
        let now = Instant::now();
        let mut repeats = Repeats::new(now);
        repeats.tell(&"a", now, 1);
        repeats.forget(&"a");
        assert_eq!(
            repeats.tell(&"a", now, 2),
            Telling {
                series: 2,
                count: 1
            }
        );
    }

    #[test]
    fn the_memory_is_bounded() {
        let now = Instant::now();
        let mut repeats = Repeats::new(now);
        for number in 0..=MOST {
            repeats.tell(&number, now, 0);
        }
        assert!(repeats.told.len() <= MOST);
    }
}
