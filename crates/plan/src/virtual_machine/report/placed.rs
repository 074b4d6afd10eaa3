//! The condition `Placed`: whether a host was found, where one is looked for.

use super::{Outcome, PassEnd};
use crate::conditions::{Finding, Truth, kind};
use crate::reason::Reason;

/// The finding for `Placed`; `None` where the provider chooses.
pub(super) fn finding(end: &PassEnd<'_>) -> Option<Finding> {
    if let Outcome::Stopped(problem) = end.outcome
        && problem.reason == Reason::Unschedulable
    {
        let text = problem.to_string();
        return Some(Finding::new(
            kind::PLACED,
            Truth::False,
            Reason::Unschedulable,
            text,
        ));
    }
    let placement = end.record.placement.as_ref()?;
    let host = placement.host.as_ref()?;
    let why = placement.message.as_deref().unwrap_or_default();
    let text = match moved_to(end, host) {
        Some(now) => {
            format!("The VM is on host {now}. Host {host} was chosen when it was made. {why}")
        }
        None => format!("Host {host} was chosen. {why}"),
    };
    Some(Finding::new(
        kind::PLACED,
        Truth::True,
        Reason::Placed,
        text,
    ))
}

/// Where the VM is seen, if that is not where it was put.
fn moved_to<'a>(end: &PassEnd<'a>, chosen: &str) -> Option<&'a str> {
    let host = end.observed.map(|vm| vm.host.as_str());
    host.filter(|host| !host.is_empty() && *host != chosen)
}
