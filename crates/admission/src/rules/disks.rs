//! Disks of one VM, side by side.

use std::collections::HashMap;

use polyvirt_api::infra::{DiskSpec, ScsiConfig};
use polyvirt_plan::Problem;

use super::invalid;

/// Two disks on one controller must agree on what it is.
pub(super) fn problems(field: &str, disks: &[DiskSpec]) -> Vec<Problem> {
    let mut first: HashMap<i32, (&str, &ScsiConfig)> = HashMap::new();
    let mut found = Vec::new();
    for disk in disks {
        let Some((scsi, number)) = placed(disk) else {
            continue;
        };
        let (other, there) = *first.entry(number).or_insert((&disk.name, scsi));
        if there.controller_type != scsi.controller_type || there.shared_bus != scsi.shared_bus {
            let text = format!(
                "Disk {other} describes controller {number} differently. Write the same controllerType and sharedBus for both"
            );
            found.push(invalid(format!("{field}[{}].scsi", disk.name), text));
        }
    }
    found
}

fn placed(disk: &DiskSpec) -> Option<(&ScsiConfig, i32)> {
    let scsi = disk.scsi.as_ref()?;
    Some((scsi, scsi.controller?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_controller_is_of_one_kind() {
        let disks: Vec<DiskSpec> = serde_json::from_value(json!([
            {"name": "a", "sizeGiB": 1, "scsi": {"controller": 0}},
            {"name": "b", "sizeGiB": 1, "scsi": {"controller": 0, "controllerType": "lsilogic"}},
            {"name": "c", "sizeGiB": 1, "scsi": {"controller": 1, "controllerType": "lsilogic"}},
            {"name": "d", "sizeGiB": 1, "scsi": {"controllerType": "buslogic"}},
        ]))
        .expect("disks");
        let found = problems("spec.disks", &disks);
        let fields: Vec<_> = found.into_iter().map(|p| p.field).collect();
        assert_eq!(fields, ["spec.disks[b].scsi"]);
    }
}
