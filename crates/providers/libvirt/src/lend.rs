//! Which devices of the host a new VM gets. Asked while nobody else makes a VM.

use std::collections::{BTreeMap, BTreeSet};

use polyvirt_contract::model::CreateVm;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::devices::DeviceAddress;

use crate::core::Core;
use crate::domain::tuning;

const EXTRA: &str = "class.extraConfig";

/// The devices that the request names by kind, and those that its class names by address.
pub(crate) fn devices(core: &Core, request: &CreateVm) -> Result<Vec<DeviceAddress>> {
    let mut taken = taken(core);
    let named = tuning::extra(&request.class)?.hostdevs;
    for device in &named {
        may_have(core, device, &taken)?;
        taken.insert(device.clone());
    }
    let nothing = BTreeMap::new();
    let asked = request.placement.as_ref().map(|place| &place.devices);
    let mut chosen = core
        .config
        .devices
        .choose(asked.unwrap_or(&nothing), &taken)?;
    chosen.extend(named);
    Ok(chosen)
}

/// What some domain has, ours or not, running or not: at its next start it wants it back.
fn taken(core: &Core) -> BTreeSet<DeviceAddress> {
    let all = core.all().into_iter();
    let configs = all.filter_map(|vm| vm.config().ok());
    configs.flat_map(|config| config.hostdevs.clone()).collect()
}

/// A class may name only what the operator lends, for whoever writes classes need not be the operator.
fn may_have(core: &Core, device: &DeviceAddress, taken: &BTreeSet<DeviceAddress>) -> Result<()> {
    if !core.config.devices.has(device) {
        let message = format!(
            "libvirt.hostdev names {device}, which this host does not lend; add NAME@{device} to the option devices of the Provider's endpoint"
        );
        return Err(ProviderError::invalid(EXTRA, message));
    }
    if taken.contains(device) {
        let message = format!("libvirt.hostdev names {device}, which another VM has");
        return Err(ProviderError::new(ErrorKind::Exhausted, message).at(EXTRA));
    }
    Ok(())
}
