//! Which schedules to run, and how to have one of them again.

use crate::rng::Rng;

/// The seed that CI's seeds are derived from.
const BASE: u64 = 2026;
/// Schedules in a run that nobody has asked to be longer.
const RUNS: u64 = 10_000;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Many schedules, derived from this seed.
    Many { base: u64, runs: u64 },
    /// One, with every step told.
    One(u64),
}

impl Asked {
    /// `POLYVIRT_SIM_SEED` is a schedule's seed, or `random`; `POLYVIRT_SIM_RUNS` is a number of schedules.
    pub fn from_environment() -> Self {
        let runs = std::env::var("POLYVIRT_SIM_RUNS").ok();
        let runs = runs.map_or(RUNS, |text| {
            text.parse().expect("POLYVIRT_SIM_RUNS is a number")
        });
        match std::env::var("POLYVIRT_SIM_SEED").ok().as_deref() {
            None => Self::Many { base: BASE, runs },
            Some("random") => Self::Many {
                base: clock_seed(),
                runs,
            },
            Some(text) => Self::One(
                text.parse()
                    .expect("POLYVIRT_SIM_SEED is a number, or random"),
            ),
        }
    }
}

/// The seeds of a run.
pub fn derive(base: u64, runs: u64) -> Vec<u64> {
    let mut rng = Rng::new(base);
    (0..runs).map(|_| rng.next()).collect()
}

/// How to have a schedule again.
pub fn replay(seed: u64) -> String {
    format!(
        "POLYVIRT_SIM_SEED={seed} cargo test -p polyvirt-engine --test simulation -- --nocapture schedules"
    )
}

fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| {
        u64::try_from(time.as_nanos() & u128::from(u64::MAX)).unwrap_or(0)
    })
}
