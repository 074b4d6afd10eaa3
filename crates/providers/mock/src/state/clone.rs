//! Copies of VMs.

use std::time::Duration;

use polyvirt_contract::model::{CloneMode, CloneVm, Cloned};
use polyvirt_contract::{ProviderError, Result};
use serde::Deserialize;

use crate::state::vm::{Power, Stage, Vm, VmKey, Volatile};
use crate::state::{Seed, State};

/// The part of a guest customization that acts in the mock.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Customization {
    hostname: String,
    tags: Vec<String>,
}

impl State {
    /// Copies a VM; like `create` it finds the copy that its owner has already.
    pub(crate) fn clone_vm(&mut self, now: Duration, request: &CloneVm) -> Result<Cloned> {
        let identity = request.owner.as_ref().map(|owner| &owner.identity);
        if let Some(found) = self.already_there(identity, &request.target_name)? {
            return Ok(Cloned {
                id: found.id,
                task: found.task,
            });
        }
        let copy = self.copy(request)?;
        let begun = self.begin(now, copy, self.times.clone)?;
        Ok(Cloned {
            id: begun.id,
            task: begun.task,
        })
    }

    fn copy(&self, request: &CloneVm) -> Result<Vm> {
        let source = self.vm(self.key(&request.source)?)?;
        if request.target_name.is_empty() {
            return Err(ProviderError::invalid(
                "spec.target.name",
                "A clone needs a name",
            ));
        }
        let customization = customization(&request.customize_json)?;
        let mut copy = as_new(source, VmKey(self.numbers.vm + 1), request);
        resize(&mut copy, request)?;
        customize(&mut copy, customization);
        let host = request.placement.as_ref().map_or("", |place| &place.host);
        copy.host = self.hosts.place(&copy.hardware, host)?;
        Ok(copy)
    }
}

/// A copy is off, unmarked by its source, and has cards of its own.
fn as_new(source: &Vm, key: VmKey, request: &CloneVm) -> Vm {
    let mut copy = Vm {
        key,
        name: request.target_name.as_str().into(),
        owner: request.owner.clone().map(Box::new),
        stage: Stage::Creating,
        power: Power::Off,
        boots: 0,
        hardware: source.reserved().clone(),
        pending: None,
        backing: (request.mode == CloneMode::Linked).then_some(source.key),
        snapshots: Vec::new(),
        last_request: None,
        volatile: Volatile::default(),
        ..source.clone()
    };
    for nic in &mut copy.hardware.nics {
        nic.mac = "".into();
        nic.ip = "".into();
        nic.setup = "".into();
    }
    copy
}

fn resize(copy: &mut Vm, request: &CloneVm) -> Result<()> {
    let Some(class) = &request.class else {
        return Ok(());
    };
    if class.cpu == 0 || class.memory_mib == 0 {
        let message = "The class of a clone needs CPUs and memory";
        return Err(ProviderError::invalid("spec.target.classRef", message));
    }
    copy.hardware.cpu = class.cpu;
    copy.hardware.memory_mib = class.memory_mib;
    let root = class.disk_defaults.as_ref().map_or(0, |disk| disk.size_gib);
    copy.hardware.root_gib = copy.hardware.root_gib.max(root);
    Ok(())
}

fn customization(json: &str) -> Result<Customization> {
    if json.trim().is_empty() {
        return Ok(Customization::default());
    }
    serde_json::from_str(json).map_err(|error| {
        let message = format!("The customization cannot be read: {error}");
        ProviderError::invalid("spec.customization", message)
    })
}

fn customize(copy: &mut Vm, customization: Customization) {
    if !customization.tags.is_empty() {
        copy.tags = customization.tags.into_iter().map(Into::into).collect();
    }
    if customization.hostname.is_empty() {
        return;
    }
    let nothing = || Box::new(Seed::new(false, b"", b"", b""));
    let seed = copy.seed.get_or_insert_with(nothing);
    seed.hostname = customization.hostname.into();
}
