//! What people and machines do on the hypervisor behind everybody's back.

use std::sync::Arc;

use polyvirt_contract::VmId;
use polyvirt_contract::model::VmState;
use polyvirt_engine::runtime::key::Kind;
use polyvirt_plan::virtual_machine::desired::hypervisor_name;
use serde_json::Value;

use crate::rng::Rng;
use crate::world::Sim;

#[derive(Clone, Copy, Debug)]
enum Trick {
    PowerOff,
    PowerOn,
    Resize,
    Delete,
    Stranger,
    RemoveStranger,
    Restart,
    HangGuest,
    BreakStream,
}

const TRICKS: [(u64, Trick); 9] = [
    (5, Trick::PowerOff),
    (3, Trick::PowerOn),
    (4, Trick::Resize),
    (3, Trick::Delete),
    (4, Trick::Stranger),
    (1, Trick::RemoveStranger),
    (4, Trick::Restart),
    (3, Trick::HangGuest),
    (3, Trick::BreakStream),
];

/// Whoever meddles.
pub struct Meddler {
    pub sim: Arc<Sim>,
}

impl Meddler {
    /// Does something. `passes` tells how many passes are under way.
    pub fn act(&self, rng: &mut Rng, passes: usize) {
        let Some(trick) = rng.weighted(TRICKS.to_vec()) else {
            return;
        };
        let name = format!("{trick:?}");
        self.sim.world().summary.count("hypervisor", &name);
        self.sim.note(|| format!("hypervisor: {name}"));
        match trick {
            Trick::Stranger => self.add_stranger(rng, passes),
            Trick::RemoveStranger => self.remove_stranger(),
            Trick::Restart => self.restart(),
            Trick::BreakStream => self.sim.mock.faults().break_watches(),
            trick => self.trick_a_vm(trick, rng),
        }
    }

    /// The provider's process dies and starts anew: tasks are forgotten, imports in flight are lost.
    pub fn restart(&self) {
        self.sim.world().ledger.import_excuses += 1;
        self.sim.mock.restart();
    }

    fn trick_a_vm(&self, trick: Trick, rng: &mut Rng) {
        let ours: Vec<VmState> = {
            let vms = self.sim.mock.vms();
            let world = self.sim.world();
            vms.into_iter()
                .filter(|vm| world.ledger.made.contains_key(&vm.id))
                .collect()
        };
        if ours.is_empty() {
            return;
        }
        let vm = &rng.pick(&ours).id;
        self.sim.note(|| format!("  to {vm}"));
        match trick {
            Trick::PowerOff => self.power_off(vm),
            Trick::PowerOn => self.power_on(vm),
            Trick::Resize => self.resize(vm, rng.between(1, 6)),
            Trick::Delete => self.delete(vm),
            _ => drop(self.sim.mock.faults().hang_guest(vm)),
        }
    }

    pub fn power_off(&self, vm: &VmId) {
        self.sim.world().ledger.meddled(vm).power = true;
        let _ = self.sim.mock.out_of_band().power_off(vm);
    }

    pub fn power_on(&self, vm: &VmId) {
        self.sim.world().ledger.meddled(vm).power = true;
        let _ = self.sim.mock.out_of_band().power_on(vm);
    }

    pub fn resize(&self, vm: &VmId, cpu: u64) {
        self.sim.world().ledger.meddled(vm).size = true;
        let cpu = u32::try_from(cpu).unwrap_or(1);
        let _ = self.sim.mock.out_of_band().resize(vm, cpu, 3072);
    }

    pub fn delete(&self, vm: &VmId) {
        self.sim.world().ledger.meddled(vm).deleted = true;
        let _ = self.sim.mock.out_of_band().delete(vm);
    }

    /// A VM under the name that an object is about to use. Where VMs carry no identities, nobody can tell it from ours if
    /// it comes between our look at the name and our create; so there it comes before that.
    fn add_stranger(&self, rng: &mut Rng, passes: usize) {
        let basic = self.sim.setting.is_basic();
        if basic && passes > 0 {
            return;
        }
        let names: Vec<String> = {
            let world = self.sim.world();
            let objects = world.api.list(Kind::VirtualMachine);
            let open = objects.filter(|(_, vm)| !basic || vm["status"]["createIntent"].is_null());
            open.map(|(key, vm)| name_of(key.namespace(), key.name(), vm))
                .collect()
        };
        if !names.is_empty() {
            self.make_stranger(&rng.pick(&names).clone());
        }
    }

    pub fn make_stranger(&self, name: &str) {
        if let Ok(id) = self.sim.mock.out_of_band().create_stranger(name)
            && let Some(vm) = self.sim.mock.vm(&id)
        {
            self.sim.note(|| format!("  stranger {id} named {name}"));
            self.sim.world().ledger.strangers.insert(id, vm);
        }
    }

    fn remove_stranger(&self) {
        let stranger = self.sim.world().ledger.strangers.pop_first();
        if let Some((id, _)) = stranger {
            let _ = self.sim.mock.out_of_band().delete(&id);
        }
    }
}

/// The name of an object's VM on the hypervisor.
pub fn name_of(namespace: &str, name: &str, vm: &Value) -> String {
    let provider = serde_json::from_value(vm["spec"]["providerRef"].clone()).expect("a reference");
    hypervisor_name(namespace, name, &provider)
}
