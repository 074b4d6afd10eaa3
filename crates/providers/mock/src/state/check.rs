//! Refuses what can never work, and says which field is at fault.

use std::collections::BTreeSet;
use std::net::IpAddr;

use polyvirt_contract::model::{CreateVm, DiskSpec, NicSpec};
use polyvirt_contract::rules::{DiskSizes, only_grows};
use polyvirt_contract::{ProviderError, Result};

use crate::state::vm::{Hardware, name_or_place};

/// Whether the request makes sense by itself.
pub(crate) fn request(request: &CreateVm) -> Result<()> {
    size(request)?;
    let mut names = BTreeSet::new();
    for (place, disk) in request.disks.iter().enumerate() {
        check_disk(place, disk)?;
        let name = name_or_place(&disk.name, "disk", place);
        unique(&mut names, name, &format!("spec.disks[{place}].name"))?;
    }
    let mut names = BTreeSet::new();
    for (place, nic) in request.networks.iter().enumerate() {
        check_nic(place, nic)?;
        let name = name_or_place(&nic.name, "nic", place);
        unique(&mut names, name, &format!("spec.networks[{place}].name"))?;
    }
    Ok(())
}

fn size(request: &CreateVm) -> Result<()> {
    if request.name.is_empty() {
        return Err(invalid("metadata.name", "A VM needs a name"));
    }
    if request.class.cpu == 0 {
        return Err(invalid("spec.resources.cpu", "A VM needs at least one CPU"));
    }
    if request.class.memory_mib == 0 {
        return Err(invalid("spec.resources.memoryMiB", "A VM needs memory"));
    }
    Ok(())
}

fn check_disk(place: usize, disk: &DiskSpec) -> Result<()> {
    if disk.size_gib == 0 {
        let field = format!("spec.disks[{place}].sizeGiB");
        return Err(invalid(field, "A disk needs a size of at least 1 GiB"));
    }
    Ok(())
}

fn check_nic(place: usize, nic: &NicSpec) -> Result<()> {
    if !nic.mac.is_empty() && !is_mac(&nic.mac) {
        let message = format!(
            "{:?} is no MAC address; write six pairs of hex digits",
            nic.mac
        );
        return Err(invalid(
            format!("spec.networks[{place}].macAddress"),
            message,
        ));
    }
    let bad_ip = nic
        .address
        .as_ref()
        .filter(|address| address.ip.parse::<IpAddr>().is_err());
    if let Some(address) = bad_ip {
        let message = format!("{:?} is no IP address", address.ip);
        return Err(invalid(
            format!("spec.networks[{place}].ipAddress"),
            message,
        ));
    }
    Ok(())
}

fn is_mac(text: &str) -> bool {
    let pairs: Vec<&str> = text.split([':', '-']).collect();
    let hex = |pair: &&str| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    pairs.len() == 6 && pairs.iter().all(hex)
}

fn unique(seen: &mut BTreeSet<Box<str>>, name: Box<str>, field: &str) -> Result<()> {
    let message = format!("The name {name} is used twice");
    if seen.insert(name) {
        Ok(())
    } else {
        Err(invalid(field, message))
    }
}

/// Whether the VM can become what is wanted: disks only grow.
pub(crate) fn growth(has: &Hardware, wants: &Hardware) -> Result<()> {
    only_grows(&sizes(has), &sizes(wants))
}

fn sizes(hardware: &Hardware) -> DiskSizes<'_> {
    let disks = hardware.disks.iter();
    DiskSizes {
        root: hardware.root_gib,
        disks: disks.map(|disk| (&*disk.name, disk.size_gib)).collect(),
    }
}

fn invalid(field: impl Into<String>, message: impl Into<String>) -> ProviderError {
    ProviderError::invalid(field, message)
}
