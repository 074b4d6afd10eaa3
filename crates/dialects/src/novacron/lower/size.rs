//! CPU, memory and the sizes of disks.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use polyvirt_api::infra::{DiskDefaults, VMClassSpec};
use polyvirt_api::novacron::Resources;
use polyvirt_plan::quantity;

use super::error::LowerError;

const MOST_CPUS: i32 = 128;
const LEAST_MEMORY: u64 = 1;
const MOST_GIB: u64 = 65_536;

/// The class that only this VM has.
pub(super) fn class(resources: &Resources) -> Result<VMClassSpec, LowerError> {
    Ok(VMClassSpec {
        cpu: cpu(resources.cpu)?,
        memory: memory(&resources.memory)?,
        disk_defaults: Some(DiskDefaults {
            size: first_disk(&resources.disk)?,
            ..DiskDefaults::default()
        }),
        ..VMClassSpec::default()
    })
}

fn cpu(count: i32) -> Result<i32, LowerError> {
    if (1..=MOST_CPUS).contains(&count) {
        return Ok(count);
    }
    let message = format!("A VM has 1 to {MOST_CPUS} CPUs, and this says {count}");
    Err(LowerError::invalid(
        "spec.template.spec.resources.cpu",
        message,
    ))
}

fn memory(text: &str) -> Result<Quantity, LowerError> {
    let field = "spec.template.spec.resources.memory";
    let wanted = Quantity(text.to_owned());
    let mib =
        quantity::mebibytes(&wanted).map_err(|e| LowerError::invalid(field, e.to_string()))?;
    let bytes = quantity::bytes_ceil(&wanted).unwrap_or_default();
    if mib < LEAST_MEMORY || bytes < 1 << 20 {
        let message = "A VM has 1Mi of memory at least. Write the unit, such as 4Gi";
        return Err(LowerError::invalid(field, message));
    }
    Ok(wanted)
}

fn first_disk(text: &str) -> Result<Quantity, LowerError> {
    gibibytes("spec.template.spec.resources.disk", text)?;
    Ok(Quantity(text.to_owned()))
}

/// A size of a disk in whole GiB.
pub(super) fn gibibytes(field: &str, text: &str) -> Result<i32, LowerError> {
    let wanted = Quantity(text.to_owned());
    let gib = quantity::gibibytes_ceil(&wanted);
    let gib = gib.map_err(|e| LowerError::invalid(field, e.to_string()))?;
    if gib == 0 || gib > MOST_GIB {
        let message = format!("A disk has 1Gi to {MOST_GIB}Gi, and this says {text:?}");
        return Err(LowerError::invalid(field, message));
    }
    i32::try_from(gib).map_err(|e| LowerError::invalid(field, e.to_string()))
}
