//! What a VM was placed for: devices of its node. Which node is in [`crate::map::seat`].

use polyvirt_api::kubevirt::Device;
use serde_json::{Value, json};

use crate::kinds::{items, text};
use crate::map::to_kubevirt::Wish;

const GPUS: &str = "/spec/template/spec/domain/devices/gpus";
/// How devices are called that a VM was placed for, with a number behind it.
const PLACED: &str = "device";

impl Wish<'_> {
    /// Those of the options, and those that the VM was placed for: their names are the cluster's own. KubeVirt passes whatever
    /// has such a name, card or not. A change that does not say what the VM was placed for leaves it what it has.
    pub(super) fn gpus(&self) -> Vec<Value> {
        let asked = self.asked();
        let kept = if asked.is_empty() { self.kept() } else { asked };
        let own = self.options.gpus.iter().map(device);
        own.chain(kept).collect()
    }

    fn asked(&self) -> Vec<Value> {
        let placed = self.request.placement.iter().flat_map(|p| &p.devices);
        let each = placed.flat_map(|(name, number)| (0..*number).map(move |_| name));
        let named = each.enumerate().map(|(place, name)| Device {
            name: format!("{PLACED}{place}"),
            device_name: name.clone(),
        });
        named.map(|found| device(&found)).collect()
    }

    fn kept(&self) -> Vec<Value> {
        let live = self.live.map_or(&[][..], |live| items(live, GPUS));
        let own = |name: &str| self.options.gpus.iter().any(|gpu| gpu.name == name);
        let placed = live.iter().filter(|entry| {
            let name = text(entry, "/name");
            is_placed(name) && !own(name)
        });
        placed.cloned().collect()
    }
}

fn is_placed(name: &str) -> bool {
    let number = name.strip_prefix(PLACED);
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// As it stands in a VirtualMachine.
pub(super) fn device(device: &Device) -> Value {
    json!({"name": device.name, "deviceName": device.device_name})
}
