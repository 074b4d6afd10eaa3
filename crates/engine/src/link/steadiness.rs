//! A provider that answers calls but cannot be listened to: reported, until its stream has lasted for a while.

use std::sync::Arc;

use super::session::Session;

/// So many breaks in a row, each soon after the beginning, are no accident.
const UNSTEADY: u32 = 3;

impl Session {
    /// A link that breaks again and again, though it can be made each time, is reported until it has lasted for a while.
    pub(super) fn wavers(&self, breaks: u32, why: &str) {
        if breaks < UNSTEADY {
            return;
        }
        let text = format!(
            "The provider answers, but its stream of VM states broke {breaks} times in a row: {why}. Check the provider's log"
        );
        self.steadiness(Some(text.into()));
    }

    pub(super) fn steadiness(&self, unsteady: Option<Arc<str>>) {
        if self.link.steadiness(unsteady) {
            self.listener.standing(&self.link);
        }
    }
}
