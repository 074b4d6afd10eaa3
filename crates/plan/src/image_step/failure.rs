//! Why an import failed, and when it is tried again.

use std::time::Duration;

use polyvirt_api::infra::VMImageSpec;
use polyvirt_contract::{ProviderError, Retry};

use crate::digest;
use crate::image::fingerprint;

/// The first of the long pauses.
const LONG: Duration = Duration::from_mins(10);
/// No pause is longer, but for its share of [`SPREAD`].
const LONGEST: Duration = Duration::from_mins(30);
/// Over how many seconds images that failed together come back.
const SPREAD: u64 = 120;

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// The same may work later: a server that is away, an import that took too long.
    Passing(&'a str),
    /// The same would be refused again, such as a wrong checksum.
    Refused(&'a str),
}

impl<'a> Failure<'a> {
    /// What a provider has said.
    pub fn of(error: &'a ProviderError) -> Self {
        match error.kind.retry() {
            Retry::OnChange => Self::Refused(&error.message),
            _ => Self::Passing(&error.message),
        }
    }

    pub(super) const fn why(&self) -> &'a str {
        match self {
            Self::Passing(why) | Self::Refused(why) => why,
        }
    }

    /// How long to wait after so many attempts, and what to say of it; no time for what is not tried again by itself.
    pub(super) fn outlook(&self, spec: &VMImageSpec, attempts: i32) -> (Option<Duration>, String) {
        let allowed = spec.prepare.as_ref().map_or(3, |p| p.retries);
        let text = match self {
            Self::Refused(_) => {
                ". It is tried again when the VMImage changes or another VM wants it"
            }
            Self::Passing(_) if attempts <= allowed => "",
            Self::Passing(_) => ". It is tried again within half an hour",
        };
        let pause = match self {
            Self::Refused(_) => None,
            Self::Passing(_) if attempts <= allowed => Some(short(attempts)),
            Self::Passing(_) => Some(long(spec, attempts.saturating_sub(allowed))),
        };
        (pause, text.to_owned())
    }
}

fn short(attempts: i32) -> Duration {
    Duration::from_secs(5_u64 << attempts.clamp(0, 6))
}

/// Twice as long each time, and never so that all images of a server that was away ask it at once.
fn long(spec: &VMImageSpec, times: i32) -> Duration {
    let doubled = LONG * (1_u32 << times.saturating_sub(1).clamp(0, 8));
    // Only a spread: not stored, so its form may change.
    let share = digest::legacy(&format!("{} {times}", fingerprint(spec)));
    let share = u64::from_str_radix(&share, 16).unwrap_or_default() % SPREAD;
    let longest = LONGEST.saturating_sub(Duration::from_secs(SPREAD));
    doubled.min(longest) + Duration::from_secs(share)
}
