//! Which schedules to run, and how to have one of them again.

use crate::rng::Rng;

/// The seed that CI's seeds are derived from.
const BASE: u64 = 2026;
/// Schedules in a run that nobody has asked to be longer.
const RUNS: u64 = 10_000;

/// Schedules that failed once, each by a fault of its own.
pub const ONCE_FAILED: [u64; 7] = [
    // The end of a withdrawn shutdown was judged on an old list.
    18_059_697_054_230_055_289,
    // A start that a dead manager had sent came between the look and the change of size.
    2_034_786_328_807_419_688,
    // A start that a dead manager had sent came after its user had turned to Off.
    8_481_620_152_159_014_376,
    // What the status told depended on whether a refusal was new or remembered.
    5_893_222_482_984_647_963,
    // A wait was over before the write that told of it.
    1_908_640_244_265_145_565,
    // A record that the API server had refused was taken for written.
    17_953_850_622_258_245_838,
    // Left behind by force, taken by the next object of its name: a limit of providers without identities.
    3_886_833_614_728_456_353,
];

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
