//! Power, deletion, tags, and what does nothing on KubeVirt.

use std::collections::BTreeMap;

use polyvirt_api::infra::{DeletionPolicy, PowerState};
use polyvirt_api::vitistack::{
    Machine, MachineArchitecture, MachineDisk, MachineSpec, ORPHAN_ANNOTATION,
    POWER_STATE_ANNOTATION,
};

use super::boot;
use super::error::LowerError;
use super::size::Size;

fn annotation<'a>(machine: &'a Machine, name: &str) -> Option<&'a str> {
    let annotations = machine.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

/// What the annotation says. Without it, the power state of the VirtualMachine is its users'.
pub(super) fn power_state(machine: &Machine) -> Result<Option<PowerState>, LowerError> {
    match annotation(machine, POWER_STATE_ANNOTATION) {
        None | Some("") => Ok(None),
        Some("On") => Ok(Some(PowerState::On)),
        Some("Off") => Ok(Some(PowerState::Off)),
        Some("OffGraceful") => Ok(Some(PowerState::OffGraceful)),
        Some("Paused") => Ok(Some(PowerState::Paused)),
        Some(_) => Err(LowerError::invalid(
            "metadata.annotations[vitistack.io/power-state]",
            "Write On, Off, OffGraceful or Paused",
        )),
    }
}

pub(super) fn deletion_policy(machine: &Machine) -> Option<DeletionPolicy> {
    let orphan = annotation(machine, ORPHAN_ANNOTATION) == Some("true");
    orphan.then_some(DeletionPolicy::Retain)
}

pub(super) fn tags(spec: &MachineSpec) -> Vec<String> {
    let tags = spec.tags.iter().take(50);
    tags.map(|(key, value)| format!("{key}={value}")).collect()
}

/// Most clusters have one kind of processor, so only the rarer one is asked for.
pub(super) fn node_selector(spec: &MachineSpec) -> BTreeMap<String, String> {
    let wanted = spec.os.as_ref().and_then(|os| os.architecture);
    let rare = wanted.filter(|a| *a == MachineArchitecture::Arm64);
    let label = |a: MachineArchitecture| ("kubernetes.io/arch".to_owned(), a.as_str().to_owned());
    rare.map(label).into_iter().collect()
}

/// Paths of fields that are set and do nothing.
pub(super) fn ignored(machine: &Machine, size: &Size) -> Vec<String> {
    let spec = &machine.spec;
    let backup = spec.backup.as_ref().and_then(|b| b.enabled);
    let image = spec.os.as_ref().is_some_and(|os| os.image_id.is_some());
    let mut found = vec![
        (
            spec.backup.is_some() && backup != Some(false),
            "spec.backup",
        ),
        (spec.monitoring == Some(true), "spec.monitoring"),
        (!spec.security_groups.is_empty(), "spec.securityGroups"),
        (spec.provider_config.is_some(), "spec.providerConfig"),
        (
            image && !boot::image_is_medium(machine),
            "spec.os.imageID without the annotation kubevirt.io/boot-source",
        ),
        (
            size.unnamed_gpu,
            "gpu of the MachineClass, whose manufacturer is no vendor/device",
        ),
    ];
    found.extend(network(spec));
    let named = found.into_iter().filter(|(set, _)| *set);
    let named = named.map(|(_, path)| path.to_owned());
    named.chain(disks(&spec.disks)).collect()
}

fn network(spec: &MachineSpec) -> Vec<(bool, &'static str)> {
    let network = spec.network.clone().unwrap_or_default();
    let groups = |i: &polyvirt_api::vitistack::MachineInterface| !i.security_groups.is_empty();
    vec![
        (
            network.assign_public_ip == Some(true),
            "spec.network.assignPublicIP",
        ),
        (network.private_ip.is_some(), "spec.network.privateIP"),
        (network.public_ip.is_some(), "spec.network.publicIP"),
        (network.subnet.is_some(), "spec.network.subnet"),
        (network.vpc.is_some(), "spec.network.vpc"),
        (network.interfaces.len() > 1, "spec.network.interfaces[1]"),
        (
            network.interfaces.iter().any(groups),
            "spec.network.interfaces[].securityGroups",
        ),
    ]
}

fn disks(disks: &[MachineDisk]) -> impl Iterator<Item = String> {
    let any = |set: fn(&MachineDisk) -> bool| disks.iter().any(set);
    let found = [
        (any(|d| d.encrypted == Some(true)), "spec.disks[].encrypted"),
        (any(|d| d.iops.is_some()), "spec.disks[].iops"),
        (any(|d| d.throughput.is_some()), "spec.disks[].throughput"),
        (any(|d| d.device.is_some()), "spec.disks[].device"),
    ];
    let named = found.into_iter().filter(|(set, _)| *set);
    named.map(|(_, path)| path.to_owned())
}
