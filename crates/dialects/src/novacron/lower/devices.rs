//! Devices of the node that are given to the VM.

use polyvirt_api::infra::GpuConfig;
use polyvirt_api::kubevirt;
use polyvirt_api::novacron::Device;

use super::error::LowerError;

const MOST: i32 = 8;

/// Devices, as KubeVirt names them and as everybody else counts them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lowered {
    /// GPUs of one kind, for providers that count them.
    pub gpu: Option<GpuConfig>,
    /// GPUs by the name of their resource.
    pub gpus: Vec<kubevirt::Device>,
    /// Other devices by the name of their resource.
    pub others: Vec<kubevirt::Device>,
    /// Entries that only KubeVirt can give.
    pub only_named: Vec<usize>,
}

/// What is asked for, or what of it can never be.
pub(super) fn resolve(devices: &[Device]) -> Result<Lowered, LowerError> {
    let mut found = Lowered::default();
    for (index, device) in devices.iter().enumerate() {
        let count = count(index, device)?;
        let is_gpu = device.type_.eq_ignore_ascii_case("gpu");
        if !is_gpu || !counted(&mut found.gpu, device, count) {
            found.only_named.push(index);
        }
        let list = if is_gpu {
            &mut found.gpus
        } else {
            &mut found.others
        };
        name(list, device, count);
    }
    if found.gpu.as_ref().is_some_and(|gpu| gpu.count > MOST) {
        let message = format!("A VM has {MOST} GPUs at most");
        return Err(LowerError::invalid("spec.template.spec.devices", message));
    }
    Ok(found)
}

fn count(index: usize, device: &Device) -> Result<i32, LowerError> {
    if (1..=MOST).contains(&device.count) {
        return Ok(device.count);
    }
    let message = format!("Write a number from 1 to {MOST}, or take the entry away");
    let field = format!("spec.template.spec.devices[{index}].count");
    Err(LowerError::invalid(field, message))
}

/// Adds to the GPUs of one kind; `false` if these are of another.
fn counted(gpu: &mut Option<GpuConfig>, device: &Device, count: i32) -> bool {
    let type_ = model(device);
    match gpu {
        None => {
            *gpu = Some(GpuConfig {
                count,
                type_,
                memory: None,
            });
            true
        }
        Some(known) if known.type_ == type_ => {
            known.count += count;
            true
        }
        Some(_) => false,
    }
}

/// In the letters that our API takes.
fn model(device: &Device) -> Option<String> {
    let word = device.model.as_ref().or(device.vendor.as_ref())?;
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let word: String = word.chars().map(plain).collect();
    (!word.is_empty()).then_some(word)
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
