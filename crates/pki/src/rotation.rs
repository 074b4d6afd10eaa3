//! When a CA is replaced and a certificate renewed. Pure.
//!
//! ```text
//!   alone ──2/3 of its life──► next one trusted ──spread──► next one signs ──life of a leaf──► alone
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::authority::Validity;

/// An authority that would expire before its rotation is over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "An authority that is valid for {authority:?} expires before what it signed is renewed: give it {least:?} or more"
)]
pub struct TooShort {
    authority: Duration,
    least: Duration,
}

/// How long certificates live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// A CA.
    pub authority: Duration,
    /// A certificate that it signs.
    pub leaf: Duration,
    /// The time in which everybody hears of a change of a Secret.
    pub spread: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Lifetimes {
    fn default() -> Self {
        Self::of_leaf(DAY * 90)
    }
}

impl Lifetimes {
    /// All of them in proportion to that of a leaf: a CA lives twenty times as long.
    pub fn of_leaf(leaf: Duration) -> Self {
        Self {
            authority: leaf * 20,
            leaf,
            spread: (leaf / 10).min(Duration::from_secs(3600)),
        }
    }

    /// With a CA that lives so long: in the last third of its life there must be time for its rotation.
    pub fn with_authority(self, authority: Duration) -> Result<Self, TooShort> {
        let least = (self.spread + self.leaf) * 3;
        if authority < least {
            return Err(TooShort { authority, least });
        }
        Ok(Self { authority, ..self })
    }

    /// A CA that begins now.
    pub fn authority_from(&self, now: Timestamp) -> Validity {
        span(now, self.authority)
    }

    /// A leaf that begins now.
    pub fn leaf_from(&self, now: Timestamp) -> Validity {
        span(now, self.leaf)
    }

    /// When a leaf that is valid until then is to be renewed: with a third of its life left.
    pub fn renewal(&self, until: Timestamp) -> Timestamp {
        until
            .checked_sub(signed(self.leaf / 3))
            .unwrap_or(Timestamp::MIN)
    }
}

/// Where a rotation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// One CA.
    Alone {
        /// Until when it is valid.
        until: Timestamp,
    },
    /// The next one is trusted, and does not sign yet.
    Prepared {
        /// Since when.
        since: Timestamp,
    },
    /// It signs. The last one is still trusted.
    Switched {
        /// Since when.
        since: Timestamp,
    },
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nothing before this moment.
    Wait(Timestamp),
    /// Make the next CA and have it trusted.
    Prepare,
    /// Let it sign.
    Switch,
    /// Forget the last one.
    Forget,
}

/// The next move of a rotation.
pub fn next(stage: Stage, lifetimes: &Lifetimes, now: Timestamp) -> Move {
    let (due, then) = match stage {
        Stage::Alone { until } => (back(until, lifetimes.authority / 3), Move::Prepare),
        Stage::Prepared { since } => (ahead(since, lifetimes.spread), Move::Switch),
        // By then each certificate of the last one has been renewed, or has expired.
        Stage::Switched { since } => (ahead(since, lifetimes.leaf), Move::Forget),
    };
    if now < due { Move::Wait(due) } else { then }
}

fn span(now: Timestamp, length: Duration) -> Validity {
    Validity {
        from: now,
        until: ahead(now, length),
    }
}

fn ahead(from: Timestamp, by: Duration) -> Timestamp {
    from.checked_add(signed(by)).unwrap_or(Timestamp::MAX)
}

fn back(from: Timestamp, by: Duration) -> Timestamp {
    from.checked_sub(signed(by)).unwrap_or(Timestamp::MIN)
}

fn signed(length: Duration) -> SignedDuration {
    SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    #[test]
    fn a_rotation_goes_through_its_stages_in_time() {
        let lifetimes = Lifetimes {
            authority: Duration::from_secs(300),
            leaf: Duration::from_secs(60),
            spread: Duration::from_secs(5),
        };
        let next = |stage, now| next(stage, &lifetimes, at(now));
        let alone = Stage::Alone { until: at(300) };
        assert_eq!(next(alone, 0), Move::Wait(at(200)));
        assert_eq!(next(alone, 200), Move::Prepare);
        assert_eq!(next(alone, 1000), Move::Prepare);
        let prepared = Stage::Prepared { since: at(200) };
        assert_eq!(next(prepared, 204), Move::Wait(at(205)));
        assert_eq!(next(prepared, 205), Move::Switch);
        let switched = Stage::Switched { since: at(205) };
        assert_eq!(next(switched, 264), Move::Wait(at(265)));
        assert_eq!(next(switched, 265), Move::Forget);
        assert_eq!(lifetimes.renewal(at(60)), at(40));
    }

    #[test]
    fn a_rotation_is_over_before_the_authority_expires() {
        for leaf in [DAY * 90, Duration::from_secs(60)] {
            let lifetimes = Lifetimes::of_leaf(leaf);
            let takes = lifetimes.spread + lifetimes.leaf;
            assert!(takes < lifetimes.authority / 3, "{lifetimes:?}");
            let least = takes * 3;
            let shortest = lifetimes.with_authority(least);
            assert_eq!(shortest.map(|l| l.authority), Ok(least));
            let authority = least.saturating_sub(Duration::from_secs(1));
            let refused = lifetimes.with_authority(authority);
            assert_eq!(refused, Err(TooShort { authority, least }));
        }
    }
}
