//! Who holds a Lease, and what is written into it. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// How long, how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long after a renewal nobody else may take the Lease.
    pub duration: Duration,
    /// How long after its last renewal the holder stops working. Shorter, so that it stops before anybody else begins.
    pub work_within: Duration,
    /// How often the holder renews.
    pub renew_every: Duration,
    /// How soon after a failure it is tried again.
    pub retry: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            work_within: Duration::from_secs(10),
            renew_every: Duration::from_secs(4),
            retry: Duration::from_secs(1),
        }
    }
}

/// Whose a Lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Whoever comes first may take it.
    Free,
    /// We hold it.
    Ours,
    /// Somebody else holds it, until then at least.
    HeldUntil(Instant),
}

/// Whose the Lease is, as far as one can know who has seen it unchanged since then.
pub fn standing(lease: &Lease, us: &str, unchanged_since: Instant, now: Instant) -> Standing {
    let spec = lease.spec.clone().unwrap_or_default();
    match spec.holder_identity.as_deref() {
        None | Some("") => Standing::Free,
        Some(holder) if holder == us => Standing::Ours,
        Some(_) => {
            let seconds = spec.lease_duration_seconds.unwrap_or_default();
            let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            let end = unchanged_since + duration;
            if now < end {
                Standing::HeldUntil(end)
            } else {
                Standing::Free
            }
        }
    }
}

/// The Lease as its new holder writes it.
pub fn taken(old: &Lease, us: &str, terms: Terms, now: Timestamp) -> Lease {
    let before = old.spec.clone().unwrap_or_default();
    let transitions = before.lease_transitions.unwrap_or_default();
    let spec = LeaseSpec {
        holder_identity: Some(us.to_owned()),
        lease_duration_seconds: i32::try_from(terms.duration.as_secs().max(1)).ok(),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions.saturating_add(1)),
        ..before
    };
    with(old, spec)
}

/// The same, once more.
pub fn renewed(old: &Lease, now: Timestamp) -> Lease {
    let before = old.spec.clone().unwrap_or_default();
    let spec = LeaseSpec {
        renew_time: Some(MicroTime(now)),
        ..before
    };
    with(old, spec)
}

/// Free for whoever comes first.
pub fn given_up(old: &Lease, now: Timestamp) -> Lease {
    let before = old.spec.clone().unwrap_or_default();
    let spec = LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(now)),
        ..before
    };
    with(old, spec)
}

fn with(old: &Lease, spec: LeaseSpec) -> Lease {
    Lease {
        metadata: old.metadata.clone(),
        spec: Some(spec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> Lease {
        taken(
            &Lease::default(),
            "a",
            Terms::default(),
            Timestamp::UNIX_EPOCH,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_anothers_until_it_was_seen_unchanged_for_its_duration() {
        let seen = Instant::now();
        let end = seen + Duration::from_secs(15);
        assert_eq!(standing(&held(), "a", seen, seen), Standing::Ours);
        assert_eq!(standing(&held(), "b", seen, seen), Standing::HeldUntil(end));
        assert_eq!(standing(&held(), "b", seen, end), Standing::Free);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_given_up_is_free_at_once() {
        let free = given_up(&held(), Timestamp::UNIX_EPOCH);
        let now = Instant::now();
        assert_eq!(standing(&free, "b", now, now), Standing::Free);
        let again = taken(&free, "b", Terms::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(again.spec.expect("a spec").lease_transitions, Some(2));
    }

    /// The promise of the documentation: a holder that dies is replaced within 20 s, and one that is cut off stops first.
    #[test]
    fn the_usual_terms_leave_no_room_for_two() {
        let terms = Terms::default();
        assert!(terms.renew_every + 2 * terms.retry < terms.work_within);
        assert!(terms.work_within + Duration::from_secs(2) < terms.duration);
        assert!(terms.duration + terms.retry < Duration::from_secs(20));
    }
}
