//! How fast the memory of a guest is sent, and when the guest may be stopped for the rest of it. Pure.
//!
//! A source that sends as fast as it can fills all that lies between it and the target: its socket, the switches, the target's
//! socket. QEMU takes that for sent and stops the guest, which then stands still until the target has worked it off: 30 to 90 ms
//! were seen, as long as all the rest of the stop. So the end is sent at three quarters of what the way has shown to take, and what lies on
//! it has arrived before the guest is stopped.
//!
//! ```text
//!            much is left                   ends soon
//!   Gentle ───────────────► Open ◄───────────────────────► Closing
//!      │                      ▲     much in a new pass        ▲
//!      │ the way takes less   │ three passes were in vain  │
//!      └──────────────────────┼───────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

/// The speed with which a move begins, and all of a small guest is sent, in bytes a second. It is what QEMU allows by itself.
const GENTLE: u64 = 128 << 20;
/// A guest with less than this is small: it is sent gently in four seconds.
const SMALL: u64 = 4 * GENTLE;
/// The least that a move is slowed down to.
const LEAST: u64 = 1 << 20;
/// What is left for less than this ends soon, in milliseconds: longer than between two looks, so that the end is not missed.
const SOON: u64 = 1500;
/// Rates over a shorter time are chance.
const SHORTEST: Duration = Duration::from_millis(100);
/// After so many passes in vain a guest is hard to catch up with, and nothing is held back any more.
const ENOUGH: u64 = 3;

/// For how long memory may still be sent when the guest is stopped, by the passes that were in vain: after which hardly less was
/// left than before. QEMU allows 300 ms by itself, and a guest on a fast link is then stopped with half of its memory still to
/// come.
const AIMS: [(u64, Duration); 3] = [
    (0, Duration::from_millis(20)),
    (ENOUGH, Duration::from_millis(100)),
    (2 * ENOUGH, Duration::from_millis(300)),
];

/// What to aim at after so many passes in vain.
fn aim_after(vain: u64) -> Duration {
    let due = AIMS.iter().rev().find(|(after, _)| vain >= *after);
    due.map_or(AIMS[0].1, |(_, aim)| *aim)
}

/// What QEMU is to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Bytes a second; as fast as it can if absent.
    pub speed: Option<u64>,
    /// For how long memory may still be sent when the guest is stopped.
    pub downtime: Duration,
}

/// How far memory is, when somebody looked.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// When.
    pub at: Instant,
    /// The pass over the memory that is under way, from 1.
    pub pass: u64,
    /// Bytes of memory that this pass has not come to.
    pub left: u64,
    /// Bytes that were sent in all.
    pub sent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gear {
    Gentle,
    Open,
    /// At that speed, for the rest of that pass.
    Closing {
        speed: u64,
        pass: u64,
    },
}

/// The speed of one move.
#[derive(Debug)]
pub struct Pace {
    /// What somebody allows at most, in bytes a second.
    allowed: Option<u64>,
    gear: Gear,
    /// The most that the way was seen to take, in bytes a second.
    best: u64,
    /// The pass that is under way, with what was left of it at first.
    pass: (u64, u64),
    /// Passes in vain.
    vain: u64,
    /// The last look, and the gear of the time before it.
    last: Option<(Look, Option<Gear>)>,
}

impl Pace {
    /// That of a move that begins, which may be as fast as this.
    pub const fn new(allowed: Option<u64>) -> Self {
        Self {
            allowed,
            gear: Gear::Gentle,
            best: 0,
            pass: (0, u64::MAX),
            vain: 0,
            last: None,
        }
    }

    /// What to begin with.
    pub fn begin(&self) -> Terms {
        self.terms()
    }

    /// What to keep to from here on.
    pub fn after(&mut self, look: Look) -> Terms {
        let passed = self.measure(&look);
        self.count(&look);
        self.gear = self.shift(&look, passed);
        self.terms()
    }

    fn terms(&self) -> Terms {
        Terms {
            speed: self.speed(),
            downtime: aim_after(self.vain),
        }
    }

    /// Passes that nobody has looked at were like the one that is.
    fn count(&mut self, look: &Look) {
        let (pass, left) = self.pass;
        if look.pass <= pass {
            return;
        }
        if look.left >= left / 4 * 3 {
            self.vain += look.pass - pass;
        }
        self.pass = (look.pass, look.left);
    }

    fn speed(&self) -> Option<u64> {
        let geared = match self.gear {
            Gear::Gentle => Some(GENTLE),
            Gear::Open => None,
            Gear::Closing { speed, .. } => Some(speed),
        };
        geared.into_iter().chain(self.allowed).min()
    }

    /// Takes in what was sent since the last look. Bytes of memory that were passed in a second of it, sent or not: pages that
    /// hold nothing are not.
    fn measure(&mut self, look: &Look) -> u64 {
        let Some((last, gear)) = self.last.filter(|(last, _)| last.sent <= look.sent) else {
            self.last = Some((*look, None));
            return 0;
        };
        let time = look.at.saturating_duration_since(last.at);
        if time < SHORTEST {
            return 0;
        }
        self.last = Some((*look, Some(self.gear)));
        // What goes first in a gear only fills the way.
        if gear == Some(self.gear) {
            self.best = self.best.max(by_second(look.sent - last.sent, time));
        }
        if last.pass != look.pass {
            return 0;
        }
        by_second(last.left.saturating_sub(look.left), time)
    }

    fn shift(&self, look: &Look, passed: u64) -> Gear {
        let closes = Gear::Closing {
            speed: (self.best / 4 * 3).max(LEAST),
            pass: look.pass,
        };
        match self.gear {
            _ if self.vain >= ENOUGH => Gear::Open,
            Gear::Closing { pass, .. } if pass == look.pass => self.gear,
            Gear::Gentle if look.left > SMALL => Gear::Open,
            Gear::Gentle | Gear::Open if !self.is_backed_up() => self.gear,
            _ if self.ends_soon(look.left, passed) => closes,
            Gear::Closing { .. } => Gear::Open,
            gear => gear,
        }
    }

    /// Whether the way takes less than it is given, so that the rest lies on it.
    fn is_backed_up(&self) -> bool {
        let full = |given: u64| self.best < given - given / 10;
        self.best > 0 && self.speed().is_none_or(full)
    }

    /// By what is passed in a second. That tells little of pages to come that do hold something, so those are counted, too.
    fn ends_soon(&self, left: u64, passed: u64) -> bool {
        let whole = self.best.saturating_mul(2);
        left <= passed.max(self.best).min(whole).saturating_mul(SOON) / 1000
    }
}

fn by_second(bytes: u64, time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    bytes.saturating_mul(1000) / millis
}

#[cfg(test)]
mod tests;
