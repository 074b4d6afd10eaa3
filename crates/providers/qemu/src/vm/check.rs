//! Refuses what can never work, and says which field is at fault.

use polyvirt_contract::model::{CreateVm, DiskSpec, DiskType, NicSpec};
use polyvirt_contract::rules::{DiskSizes, only_grows};
use polyvirt_contract::{ProviderError, Result};
use polyvirt_provider_kit::check;

use crate::cmdline::PORTS;
use crate::state::Hardware;

/// Whether the request makes sense by itself.
pub(crate) fn request(request: &CreateVm) -> Result<()> {
    check::request(request)?;
    // The first disk has a port too.
    if request.disks.len() + request.networks.len() >= usize::from(PORTS) {
        let message = format!("Disks and cards together can be {} at most", PORTS - 1);
        return Err(ProviderError::invalid("spec.disks", message));
    }
    for (place, disk) in request.disks.iter().enumerate() {
        medium(place, disk)?;
    }
    for (place, nic) in request.networks.iter().enumerate() {
        network(place, nic)?;
    }
    Ok(())
}

fn medium(place: usize, disk: &DiskSpec) -> Result<()> {
    if matches!(disk.disk_type, DiskType::Ssd | DiskType::Hdd) {
        let field = format!("spec.disks[{place}].type");
        let message =
            "This provider has one datastore and cannot choose its medium; ask for thin or thick";
        return Err(ProviderError::invalid(field, message));
    }
    Ok(())
}

fn network(place: usize, nic: &NicSpec) -> Result<()> {
    if device(&nic.model).is_none() {
        return Err(check::no_such_card(&nic.model));
    }
    let field = format!("spec.networks[{place}].networkRef");
    let bridge = &nic.bridge;
    if bridge.is_empty() && !matches!(nic.network.as_str(), "" | "user" | "default") {
        let message = format!(
            "This provider knows no network {:?}; name a bridge of the host, or the network \"user\"",
            nic.network
        );
        return Err(ProviderError::invalid(field, message));
    }
    if bridge.is_empty() && nic.vlan != 0 {
        let message = "A VLAN needs a bridge; user-mode networks have none";
        return Err(ProviderError::invalid(field, message));
    }
    Ok(())
}

/// The device that QEMU has for a model; `None` if it has none.
pub(super) fn device(model: &str) -> Option<&'static str> {
    match model.to_ascii_lowercase().as_str() {
        "" | "virtio" | "virtio-net" | "virtio-net-pci" => Some("virtio-net-pci"),
        "e1000" => Some("e1000"),
        "e1000e" => Some("e1000e"),
        "rtl8139" => Some("rtl8139"),
        "vmxnet3" => Some("vmxnet3"),
        _ => None,
    }
}

/// Whether the VM can become what is wanted: disks only grow.
pub(super) fn growth(has: &Hardware, wants: &Hardware) -> Result<()> {
    only_grows(&sizes(has), &sizes(wants))
}

fn sizes(hardware: &Hardware) -> DiskSizes<'_> {
    let disks = hardware.disks.iter();
    DiskSizes {
        root: hardware.root_gib,
        disks: disks.map(|disk| (&*disk.name, disk.size_gib)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::model::ClassSpec;

    use super::*;

    fn sound() -> CreateVm {
        let class = ClassSpec {
            cpu: 1,
            memory_mib: 256,
            ..ClassSpec::default()
        };
        let nic = NicSpec {
            name: "eth0".to_owned(),
            ..NicSpec::default()
        };
        CreateVm {
            name: "web".to_owned(),
            class,
            networks: vec![nic],
            ..CreateVm::default()
        }
    }

    fn field_of(change: impl FnOnce(&mut CreateVm)) -> String {
        let mut vm = sound();
        change(&mut vm);
        let error = request(&vm).expect_err("refused");
        error.field.expect("a field")
    }

    #[test]
    fn what_can_never_work_names_its_field() {
        assert_eq!(request(&sound()), Ok(()));
        assert_eq!(field_of(|vm| vm.name.clear()), "metadata.name");
        assert_eq!(
            field_of(|vm| vm.networks[0].model = "ne2k".into()),
            "network.libvirt.model"
        );
        assert_eq!(
            field_of(|vm| vm.networks[0].vlan = 5),
            "spec.networks[0].networkRef"
        );
    }
}
