//! Every lie a real hypervisor tells, on demand: errors, lost replies, silence, slow answers, a watch stream that stutters.
//!
//! A [`Rule`] says what happens to which call and how often. Rules are asked in the order in which they were added and the
//! first that fires decides. All chance comes from one seeded generator, so a run can be had again. `describe` is never
//! stale: a fault may hide an answer, but an answer that is given is true.

mod parse;

use std::time::Duration;

use polyvirt_contract::{ErrorKind, ProviderError};

use crate::rng::Rng;
use crate::rpc::Rpc;

pub use parse::FaultError;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Refused with this error; nothing was done.
    Fail(ErrorKind),
    /// Done, but answered with this error.
    LoseReply(ErrorKind),
    /// Never arrived; answered with `Timeout`, nothing was done.
    DropRequest,
    /// Never answered and never done: the call ends when the caller gives up.
    Hang,
    /// Done; then the provider's process dies and starts anew: tasks in flight and watch streams are lost.
    Crash,
}

/// What happens to a message of the watch stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stutter {
    /// It comes twice.
    Duplicate,
    /// It comes this much later.
    Late(Duration),
    /// It is overtaken by others, within a tenth of a second.
    Reorder,
    /// It is the last: all streams end with an error behind it.
    Break,
}

/// How often a rule fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Often {
    /// Whenever it fits.
    Always,
    /// The next so many times.
    Times(u32),
    /// With this chance, in parts per million.
    Chance(u32),
}

/// How long an answer takes beyond the work itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// At least.
    pub min: Duration,
    /// At most.
    pub max: Duration,
}

impl Latency {
    /// Always the same.
    pub const fn fixed(duration: Duration) -> Self {
        Self {
            min: duration,
            max: duration,
        }
    }

    fn draw(self, rng: &mut Rng) -> Duration {
        let spread = self.max.saturating_sub(self.min);
        if spread.is_zero() {
            return self.min;
        }
        let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
        self.min + Duration::from_nanos(rng.below(nanos.saturating_add(1)))
    }
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A call goes wrong.
    Call {
        /// Which call; `None` for any.
        rpc: Option<Rpc>,
        /// What happens.
        effect: Effect,
        /// How often.
        often: Often,
    },
    /// A message of the watch stream goes wrong.
    Watch {
        /// What happens.
        stutter: Stutter,
        /// How often.
        often: Often,
    },
    /// A task is forgotten when it ends: its work is done, nobody is told, `task_status` knows nothing of it.
    ForgetTask(Often),
    /// A create takes the name, fails and leaves the VM half created; the next create completes it.
    HalfCreate(Often),
    /// Answers take time. The last such rule holds.
    Latency(Latency),
}

impl Rule {
    /// A call that fails.
    pub const fn fail(rpc: Rpc, kind: ErrorKind, often: Often) -> Self {
        Self::call(rpc, Effect::Fail(kind), often)
    }

    /// A call that is carried out and whose answer is lost.
    pub const fn lose(rpc: Rpc, often: Often) -> Self {
        Self::call(rpc, Effect::LoseReply(ErrorKind::Unavailable), often)
    }

    /// A call that goes wrong in this way.
    pub const fn call(rpc: Rpc, effect: Effect, often: Often) -> Self {
        Self::Call {
            rpc: Some(rpc),
            effect,
            often,
        }
    }
}

/// What was decided for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) latency: Duration,
    pub(crate) effect: Option<Effect>,
}

/// The rules in force and their generator.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<Rule>,
    latency: Latency,
    rng: Rng,
}

impl Faults {
    pub(crate) fn new(seed: u64, rules: &[Rule]) -> Self {
        let mut faults = Self {
            rules: Vec::new(),
            latency: Latency::default(),
            rng: Rng::new(seed),
        };
        for rule in rules {
            faults.add(*rule);
        }
        faults
    }

