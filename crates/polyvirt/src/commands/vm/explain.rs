//! `polyvirt vm explain`: where a VM goes, and what is against each other host.

use std::fmt::Write;

use kube::ResourceExt;
use polyvirt_api::infra::{PlacementStatus, VirtualMachine};

use super::options::Shown;
use super::{Cluster, print, print_object};
use crate::commands::table::{Cell, Colours, Paint, Table};

/// Shows what the scheduler found out when it last looked for a host.
pub async fn run(cluster: &Cluster, options: &Shown) -> anyhow::Result<()> {
    let vm = cluster.vm(&options.name).await?;
    let placement = vm
        .status
        .as_ref()
        .and_then(|status| status.placement.as_deref());
    if let (Some(format), Some(placement)) = (options.output, placement) {
        return print_object(placement, format);
    }
    print(&placement.map_or_else(
        || unplaced(&vm),
        |found| told(&vm, found, Colours::of_stdout()),
    ));
    Ok(())
}

/// Why there is nothing to tell.
fn unplaced(vm: &VirtualMachine) -> String {
    let name = vm.name_any();
    match vm.status.as_ref().and_then(|status| status.host.as_deref()) {
        Some(host) => format!(
            "{name} is on host {host}, which its provider chose: it names no host, selector, affinity, policy or device\n"
        ),
        None => format!(
            "No host was looked for yet: `polyvirt vm describe {name}` shows what it waits for\n"
        ),
    }
}

fn told(vm: &VirtualMachine, placement: &PlacementStatus, colours: Colours) -> String {
    let mut text = String::new();
    let name = vm.name_any();
    let _ = match &placement.host {
        Some(host) => writeln!(text, "{name} goes to host {host}."),
        None => writeln!(text, "{name} has no host."),
    };
    if let Some(message) = &placement.message {
        let _ = writeln!(text, "{message}");
    }
    let devices = placement
        .devices
        .iter()
        .map(|(name, count)| format!("{count} × {name}"));
    let devices = devices.collect::<Vec<_>>().join(", ");
    if !devices.is_empty() {
        let _ = writeln!(text, "Devices: {devices}");
    }
    if !placement.hosts.is_empty() {
        let _ = write!(text, "\n{}", table(placement).render(colours));
    }
    text
}

fn table(placement: &PlacementStatus) -> Table {
    let mut table = Table::new(&["HOST", "FITS", "WHY"]);
    for host in &placement.hosts {
        let (word, paint) = if host.fits {
            ("yes", Paint::Good)
        } else {
            ("no", Paint::Bad)
        };
        table.row(vec![
            host.name.as_str().into(),
            Cell::new(word, paint),
            host.message.as_str().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::{HostVerdict, VirtualMachineSpec};

    use super::*;

    #[test]
    fn each_host_has_a_line() {
        let vm = VirtualMachine::new("db", VirtualMachineSpec::default());
        let verdict = |name: &str, fits, message: &str| HostVerdict {
            name: name.to_owned(),
            fits,
            message: message.to_owned(),
        };
        let mut placement = PlacementStatus {
            message: Some("0/2 hosts are available: 2 cordoned".to_owned()),
            hosts: vec![
                verdict("a", false, "cordoned"),
                verdict("b", false, "cordoned"),
            ],
            ..PlacementStatus::default()
        };
        let text = told(&vm, &placement, Colours::Off);
        assert!(
            text.starts_with("db has no host.\n0/2 hosts are available"),
            "{text}"
        );
        assert_eq!(text.matches("cordoned").count(), 3, "{text}");
        placement.host = Some("a".to_owned());
        placement.devices = [("nvidia.com/t4".to_owned(), 2)].into();
        let text = told(&vm, &placement, Colours::Off);
        assert!(
            text.contains("goes to host a.") && text.contains("2 × nvidia.com/t4"),
            "{text}"
        );
        assert!(unplaced(&vm).contains("vm describe db"));
    }
}
