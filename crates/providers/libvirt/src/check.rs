//! Refuses what can never work, and says which field is at fault.

use polyvirt_contract::model::{CreateVm, DiskSpec, DiskType, NicSpec};
use polyvirt_contract::rules::{DiskSizes, only_grows};
use polyvirt_contract::{ProviderError, Result};
use polyvirt_provider_kit::check;

use crate::domain::nic::model;
use crate::domain::{Marks, tuning};

const MOST_DISKS: usize = 24;

/// Whether the request makes sense by itself.
pub(crate) fn request(request: &CreateVm) -> Result<()> {
    check::request(request)?;
    tuning::extra(&request.class)?;
    if request.disks.len() > MOST_DISKS {
        let message = format!("A VM has at most {MOST_DISKS} disks beside the first");
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
        let message = "libvirt cannot choose the medium of a storage pool; ask for thin or thick, and name a pool by storageClass";
        return Err(ProviderError::invalid(field, message));
    }
    Ok(())
}

fn network(place: usize, nic: &NicSpec) -> Result<()> {
    if model(&nic.model).is_none() {
        return Err(check::no_such_card(&nic.model));
    }
    if nic.bridge.is_empty() && nic.vlan != 0 && nic.network.is_empty() {
        let field = format!("spec.networks[{place}].networkRef");
        let message = "A VLAN needs a bridge or a network of libvirt; user-mode networks have none";
        return Err(ProviderError::invalid(field, message));
    }
    Ok(())
}

/// Whether the VM can become what is wanted: disks only grow.
pub(crate) fn growth(has: &Marks, wants: &Marks) -> Result<()> {
    only_grows(&sizes(has), &sizes(wants))
}

fn sizes(marks: &Marks) -> DiskSizes<'_> {
    let disks = marks.disks.iter();
    DiskSizes {
        root: marks.root_gib,
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
