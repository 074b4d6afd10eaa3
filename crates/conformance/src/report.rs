//! How a provider did.

use std::fmt;
use std::time::Duration;

/// How one check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The promise is kept.
    Pass,
    /// It is not; what was seen.
    Fail(String),
    /// The provider does not make this promise; why.
    NotApplicable(String),
}

/// One check and how it ended. Two are the same however long they took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The check's name.
    pub check: &'static str,
    /// What it checks.
    pub promise: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

impl PartialEq for Outcome {
    fn eq(&self, other: &Self) -> bool {
        (self.check, &self.verdict) == (other.check, &other.verdict)
    }
}

impl Eq for Outcome {}

/// How the whole suite ended. Prints as a table for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// One for each check, in the order of the suite.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Whether every promise that is made is kept.
    pub fn conforms(&self) -> bool {
        !self.outcomes.is_empty() && self.failures().next().is_none()
    }

    /// The promises that are not kept.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.outcomes
            .iter()
            .filter_map(|outcome| match &outcome.verdict {
                Verdict::Fail(what) => Some((outcome.check, what.as_str())),
                _ => None,
            })
    }

    /// The promises that are not made.
    pub fn not_applicable(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.outcomes
            .iter()
            .filter_map(|outcome| match &outcome.verdict {
                Verdict::NotApplicable(why) => Some((outcome.check, why.as_str())),
                _ => None,
            })
    }

    /// How a check ended; `None` if there is no such check.
    pub fn verdict(&self, check: &str) -> Option<&Verdict> {
        self.outcomes
            .iter()
            .find(|outcome| outcome.check == check)
            .map(|outcome| &outcome.verdict)
    }

    /// The report as JUnit XML, which CI systems show.
    pub fn junit(&self) -> String {
        crate::junit::write(&self.outcomes)
    }

    fn passed(&self) -> usize {
        self.outcomes
            .iter()
            .filter(|outcome| outcome.verdict == Verdict::Pass)
            .count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outcome in &self.outcomes {
            match &outcome.verdict {
                Verdict::Pass => writeln!(f, "pass  {}", outcome.check)?,
                Verdict::Fail(what) => writeln!(f, "FAIL  {}: {what}", outcome.check)?,
                Verdict::NotApplicable(why) => writeln!(f, "n/a   {}: {why}", outcome.check)?,
            }
        }
        let (passed, failed) = (self.passed(), self.failures().count());
        let other = self.not_applicable().count();
        write!(
            f,
            "{passed} passed, {failed} failed, {other} not applicable"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdicts: &[Verdict]) -> Report {
        let outcome = |verdict: &Verdict| Outcome {
            check: "a-check",
            promise: "A promise.",
            verdict: verdict.clone(),
            took: Duration::ZERO,
        };
        Report {
            outcomes: verdicts.iter().map(outcome).collect(),
        }
    }

    #[test]
    fn one_failure_is_enough_and_nothing_is_not_conformance() {
        assert!(!report(&[]).conforms());
        assert!(report(&[Verdict::Pass, Verdict::NotApplicable("x".to_owned())]).conforms());
        assert!(!report(&[Verdict::Pass, Verdict::Fail("x".to_owned())]).conforms());
    }

    #[test]
    fn people_see_what_failed_and_the_sum() {
        let text = report(&[Verdict::Pass, Verdict::Fail("it broke".to_owned())]).to_string();
        assert!(text.contains("FAIL  a-check: it broke"), "{text}");
        assert!(
            text.ends_with("1 passed, 1 failed, 0 not applicable"),
            "{text}"
        );
    }
}
