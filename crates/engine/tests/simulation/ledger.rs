//! What really happened, as nobody in the simulated world can know it all; and the promises that were broken.

use std::collections::{BTreeMap, BTreeSet};

use polyvirt_contract::model::VmState;
use polyvirt_contract::{Identity, RequestId, VmId};

/// A VM that a call of the manager made.
#[derive(Clone, Debug)]
pub struct Made {
    /// For whom. `None` would be a VM that nobody can find again.
    pub identity: Option<Identity>,
}

/// What people did to a VM behind our back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meddled {
    pub power: bool,
    pub size: bool,
    pub deleted: bool,
}

/// A reboot that a user asked for while the VM ran.
#[derive(Clone, Debug)]
pub struct RebootAsked {
    /// The object.
    pub uid: String,
    pub value: String,
    pub vm: VmId,
    /// How often the VM had been started then.
    pub boots: u64,
}

/// What really happened.
#[derive(Default)]
pub struct Ledger {
    pub made: BTreeMap<VmId, Made>,
    pub strangers: BTreeMap<VmId, VmState>,
    pub meddled: BTreeMap<VmId, Meddled>,
    /// Identities whose VM may stay without an object: retained, or left behind by force.
    pub left_behind: BTreeSet<Identity>,
    /// Reboots and restarts that were sent, by VM.
    pub restarts_sent: BTreeMap<VmId, BTreeSet<RequestId>>,
    pub reboots: Vec<RebootAsked>,
    /// How often a provider began to bring an image in, by source.
    pub imports: BTreeMap<String, u64>,
    /// Restarts of the provider, and imports that ended badly: each allows one more import.
    pub import_excuses: u64,
    /// Imports that the provider refused though nothing was wrong: each uses up one of the attempts.
    pub imports_refused: u64,
    /// How often a size was changed where no object's generation moves.
    pub class_edits: u64,
    /// Corrections of drift that were reported.
    pub corrections: u64,
    violations: Vec<String>,
}

impl Ledger {
    pub fn violation(&mut self, text: String) {
        self.violations.push(text);
    }

    pub fn first_violation(&self) -> Option<&String> {
        self.violations.first()
    }

    pub fn meddled(&mut self, vm: &VmId) -> &mut Meddled {
        self.meddled.entry(vm.clone()).or_default()
    }

    /// For whom a VM was made.
    pub fn identity(&self, vm: &VmId) -> Option<&Identity> {
        self.made.get(vm).and_then(|made| made.identity.as_ref())
    }

    /// What people did to the VMs of an identity.
    pub fn meddling_with(&self, identity: &Identity) -> Meddled {
        let mut sum = Meddled::default();
        for (id, what) in &self.meddled {
            if self.identity(id) == Some(identity) {
                sum.power |= what.power;
                sum.size |= what.size;
                sum.deleted |= what.deleted;
            }
        }
        sum
    }
}
