//! `polyvirt vm explain`: where a VM goes, and what is against each other host.

use std::fmt::Write;

use kube::ResourceExt;
use polyvirt_api::infra::{PlacementStatus, VirtualMachine};
use polyvirt_api::novacron;
use polyvirt_engine::placement::question::wishes;

use super::options::Shown;
use super::{Cluster, print, print_object};
use crate::commands::table::{Cell, Colours, Paint, Table};

/// Hosts of which a status tells at most.
const SHOWN_HOSTS: usize = 32;

/// Shows what the scheduler found out when it last looked for a host.
pub async fn run(cluster: &Cluster, options: &Shown) -> anyhow::Result<()> {
    let Some(vm) = cluster.find(&options.name).await? else {
        return unmade(cluster, options).await;
    };
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

/// A VM of NovaCron that has no Provider yet, and so no VirtualMachine of ours.
async fn unmade(cluster: &Cluster, options: &Shown) -> anyhow::Result<()> {
    let name = &options.name;
    let Some(vm) = cluster.find_of_novacron(name).await? else {
        return Err(cluster.missing(name).into());
    };
    let status = vm.status.unwrap_or_default();
    if let (Some(format), Some(placement)) = (options.output, &status.placement) {
        return print_object(placement, format);
    }
    print(&match &status.placement {
        Some(placement) => untaken(name, placement, Colours::of_stdout()),
        None => format!("{name} was not made yet. {}\n", ready_message(&status)),
    });
    Ok(())
}

fn ready_message(status: &novacron::VirtualMachineStatus) -> &str {
    let ready = status.conditions.iter().find(|c| c.type_ == "Ready");
    let message = ready.and_then(|c| c.message.as_deref());
    message.unwrap_or("Nobody has looked at it: is the manager running?")
}

fn untaken(name: &str, placement: &novacron::Unplaced, colours: Colours) -> String {
    let mut text = format!("{name} has no Provider.\n{}\n", placement.message);
    if placement.hosts.is_empty() {
        return text;
    }
    let mut table = Table::new(&["PROVIDER", "HOST", "FITS", "WHY"]);
    for found in &placement.hosts {
        table.row(vec![
            found.provider.as_str().into(),
            found.host.as_deref().unwrap_or("-").into(),
            Cell::new("no", Paint::Bad),
            found.message.as_str().into(),
        ]);
    }
    let _ = write!(text, "\n{}", table.render(colours));
    if placement.hosts.len() >= SHOWN_HOSTS {
        let _ = writeln!(
            text,
            "No more than {SHOWN_HOSTS} hosts and Providers are told."
        );
    }
    text
}

/// Why there is nothing to tell.
fn unplaced(vm: &VirtualMachine) -> String {
    let name = vm.name_any();
    match vm.status.as_ref().and_then(|status| status.host.as_deref()) {
        Some(host) => format!(
            "{name} is on host {host}, which its provider chose: it names no host, selector, affinity, policy or device\n"
        ),
        None if wishes(&vm.spec).is_empty() => format!(
            "{name} has no host yet. Provider {} chooses one when it creates the VM, because {name} names no host, selector, affinity, policy or device.\n{}\n",
            vm.spec.provider_ref.name,
            waits_for(vm)
        ),
        None => format!(
            "No host of Provider {} was looked for yet. {}\n",
            vm.spec.provider_ref.name,
            waits_for(vm)
        ),
    }
}

fn waits_for(vm: &VirtualMachine) -> String {
    let conditions = vm.status.as_ref().map(|status| &status.conditions);
    let ready = conditions.and_then(|all| all.iter().find(|c| c.type_ == "Ready"));
    let told = ready.filter(|c| !c.message.is_empty());
    told.map_or_else(
        || "It was not reconciled yet. Check that the manager is running".to_owned(),
        |c| format!("Ready={} ({}): {}", c.status, c.reason, c.message),
    )
}

fn told(vm: &VirtualMachine, placement: &PlacementStatus, colours: Colours) -> String {
    let mut text = String::new();
    let name = vm.name_any();
    let seen = vm.status.as_ref().and_then(|status| status.host.as_deref());
    let seen = seen.filter(|host| !host.is_empty());
    let _ = match (&placement.host, seen) {
        (Some(chosen), Some(host)) if chosen != host => writeln!(
            text,
            "{name} is on host {host}. Host {chosen} was chosen when it was made."
        ),
        (Some(host), Some(_)) => writeln!(text, "{name} is on host {host}."),
        (Some(host), None) => writeln!(text, "{name} goes to host {host}."),
        (None, _) => writeln!(
            text,
            "{name} has no host of Provider {}.",
            vm.spec.provider_ref.name
        ),
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
    if placement.hosts.len() >= SHOWN_HOSTS {
        let _ = writeln!(
            text,
            "No more than {SHOWN_HOSTS} hosts are told, those that fit first."
        );
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
    use polyvirt_api::infra::{HostVerdict, LocalRef, VirtualMachineSpec, VirtualMachineStatus};

    use super::*;

    #[test]
    fn each_host_has_a_line() {
        let mut vm = VirtualMachine::new("db", VirtualMachineSpec::default());
        vm.spec.provider_ref.name = "kvm".to_owned();
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
            text.starts_with("db has no host of Provider kvm.\n0/2 hosts are available"),
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
        assert!(!text.contains("No more than"), "{text}");
        placement.hosts = vec![verdict("a", true, "100"); SHOWN_HOSTS];
        let text = told(&vm, &placement, Colours::Off);
        assert!(text.contains("No more than 32 hosts are told"), "{text}");
        let text = unplaced(&vm);
        assert!(
            text.starts_with("db has no host yet. Provider kvm"),
            "{text}"
        );
        vm.spec.placement_ref = Some(LocalRef {
            name: "spread".to_owned(),
        });
        let text = unplaced(&vm);
        assert!(text.starts_with("No host of Provider kvm was"), "{text}");
        assert!(text.contains("Check that the manager is running"), "{text}");
        vm.status = Some(VirtualMachineStatus {
            host: Some("b".to_owned()),
            ..VirtualMachineStatus::default()
        });
        let text = told(&vm, &placement, Colours::Off);
        assert!(
            text.starts_with("db is on host b. Host a was chosen"),
            "{text}"
        );
    }

    #[test]
    fn one_that_nobody_takes_has_a_line_for_each_provider() {
        let obstacle = |provider: &str, host: Option<&str>, message: &str| novacron::Obstacle {
            provider: provider.to_owned(),
            host: host.map(str::to_owned),
            message: message.to_owned(),
        };
        let placement = novacron::Unplaced {
            message: "No Provider has a host for it".to_owned(),
            hosts: vec![
                obstacle("default/east", Some("host-1"), "too little memory"),
                obstacle("default/west", None, "does not answer"),
            ],
        };
        let text = untaken("db", &placement, Colours::Off);
        assert!(
            text.starts_with("db has no Provider.\nNo Provider has"),
            "{text}"
        );
        let line = |begins: &str| text.lines().find(|line| line.starts_with(begins));
        let east = line("default/east").unwrap_or_default();
        assert!(
            east.contains("host-1") && east.ends_with("too little memory"),
            "{text}"
        );
        let west = line("default/west").unwrap_or_default();
        assert!(west.ends_with("does not answer"), "{text}");
    }
}
