//! Whether the manager has looked at its VMs since it began.
//!
//! A manager that starts anew writes only what has changed, so what the objects say does not tell whether it is old. The
//! manager's own counters begin at nothing, and do.

use std::net::{Ipv4Addr, SocketAddr};

use polyvirt_testkit::detached::Started;

use super::options::Ports;
use crate::commands::probes;

/// What is known of the manager's first look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLook {
    /// What its objects say is of now.
    Done,
    /// What its objects say may be from before it began; its counters are on this port.
    Awaited(u16),
}

impl FirstLook {
    /// Of a manager that was started so.
    pub fn of(manager: Started, ports: Ports) -> Self {
        match manager {
            Started::Before => Self::Done,
            Started::Now => Self::Awaited(ports.metrics),
        }
    }

    /// Looks whether it is done by now.
    pub async fn refresh(&mut self) {
        if let Self::Awaited(port) = *self {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let counters = probes::fetch(address, "/metrics").await;
            if counters.is_ok_and(|text| has_looked(&text)) {
                *self = Self::Done;
            }
        }
    }
}

/// Whether as many looks at VMs have come to an end as there are VMs. While the provider is being connected to they end with
/// `wait`.
fn has_looked(counters: &str) -> bool {
    const LOOKS: &str = r#"virtrigaud_manager_reconcile_total{kind="VirtualMachine",outcome="#;
    const VMS: &str = r#"virtrigaud_objects{kind="VirtualMachine"}"#;
    let looks = counters
        .lines()
        .filter_map(|line| line.strip_prefix(LOOKS))
        .filter(|rest| !rest.starts_with(r#""wait""#));
    let vms = counters.lines().find_map(|line| line.strip_prefix(VMS));
    let vms = vms.and_then(number).unwrap_or(u64::MAX);
    looks.filter_map(number).sum::<u64>() >= vms
}

fn number(line: &str) -> Option<u64> {
    line.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(success: u64, wait: u64, vms: u64) -> String {
        format!(
            "# TYPE virtrigaud_manager_reconcile counter\n\
             virtrigaud_manager_reconcile_total{{kind=\"VirtualMachine\",outcome=\"success\"}} {success}\n\
             virtrigaud_manager_reconcile_total{{kind=\"VirtualMachine\",outcome=\"wait\"}} {wait}\n\
             virtrigaud_manager_reconcile_total{{kind=\"VMImage\",outcome=\"success\"}} 9\n\
             virtrigaud_objects{{kind=\"VirtualMachine\"}} {vms}\n\
             # EOF\n"
        )
    }

    #[test]
    fn looks_that_only_wait_do_not_count() {
        assert!(!has_looked(""), "nothing is known yet");
        assert!(!has_looked(&counters(0, 3, 1)));
        assert!(!has_looked(&counters(1, 0, 2)), "one of two");
        assert!(has_looked(&counters(2, 5, 2)));
    }

    #[tokio::test]
    async fn a_manager_that_ran_before_is_not_asked() {
        let mut look = FirstLook::of(Started::Before, Ports::default());
        look.refresh().await;
        assert_eq!(look, FirstLook::Done);
        let mut look = FirstLook::Awaited(1);
        look.refresh().await;
        assert_eq!(look, FirstLook::Awaited(1), "nobody listens there");
    }
}