    pub(crate) fn add(&mut self, rule: Rule) {
        match rule {
            Rule::Latency(latency) => self.latency = latency,
            rule => self.rules.push(rule),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
        self.latency = Latency::default();
    }

    /// What happens to a call that arrives now.
    pub(crate) fn decide(&mut self, rpc: Rpc) -> Decision {
        let latency = self.latency.draw(&mut self.rng);
        let effect = self.fire(|rule| match rule {
            Rule::Call {
                rpc: r,
                effect,
                often,
            } if r.is_none_or(|r| r == rpc) => Some((*effect, often)),
            _ => None,
        });
        Decision { latency, effect }
    }

    /// What happens to a watch message that is sent now.
    pub(crate) fn stutter(&mut self) -> Option<Stutter> {
        let stutter = self.fire(|rule| match rule {
            Rule::Watch { stutter, often } => Some((*stutter, often)),
            _ => None,
        })?;
        Some(match stutter {
            Stutter::Reorder => Stutter::Late(Duration::from_millis(1 + self.rng.below(100))),
            other => other,
        })
    }

    /// Whether a task that ends now is forgotten.
    pub(crate) fn forgets_task(&mut self) -> bool {
        self.fire(|rule| match rule {
            Rule::ForgetTask(often) => Some(((), often)),
            _ => None,
        })
        .is_some()
    }

    /// Whether a create that is carried out now leaves its VM half created.
    pub(crate) fn leaves_half(&mut self) -> bool {
        self.fire(|rule| match rule {
            Rule::HalfCreate(often) => Some(((), often)),
            _ => None,
        })
        .is_some()
    }

    fn fire<T>(&mut self, fits: impl Fn(&mut Rule) -> Option<(T, &mut Often)>) -> Option<T> {
        let rng = &mut self.rng;
        let mut fired = None;
        self.rules.retain_mut(|rule| {
            if fired.is_some() {
                return true;
            }
            let Some((what, often)) = fits(rule) else {
                return true;
            };
            if happens(often, rng) {
                fired = Some(what);
            }
            *often != Often::Times(0)
        });
        fired
    }
}

fn happens(often: &mut Often, rng: &mut Rng) -> bool {
    match often {
        Often::Always => true,
        Often::Times(0) => false,
        Often::Times(left) => {
            *left -= 1;
            true
        }
        Often::Chance(parts) => rng.below(1_000_000) < u64::from(*parts),
    }
}

/// The error of a fault, told as such so that nobody hunts for a defect.
pub(crate) fn injected(kind: ErrorKind, rpc: Rpc) -> ProviderError {
    ProviderError::new(
        kind,
        format!("The mock was told to answer {rpc} with {}", kind.reason()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(faults: &mut Faults, rpc: Rpc, times: usize) -> Vec<Option<Effect>> {
        (0..times).map(|_| faults.decide(rpc).effect).collect()
    }

    #[test]
    fn a_count_runs_out_and_only_its_call_is_hit() {
        let fail = Effect::Fail(ErrorKind::Unavailable);
        let rule = Rule::fail(Rpc::Create, ErrorKind::Unavailable, Often::Times(2));
        let mut faults = Faults::new(1, &[rule]);
        assert_eq!(effects(&mut faults, Rpc::Delete, 1), [None]);
        assert_eq!(
            effects(&mut faults, Rpc::Create, 3),
            [Some(fail), Some(fail), None]
        );
        assert!(faults.rules.is_empty(), "a rule that ran out is dropped");
    }

    #[test]
    fn chance_is_the_same_for_the_same_seed() {
        let run = |seed| {
            let rule = Rule::lose(Rpc::Power, Often::Chance(300_000));
            effects(&mut Faults::new(seed, &[rule]), Rpc::Power, 1000)
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
        let hits = run(3).iter().flatten().count();
        assert!((200..400).contains(&hits), "{hits} of 1000");
    }

    #[test]
    fn latency_stays_in_its_bounds() {
        let (min, max) = (Duration::from_millis(100), Duration::from_millis(600));
        let mut faults = Faults::new(1, &[Rule::Latency(Latency { min, max })]);
        let drawn: Vec<_> = (0..100)
            .map(|_| faults.decide(Rpc::Describe).latency)
            .collect();
        assert!(drawn.iter().all(|d| (min..=max).contains(d)));
        assert!(drawn.iter().any(|d| *d != drawn[0]));
    }

    #[test]
    fn the_first_rule_that_fires_decides() {
        let mut faults = Faults::new(
            1,
            &[
                Rule::Call {
                    rpc: None,
                    effect: Effect::Hang,
                    often: Often::Times(1),
                },
                Rule::call(Rpc::Power, Effect::DropRequest, Often::Always),
            ],
        );
        assert_eq!(
            effects(&mut faults, Rpc::Power, 2),
            [Some(Effect::Hang), Some(Effect::DropRequest)]
        );
    }
}
