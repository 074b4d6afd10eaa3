//! Refuses what can never work, and says which field is at fault.

use std::collections::BTreeSet;
use std::net::IpAddr;

use polyvirt_api::kubevirt::{KubevirtOptions, OPTIONS_KEY};
use polyvirt_contract::model::{CreateVm, DiskSpec, NicSpec};
use polyvirt_contract::{ProviderError, Result};

use crate::map::cloud_init;
use crate::map::layout::Layout;
use crate::names;

/// Buses that KubeVirt takes.
const BUSES: &[&str] = &["virtio", "sata", "scsi", "usb"];

/// Whether the request makes sense by itself.
pub(crate) fn request(request: &CreateVm) -> Result<()> {
    if !names::is_name(&request.name) {
        let message = format!("KubeVirt cannot name a VM {:?}", request.name);
        return Err(ProviderError::invalid("metadata.name", message));
    }
    size(request)?;
    for (place, disk) in request.disks.iter().enumerate() {
        check_disk(place, disk)?;
    }
    for (place, nic) in request.networks.iter().enumerate() {
        check_nic(place, nic)?;
    }
    unique(
        request.networks.iter().map(|nic| nic.name.as_str()),
        "spec.networks",
    )
}

/// The settings that only KubeVirt knows.
pub(crate) fn options(request: &CreateVm) -> Result<KubevirtOptions> {
    KubevirtOptions::of(&request.class.extra_config).map_err(|error| {
        let message = format!("The entry {OPTIONS_KEY} cannot be read: {error}");
        ProviderError::invalid("class.extraConfig", message)
    })
}

/// Whether the volumes of a VM can live together.
pub(crate) fn layout(layout: &Layout) -> Result<()> {
    let volumes = layout.all().map(|disk| disk.volume.as_str());
    unique(volumes.chain([cloud_init::VOLUME]), "spec.disks")?;
    unique(layout.all().map(|disk| disk.claim.name()), "spec.disks")?;
    for disk in layout.all() {
        let bus = disk.bus.as_deref().unwrap_or("virtio");
        if !BUSES.contains(&bus) {
            let message = format!("KubeVirt has no bus {bus:?}; use {}", BUSES.join(", "));
            return Err(ProviderError::invalid("class.extraConfig", message));
        }
        if !names::is_label(&disk.volume) || !names::is_name(disk.claim.name()) {
            let message = format!("KubeVirt cannot name a disk {:?}", disk.volume);
            return Err(ProviderError::invalid("spec.disks", message));
        }
    }
    Ok(())
}

fn size(request: &CreateVm) -> Result<()> {
    let class = &request.class;
    if class.cpu == 0 {
        let message = "A VM needs at least 1 CPU";
        return Err(ProviderError::invalid("spec.resources.cpu", message));
    }
    if class.memory_mib == 0 {
        let message = "A VM needs at least 1 MiB of memory";
        return Err(ProviderError::invalid("spec.resources.memoryMiB", message));
    }
    let security = class.security.clone().unwrap_or_default();
    if security.require_encryption {
        let message = "Disks are as the storage class keeps them; choose one that encrypts, and take the demand away";
        let field = "class.securityProfile.encryptionPolicy.requireEncryption";
        return Err(ProviderError::invalid(field, message));
    }
    Ok(())
}

fn check_disk(place: usize, disk: &DiskSpec) -> Result<()> {
    let field = |name: &str| format!("spec.disks[{place}].{name}");
    if !names::is_label(&disk.name) {
        let message = format!(
            "{:?} can be no disk; write small letters, digits and dashes, 63 at most",
            disk.name
        );
        return Err(ProviderError::invalid(field("name"), message));
    }
    if disk.size_gib == 0 {
        let message = "A disk needs a size of at least 1 GiB";
        return Err(ProviderError::invalid(field("sizeGiB"), message));
    }
    Ok(())
}

fn check_nic(place: usize, nic: &NicSpec) -> Result<()> {
    let field = |name: &str| format!("spec.networks[{place}].{name}");
    if !names::is_label(&nic.name) {
        let message = format!(
            "{:?} can be no card; write small letters, digits and dashes, 63 at most",
            nic.name
        );
        return Err(ProviderError::invalid(field("name"), message));
    }
    if !nic.mac.is_empty() && !names::is_mac(&nic.mac) {
        let message = format!(
            "{:?} is no MAC address of a card; write six pairs of hex digits, the first an even number",
            nic.mac
        );
        return Err(ProviderError::invalid(field("macAddress"), message));
    }
    let ip = nic.address.as_ref().map(|address| address.ip.as_str());
    if ip.is_some_and(|ip| ip.parse::<IpAddr>().is_err()) {
        let message = format!("{:?} is no IP address", ip.unwrap_or_default());
        return Err(ProviderError::invalid(field("ipAddress"), message));
    }
    Ok(())
}

fn unique<'a>(names: impl Iterator<Item = &'a str>, field: &str) -> Result<()> {
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name) {
            let message = format!("The name {name:?} is there twice");
            return Err(ProviderError::invalid(field, message));
        }
    }
    Ok(())
}
