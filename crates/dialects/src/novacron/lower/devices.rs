//! Devices of the node that are given to the VM.

use polyvirt_api::infra::{DeviceRequest, DeviceType};
use polyvirt_api::kubevirt;
use polyvirt_api::novacron::Device;

use super::error::LowerError;

pub(super) const FIELD: &str = "spec.template.spec.devices";
const MOST: i32 = 8;
/// As many as our API takes.
pub(super) const MOST_KINDS: usize = 8;

/// Devices, as KubeVirt names them and as everybody else is asked for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lowered {
    /// What is asked for, entry by entry.
    pub requests: Vec<DeviceRequest>,
    /// GPUs by the name of their resource.
    pub gpus: Vec<kubevirt::Device>,
    /// Other devices by the name of their resource.
    pub others: Vec<kubevirt::Device>,
}

/// What is asked for, or what of it can never be.
pub(super) fn resolve(devices: &[Device]) -> Result<Lowered, LowerError> {
    let mut found = Lowered::default();
    if devices.len() > MOST_KINDS {
        let message = format!("A VM has {MOST_KINDS} kinds of devices at most");
        return Err(LowerError::invalid(FIELD, message));
    }
    for (index, device) in devices.iter().enumerate() {
        let count = count(index, device)?;
        found.requests.push(request(index, device, count));
        let list = if kind(device) == Some(DeviceType::Gpu) {
            &mut found.gpus
        } else {
            &mut found.others
        };
        name(list, device, count);
    }
    Ok(found)
}

fn count(index: usize, device: &Device) -> Result<i32, LowerError> {
    if (1..=MOST).contains(&device.count) {
        return Ok(device.count);
    }
    let message = format!("Write a number from 1 to {MOST}, or take the entry away");
    let field = format!("{FIELD}[{index}].count");
    Err(LowerError::invalid(field, message))
}

fn kind(device: &Device) -> Option<DeviceType> {
    match device.type_.to_ascii_lowercase().as_str() {
        "gpu" => Some(DeviceType::Gpu),
        "sriov" | "sr-iov" => Some(DeviceType::Sriov),
        _ => None,
    }
}

/// A type that nobody knows is a model, if nothing else is said: never just any device.
fn request(index: usize, device: &Device, count: i32) -> DeviceRequest {
    let kind = kind(device);
    let said = kind.is_some() || device.vendor.is_some();
    let type_ = (!said).then(|| device.type_.clone());
    DeviceRequest {
        name: format!("device-{}", index + 1),
        type_: kind,
        vendor: device.vendor.clone(),
        model: device.model.clone().or(type_),
        count,
    }
}

/// `nvidia.com/tesla-t4`, as device plugins offer it. A model with a slash is such a name itself.
fn name(list: &mut Vec<kubevirt::Device>, device: &Device, count: i32) {
    let model = device.model.as_deref().unwrap_or(&device.type_);
    let device_name = match (&device.vendor, model.contains('/')) {
        (_, true) | (None, _) => model.to_owned(),
        (Some(vendor), false) if vendor.contains('.') => format!("{vendor}/{model}"),
        (Some(vendor), false) => format!("{}.com/{model}", vendor.to_ascii_lowercase()),
    };
    for _ in 0..count {
        let name = format!(
            "{}{}",
            crate::shared::names::label(&device.type_),
            list.len() + 1
        );
        list.push(kubevirt::Device {
            name,
            device_name: device_name.clone(),
        });
    }
}
