//! What is asked of each kind.
//!
//! A *problem* is what can never work, whatever is applied later: it refuses. Whatever another object may still put right is
//! a *warning*, for manifests are applied in any order.

mod address;
mod cards;
mod checksum;
mod class;
mod clone;
mod disks;
mod guest_data;
mod hooks;
mod image;
mod machine;
mod migration;
mod network;
mod novacron;
mod placement;
mod provider;
mod references;
mod set;
mod snapshot;
mod virtual_machine;

use polyvirt_plan::{Problem, Reason};
use serde::de::DeserializeOwned;

use crate::facts::Facts;

/// What is asked of one kind.
pub(crate) trait Judged: DeserializeOwned {
    /// What can never work. The same object gives the same problems, so that old ones are known.
    fn problems(&self, facts: &dyn Facts) -> Vec<Problem>;

    /// What cannot be changed so.
    fn forbidden_changes(&self, _old: &Self, _facts: &dyn Facts) -> Vec<Problem> {
        Vec::new()
    }

    /// What the user should know.
    fn warnings(&self, old: Option<&Self>, facts: &dyn Facts) -> Vec<String>;
}

/// A problem of the object itself.
pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Problem {
    Problem::new(Reason::InvalidSpec, field, message)
}

/// For a kind that nobody looks after yet: what is declared must not wait in silence.
fn unattended(kind: &str) -> String {
    format!(
        "{kind}: this version does not implement it. The object is kept, with condition Ready=False and reason NotImplemented"
    )
}

/// The problem, at the place where its part stands in this object.
fn moved(mut problem: Problem, from: &str, to: &str) -> Problem {
    if let Some(rest) = problem.field.strip_prefix(from) {
        problem.field = format!("{to}{rest}");
    }
    problem
}
