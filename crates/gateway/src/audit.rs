//! One line when a session begins and one when it ends: who, which VM, how long. Never what went through.

use std::time::Instant;

use crate::access::Target;
use crate::front_proxy::User;

/// A session that is on record; dropping it writes the end.
pub struct Session {
    user: String,
    target: Target,
    begin: Instant,
}

impl Session {
    /// Writes the beginning.
    pub fn begin(user: &User, target: &Target) -> Self {
        tracing::info!(
            user = user.name,
            groups = user.groups.join(","),
            namespace = target.namespace,
            vm = target.name,
            part = target.part.name(),
            "guest session begins"
        );
        Self {
            user: user.name.clone(),
            target: target.clone(),
            begin: Instant::now(),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        tracing::info!(
            user = self.user,
            namespace = self.target.namespace,
            vm = self.target.name,
            part = self.target.part.name(),
            seconds = self.begin.elapsed().as_secs(),
            "guest session ends"
        );
    }
}
