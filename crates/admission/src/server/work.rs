//! One review, from bytes to an answer.

use std::time::Instant;

use serde_json::Value;

use super::Shared;
use crate::defaults::defaults;
use crate::metrics::ReviewLabels;
use crate::review::review as judge;
use crate::verdict::{Decision, Verdict};
use crate::wire::{self, Request, Review};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Webhook {
    /// Whether the request goes on.
    Validate,
    /// What is to be added to the object.
    Mutate,
}

impl Webhook {
    const fn word(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::Mutate => "mutate",
        }
    }
}

/// Kinds in labels; whatever else is asked about is `other`, so that nobody can make up series.
const KINDS: [&str; 10] = [
    "VirtualMachine",
    "Provider",
    "VMClass",
    "VMImage",
    "VMNetworkAttachment",
    "VMSnapshot",
    "VMClone",
    "VMMigration",
    "VMSet",
    "VMPlacementPolicy",
];

/// The answer, or why the bytes are no review.
pub(super) fn review(
    shared: &Shared,
    webhook: Webhook,
    body: &[u8],
) -> Result<Value, serde_json::Error> {
    let begin = Instant::now();
    let read = serde_json::from_slice::<Review>(body);
    let (answer, labels) = match read {
        Ok(review) => {
            let (answer, verdict) = answered(shared, webhook, &review.request);
            (Ok(answer), labels(&review.request, verdict))
        }
        Err(error) => (Err(error), labels(&Request::default(), "unreadable")),
    };
    shared
        .metrics
        .reviewed(webhook.word(), &labels, begin.elapsed());
    answer
}

fn answered(shared: &Shared, webhook: Webhook, request: &Request) -> (Value, &'static str) {
    match webhook {
        Webhook::Validate => {
            let verdict = judge(request, &*shared.facts);
            tell(request, &verdict);
            (wire::answer(request, &verdict), word(&verdict))
        }
        Webhook::Mutate => {
            let patch = defaults(request);
            let word = if patch.0.is_empty() {
                "unchanged"
            } else {
                "patched"
            };
            (wire::patched(request, &patch), word)
        }
    }
}

fn word(verdict: &Verdict) -> &'static str {
    if verdict.decision == Decision::Allowed && !verdict.warnings.is_empty() {
        return "warned";
    }
    verdict.decision.word()
}

fn tell(request: &Request, verdict: &Verdict) {
    let (kind, operation) = (&request.kind.kind, request.operation.word());
    let (namespace, name) = (&request.namespace, &request.name);
    if verdict.decision != Decision::Allowed {
        tracing::info!(
            kind,
            operation,
            namespace,
            name,
            user = request.user_info.username,
            verdict = verdict.decision.word(),
            "refused"
        );
    }
}

fn labels(request: &Request, verdict: &'static str) -> ReviewLabels {
    let kind = KINDS.into_iter().find(|kind| *kind == request.kind.kind);
    ReviewLabels {
        kind: kind.unwrap_or("other"),
        operation: request.operation.word(),
        verdict,
    }
}
