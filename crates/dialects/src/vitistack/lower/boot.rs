//! Firmware, machine type, and what is tried for boot.

use polyvirt_api::kubevirt::{BootDevice, Cdrom, Features, KubevirtOptions};
use polyvirt_api::vitistack::{
    BOOT_SOURCE_ANNOTATION, BOOT_SOURCE_TYPE_ANNOTATION, CDROM_EJECTED_ANNOTATION, Machine,
    MachineBootDevice, MachineSpec, OS_INSTALLED_ANNOTATION,
};

/// What nearly every installation medium fits in, for one whose server does not tell how big it is.
const MEDIUM_BYTES: u64 = 8 << 30;
const GIB: u64 = 1 << 30;

pub(super) struct FirmwareWish {
    pub efi: bool,
    pub secure_boot: bool,
}

/// EFI unless somebody says BIOS.
pub(super) fn firmware(spec: &MachineSpec) -> FirmwareWish {
    let domain = spec.domain.as_ref();
    let loader = domain.and_then(|d| d.firmware.as_ref()?.bootloader.clone());
    let loader = loader.unwrap_or_default();
    let secure_boot = loader.secure_boot.unwrap_or(false);
    FirmwareWish {
        efi: secure_boot || loader.efi.unwrap_or(true),
        secure_boot,
    }
}

pub(super) fn machine_type(spec: &MachineSpec) -> Option<String> {
    let machine = spec.domain.as_ref()?.machine.as_ref()?;
    machine.type_.clone().filter(|t| !t.is_empty())
}

pub(super) fn features(spec: &MachineSpec) -> Option<Features> {
    let features = spec.domain.as_ref()?.features.as_ref()?;
    Some(Features {
        acpi: features.acpi,
        apic: features.apic,
        hyperv: features.hyperv,
    })
}

/// As listed; else the disk, then the medium, or the network where there is no image at all.
pub(super) fn order(spec: &MachineSpec, cdrom: Option<&Cdrom>) -> Vec<BootDevice> {
    if !spec.boot_order.is_empty() {
        return spec.boot_order.iter().copied().map(device).collect();
    }
    let has_image = spec
        .os
        .as_ref()
        .is_some_and(|os| given(os.image_id.as_deref()));
    let mut order = vec![BootDevice::Disk];
    order.extend(cdrom.map(|_| BootDevice::Cdrom));
    if !has_image && cdrom.is_none() {
        order.push(BootDevice::Network);
    }
    order
}

const fn device(wish: MachineBootDevice) -> BootDevice {
    match wish {
        MachineBootDevice::Disk => BootDevice::Disk,
        MachineBootDevice::Network => BootDevice::Network,
        MachineBootDevice::Cdrom => BootDevice::Cdrom,
    }
}

fn given(text: Option<&str>) -> bool {
    text.is_some_and(|t| !t.is_empty())
}

/// The installation medium, until somebody says that it has done its work. The size that it was given once stays.
pub(super) fn cdrom(
    machine: &Machine,
    vm_name: &str,
    before: Option<&KubevirtOptions>,
    told: Option<u64>,
) -> Option<Cdrom> {
    let url = medium(machine)?;
    let known = before.and_then(|b| b.cdrom.as_ref());
    let known = known.filter(|cdrom| cdrom.url == url);
    Some(Cdrom {
        name: "cdrom-iso".to_owned(),
        claim: format!("{vm_name}-iso"),
        size_bytes: known.map_or_else(|| room_for(told), |cdrom| cdrom.size_bytes),
        url,
    })
}

/// A tenth more than what the server tells, in whole GiB.
fn room_for(told: Option<u64>) -> u64 {
    let told = told.filter(|bytes| *bytes > 0);
    let roomy = told.map(|bytes| bytes.saturating_add(bytes.div_ceil(10)));
    roomy.map_or(MEDIUM_BYTES, |bytes| {
        bytes.div_ceil(GIB).saturating_mul(GIB)
    })
}

/// Whether spec.os.imageID is a medium. Without the annotation nobody knows what it is.
pub(super) fn image_is_medium(machine: &Machine) -> bool {
    annotation(machine, BOOT_SOURCE_ANNOTATION) == Some("datavolume")
}

/// The address of the installation medium that a Machine has now.
pub fn medium(machine: &Machine) -> Option<String> {
    let done = [CDROM_EJECTED_ANNOTATION, OS_INSTALLED_ANNOTATION];
    if done.iter().any(|a| annotation(machine, a) == Some("true")) {
        return None;
    }
    let os = machine.spec.os.as_ref()?;
    let image = os.image_id.clone().filter(|_| image_is_medium(machine));
    let address = image.or_else(|| os.iso_uri.clone());
    let address = address.filter(|a| !a.is_empty())?;
    let registry = annotation(machine, BOOT_SOURCE_TYPE_ANNOTATION) == Some("registry");
    if registry && !address.contains("://") {
        return Some(format!("docker://{address}"));
    }
    Some(address)
}

fn annotation<'a>(machine: &'a Machine, name: &str) -> Option<&'a str> {
    let annotations = machine.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medium_gets_a_tenth_more_room_in_whole_gib() {
        for (told, gib) in [
            (None, 8),
            (Some(0), 8),
            (Some(1), 1),
            (Some(GIB), 2),
            (Some(700 << 20), 1),
            (Some(4 * GIB + 1), 5),
        ] {
            assert_eq!(room_for(told), gib * GIB, "{told:?}");
        }
        assert_eq!(room_for(Some(u64::MAX)) % GIB, GIB - 1, "bounded");
    }
}
