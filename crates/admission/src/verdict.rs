//! What a review ends with.

use polyvirt_plan::Problem;
use serde_json::{Value, json};

use crate::wire::Request;

/// Clients may cut a warning off after this many bytes.
const LONGEST_WARNING: usize = 250;
/// All warnings together must fit into the headers of an answer.
const MOST_WARNINGS: usize = 12;

/// What a review ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request goes on.
    pub decision: Decision,
    /// What the user is told in any case.
    pub warnings: Vec<String>,
}

/// Whether a request goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It does.
    Allowed,
    /// It can never work as it is written.
    Invalid(Vec<Problem>),
    /// Another object controls it: that one is to be changed or deleted.
    Owned(String),
}

impl Verdict {
    /// Nothing to say.
    pub const fn allowed() -> Self {
        Self {
            decision: Decision::Allowed,
            warnings: Vec::new(),
        }
    }

    /// Allowed, with something to say.
    pub fn warned(warnings: Vec<String>) -> Self {
        Self {
            decision: Decision::Allowed,
            warnings: presentable(warnings),
        }
    }

    /// Allowed if there are no problems.
    pub fn of(problems: Vec<Problem>, warnings: Vec<String>) -> Self {
        let mut verdict = Self::warned(warnings);
        if !problems.is_empty() {
            verdict.decision = Decision::Invalid(problems);
        }
        verdict
    }
}

impl Decision {
    /// For labels of metrics.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Invalid(_) => "invalid",
            Self::Owned(_) => "owned",
        }
    }

    /// What the API server hands to the user of a refusal.
    pub(crate) fn status(&self, request: &Request) -> Option<Value> {
        match self {
            Self::Allowed => None,
            Self::Invalid(problems) => Some(invalid(request, problems)),
            Self::Owned(message) => Some(json!({
                "status": "Failure", "code": 403, "reason": "Forbidden", "message": message,
            })),
        }
    }
}

/// In the shape of the API server's own refusals, so that tools find the fields.
fn invalid(request: &Request, problems: &[Problem]) -> Value {
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let causes: Vec<_> = problems.iter().map(cause).collect();
    let message = format!(
        "{} {:?} can never work as it is written: {}",
        request.kind.kind,
        name(request),
        texts.join("; ")
    );
    json!({
        "status": "Failure", "code": 422, "reason": "Invalid", "message": message,
        "details": {
            "group": request.kind.group, "kind": request.kind.kind, "name": request.name,
            "causes": causes,
        },
    })
}

/// One that the API server makes up begins with what the user gave.
fn name(request: &Request) -> &str {
    if !request.name.is_empty() {
        return &request.name;
    }
    let begin = request.object["metadata"]["generateName"].as_str();
    begin.unwrap_or_default()
}

fn cause(problem: &Problem) -> Value {
    json!({"reason": "FieldValueInvalid", "field": problem.field, "message": problem.message})
}

/// Each once, none too long, not too many: what does not fit is counted.
fn presentable(warnings: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for warning in warnings.into_iter().map(shortened) {
        if !kept.contains(&warning) {
            kept.push(warning);
        }
    }
    let more = kept.len().saturating_sub(MOST_WARNINGS);
    kept.truncate(MOST_WARNINGS);
    if more > 0 {
        kept.push(format!("and {more} more warnings"));
    }
    kept
}

fn shortened(mut text: String) -> String {
    if text.len() <= LONGEST_WARNING {
        return text;
    }
    let end = (0..=LONGEST_WARNING - 3)
        .rev()
        .find(|i| text.is_char_boundary(*i));
    text.truncate(end.unwrap_or(0));
    text + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_fit_into_headers() {
        let long = "é".repeat(400);
        let many: Vec<_> = (0..20).map(|i| format!("warning {i}")).collect();
        let verdict = Verdict::warned([vec![long.clone(), long], many].concat());
        assert!(verdict.warnings.iter().all(|w| w.len() <= LONGEST_WARNING));
        assert_eq!(verdict.warnings.len(), MOST_WARNINGS + 1);
        assert_eq!(
            verdict.warnings.last().map(String::as_str),
            Some("and 9 more warnings")
        );
    }
}
