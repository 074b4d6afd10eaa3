//! What any provider must pass, in process and over the wire.
//!
//! ```text
//!   suite() ─► Check { name, needs, run } ─► Lab: makes VMs, waits, cleans up ─► Report: pass, fail, not applicable because …
//! ```
//!
//! A check states one promise of the contract and judges only by what the provider answers. What a provider does not offer
//! is not applicable, with the reason; nothing is skipped in silence. Each check makes its own VMs, under names and
//! identities that no other run uses, and a check that cannot clean up behind itself has failed.

mod check;
mod checks;
mod junit;
mod lab;
mod profile;
mod report;

use std::sync::Arc;
use std::time::Instant;

use polyvirt_contract::Provider;

pub use check::{Check, Need};
pub use profile::{Expect, Profile};
pub use report::{Outcome, Report, Verdict};

use check::Failure;
use lab::{Lab, Offered};

/// All checks, in the order in which they run.
pub fn suite() -> Vec<Check> {
    checks::all()
}

/// Runs the suite. A provider that cannot even say what it offers fails every check, with that as the reason.
pub async fn run(provider: Arc<dyn Provider>, profile: &Profile) -> Report {
    run_telling(provider, profile, |_| ()).await
}

/// The same, and tells of each check as soon as it has ended.
pub async fn run_telling(
    provider: Arc<dyn Provider>,
    profile: &Profile,
    mut tell: impl FnMut(&Outcome),
) -> Report {
    let mut report = Report::default();
    let offered = Offered::ask(provider.as_ref()).await;
    for check in suite() {
        let begin = Instant::now();
        let verdict = match &offered {
            Ok(offered) => judge(&check, &provider, profile, offered).await,
            Err(failure) => Verdict::Fail(failure.to_string()),
        };
        let outcome = Outcome {
            check: check.name,
            promise: check.promise,
            verdict,
            took: begin.elapsed(),
        };
        tell(&outcome);
        report.outcomes.push(outcome);
    }
    report
}

async fn judge(
    check: &Check,
    provider: &Arc<dyn Provider>,
    profile: &Profile,
    offered: &Offered,
) -> Verdict {
    if let Some(reason) = check
        .needs
        .iter()
        .find_map(|need| need.missing(offered, profile))
    {
        return Verdict::NotApplicable(reason);
    }
    let lab = Lab::new(provider.clone(), profile.clone(), offered.clone());
    let result = (check.run)(lab.clone()).await;
    let cleaned = lab.clean().await;
    match result.and(cleaned) {
        Ok(()) => Verdict::Pass,
        Err(Failure::NotOffered(why)) => Verdict::NotApplicable(why),
        Err(Failure::Broken(what)) => Verdict::Fail(what),
    }
}
