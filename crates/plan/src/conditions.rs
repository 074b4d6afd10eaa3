//! Conditions: what a person and `kubectl wait` read. They report; nothing here is ever read back to decide.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::reason::Reason;

/// The truth of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be told.
    Unknown,
}

impl Truth {
    /// The word in the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Kinds of condition that our objects carry.
pub mod kind {
    /// As declared.
    pub const READY: &str = "Ready";
    /// Being created.
    pub const PROVISIONING: &str = "Provisioning";
    /// Being changed.
    pub const RECONFIGURING: &str = "Reconfiguring";
    /// Being deleted.
    pub const DELETING: &str = "Deleting";
    /// Changed by somebody else.
    pub const DRIFTED: &str = "Drifted";
    /// A change waits for a restart.
    pub const RESTART_REQUIRED: &str = "RestartRequired";
    /// Every field that is set acts.
    pub const FIELDS_HONOURED: &str = "FieldsHonoured";
    /// The provider's process is there.
    pub const RUNTIME_READY: &str = "ProviderRuntimeReady";
    /// The hypervisor answers.
    pub const AVAILABLE: &str = "ProviderAvailable";
    /// The way to the provider is encrypted, and both sides prove who they are.
    pub const TLS_CONFIGURED: &str = "TLSConfigured";
    /// Capabilities were read.
    pub const CAPABILITIES: &str = "CapabilitiesReported";
    /// An image is on its way.
    pub const IMPORTING: &str = "Importing";
    /// The guest had written its buffers out when the snapshot was taken.
    pub const QUIESCED: &str = "Quiesced";
    /// A host was chosen.
    pub const PLACED: &str = "Placed";
    /// The VM went back to the snapshot that it was told to.
    pub const REVERTED: &str = "Reverted";

    /// All of them. Conditions of other kinds are other people's.
    pub const ALL: [&str; 15] = [
        READY,
        PROVISIONING,
        RECONFIGURING,
        DELETING,
        DRIFTED,
        RESTART_REQUIRED,
        FIELDS_HONOURED,
        RUNTIME_READY,
        AVAILABLE,
        TLS_CONFIGURED,
        CAPABILITIES,
        IMPORTING,
        QUIESCED,
        REVERTED,
        PLACED,
    ];
}

/// A condition without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// One of [`kind`].
    pub kind: &'static str,
    /// The truth of it.
    pub truth: Truth,
    /// Why.
    pub reason: Reason,
    /// For people: what is, and what to do.
    pub message: String,
}

impl Finding {
    /// A finding.
    pub fn new(
        kind: &'static str,
        truth: Truth,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            truth,
            reason,
            message: message.into(),
        }
    }
}

/// A message longer than the API allows is cut at a character.
const LONGEST_MESSAGE: usize = 32_768;

/// Puts the finding in the list. The time moves only when the truth changes, so that a repeated pass writes nothing.
pub fn set(list: &mut Vec<Condition>, finding: Finding, generation: Option<i64>, now: Timestamp) {
    let mut condition = Condition {
        type_: finding.kind.to_owned(),
        status: finding.truth.as_str().to_owned(),
        reason: finding.reason.as_str().to_owned(),
        message: shorten(finding.message),
        observed_generation: generation,
        last_transition_time: Time(now),
    };
    match list.iter_mut().find(|c| c.type_ == finding.kind) {
        Some(old) => {
            if old.status == condition.status {
                condition.last_transition_time = old.last_transition_time.clone();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}

/// Takes a condition out that has nothing to say any more.
pub fn clear(list: &mut Vec<Condition>, kind: &str) {
    list.retain(|c| c.type_ != kind);
}

/// Whether the list says that the condition holds.
pub fn is_true(list: &[Condition], kind: &str) -> bool {
    list.iter().any(|c| c.type_ == kind && c.status == "True")
}

fn shorten(mut message: String) -> String {
    if message.len() > LONGEST_MESSAGE {
        let mut end = LONGEST_MESSAGE;
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn ready(truth: Truth, message: &str) -> Finding {
        Finding::new(kind::READY, truth, Reason::ReconcileSuccess, message)
    }

    #[test]
    fn the_time_moves_only_with_the_truth() {
        let mut list = Vec::new();
        set(&mut list, ready(Truth::False, "a"), Some(1), at(1));
        set(&mut list, ready(Truth::False, "b"), Some(1), at(2));
        assert_eq!(list[0].last_transition_time.0, at(1));
        assert_eq!(list[0].message, "b");
        set(&mut list, ready(Truth::True, "b"), Some(2), at(3));
        assert_eq!(list[0].last_transition_time.0, at(3));
        assert_eq!(list.len(), 1);
        clear(&mut list, kind::READY);
        assert!(list.is_empty());
    }

    #[test]
    fn a_message_is_cut_at_a_character() {
        let mut list = Vec::new();
        set(
            &mut list,
            ready(Truth::True, &"é".repeat(20_000)),
            None,
            at(1),
        );
        assert_eq!(list[0].message.len(), LONGEST_MESSAGE);
    }
}
