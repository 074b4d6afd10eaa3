//! Copies of VMs.

use std::time::Duration;

use polyvirt_contract::Result;
use polyvirt_contract::model::{CloneMode, CloneVm, Cloned};
use polyvirt_contract::rules::{self, CloneSize, Customization};
use polyvirt_provider_kit::lineage::Lineage;

use crate::state::vm::{Power, Stage, Vm, VmKey, Volatile};
use crate::state::{Seed, State};

/// The fields of a guest customization that act in the mock.
const CUSTOMIZES: &[&str] = &["hostname", "tags[]"];

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
        let wish = rules::read_clone(request, CUSTOMIZES)?;
        let mut copy = as_new(source, VmKey(self.numbers.vm + 1), request);
        if let Some(size) = wish.size {
            resize(&mut copy, size);
        }
        customize(&mut copy, wish.customization);
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
        devices: None,
        backing: (request.mode == CloneMode::Linked).then_some(source.key),
        snapshots: Vec::new(),
        lineage: Lineage::default(),
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

fn resize(copy: &mut Vm, size: CloneSize) {
    copy.hardware.cpu = size.cpu;
    copy.hardware.memory_mib = size.memory_mib;
    copy.hardware.root_gib = copy.hardware.root_gib.max(size.root_gib);
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
