//! What people read of fields that have no effect.

use super::once::{Edited, Moment};
use crate::conditions::{Finding, Truth, kind};
use crate::reason::Reason;

/// The condition of a VirtualMachine; `None` if all of its fields act.
pub fn of_vm(ignored: &[String], edited: &[Edited]) -> Option<Finding> {
    of_sentences([on_provider(ignored), after_creation(edited)])
}

/// The condition for these sentences; `None` if there are none.
pub fn of_sentences(sentences: impl IntoIterator<Item = Option<String>>) -> Option<Finding> {
    let said: Vec<_> = sentences.into_iter().flatten().collect();
    (!said.is_empty()).then(|| {
        Finding::new(
            kind::FIELDS_HONOURED,
            Truth::False,
            Reason::FieldsIgnored,
            said.join(". "),
        )
    })
}

/// Fields that are set, and that the provider does not act on.
fn on_provider(fields: &[String]) -> Option<String> {
    (!fields.is_empty()).then(|| {
        format!(
            "These fields are set but have no effect on this provider: {}. Remove them, or choose a provider that honours them",
            fields.join(", ")
        )
    })
}

/// Fields that were edited after they were read.
fn after_creation(edited: &[Edited]) -> Option<String> {
    let named: Vec<_> = edited.iter().map(ToString::to_string).collect();
    let placed = edited.iter().any(|e| e.moment == Moment::Placement);
    let migrate = if placed { ", migrate it" } else { "" };
    (!named.is_empty()).then(|| {
        format!(
            "These fields were edited after the VM was created, and the edit has no effect: {}. Revert the edit{migrate}, or create the VM again",
            named.join(", ")
        )
    })
}

/// The admission warning for an edit.
pub fn warning(root: &str, edited: &Edited) -> String {
    let path = edited.path.strip_prefix("spec");
    let path = path.map_or_else(|| edited.path.clone(), |rest| format!("{root}{rest}"));
    let when = edited.moment.explanation();
    format!(
        "{path}: the edit has no effect on this VM, which exists ({when}); condition FieldsHonoured reports it until it is reverted"
    )
}
