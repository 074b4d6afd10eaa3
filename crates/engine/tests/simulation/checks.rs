//! The promises: what must always hold, and what must hold at rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use polyvirt_api::names;
use polyvirt_contract::VmId;
use polyvirt_contract::model::{PowerState, VmState};
use polyvirt_engine::runtime::key::{Key, Kind, ObjectKey};
use polyvirt_provider_mock::Happened;
use serde_json::Value;

use crate::cluster::identity_of;
use crate::meddler::name_of;
use crate::objects;
use crate::oracle::Wanted;
use crate::schedule::Schedule;
use crate::user::boots;
use crate::world::Sim;

/// Refusals that use up an image's attempts.
const ATTEMPTS: u64 = 3;

/// What must hold after every move. The eyes at each effect have written down what did not.
pub fn always(sim: &Sim) -> Result<(), String> {
    sim.world()
        .ledger
        .first_violation()
        .map_or(Ok(()), |text| Err(text.clone()))
}

/// What must hold when nothing is left to do.
pub fn at_rest(schedule: &Schedule) -> Result<(), String> {
    let rest = Rest::observe(&schedule.sim);
    for (key, object) in &rest.objects {
        rest.check_object(key, object)
            .map_err(|why| format!("{key}: {why}"))?;
    }
    rest.check_vms()?;
    rest.check_reboots()?;
    rest.check_images()?;
    rest.check_counts()
}

/// Objects whose conflict is looked at again from time to time, for ever.
pub fn conflicting(sim: &Sim) -> BTreeSet<Key> {
    let world = sim.world();
    let objects = world.api.list(Kind::VirtualMachine);
    let conflict = |object: &Value| {
        matches!(
            ready(object).1.as_str(),
            "NameConflict" | "IdentityConflict"
        )
    };
    objects
        .filter(|(_, object)| conflict(object))
        .map(|(key, _)| Key::new(Kind::VirtualMachine, key.clone()))
        .collect()
}

/// Truth and reason of the condition Ready.
pub fn ready(object: &Value) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|c| c["type"] == "Ready");
    let text = |field: &str| {
        ready
            .and_then(|c| c[field].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    (text("status"), text("reason"))
}

fn is_set(object: &Value, annotation: &str) -> bool {
    object["metadata"]["annotations"][annotation] == "true"
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The world at rest.
struct Rest<'a> {
    sim: &'a Arc<Sim>,
    objects: Vec<(ObjectKey, Arc<Value>)>,
    vms: Vec<VmState>,
}

impl<'a> Rest<'a> {
    fn observe(sim: &'a Arc<Sim>) -> Self {
        let objects = sim
            .world()
            .api
            .list(Kind::VirtualMachine)
            .map(|(k, o)| (k.clone(), o.clone()))
            .collect();
        Self {
            sim,
            objects,
            vms: sim.mock.vms(),
        }
    }

    /// The VMs that were made for an object.
    fn vms_of(&self, object: &Value) -> Vec<&VmState> {
        let identity = identity_of(object);
        let world = self.sim.world();
        self.vms
            .iter()
            .filter(|vm| world.ledger.identity(&vm.id) == Some(&identity))
            .collect()
    }

    fn check_object(&self, key: &ObjectKey, object: &Value) -> Result<(), String> {
        let (truth, reason) = ready(object);
        let word = if truth == "True" {
            "Ready"
        } else {
            reason.as_str()
        };
        self.sim.world().summary.count("at rest", word);
        let paused = is_set(object, names::PAUSED_ANNOTATION);
        if is_deleting(object) {
            let held = paused && !is_set(object, names::FORCE_DELETE_ANNOTATION);
            return if held {
                Ok(())
            } else {
                Err(format!("still there though deleted: {}", object["status"]))
            };
        }
        if paused {
            return Ok(());
        }
        if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
            return Err(format!("the newest generation was not seen: {object}"));
        }
        match (truth.as_str(), reason.as_str()) {
            ("True", _) => self.check_converged(object),
            (_, "DriftDetected") => self.check_drift(object),
            (_, "VmMissing") => self.check_missing(object),
            (_, "NameConflict" | "IdentityConflict") => self.check_conflict(key, object),
            (_, "ImageFailed") => self.check_image_failed(),
            (_, "InvalidRequest") if self.is_copied(object) || self.is_inherited(object) => Ok(()),
            _ => Err(format!(
                "not ready: {truth} {reason}: {}",
                object["status"]["message"]
            )),
        }
    }

    /// The one VM is as declared, and the status tells the truth about it.
    fn check_converged(&self, object: &Value) -> Result<(), String> {
        let vms = self.vms_of(object);
        let retained = self.sim.setting.is_basic()
            && (self.sim.world().ledger.left_behind).contains(&identity_of(object));
        if retained || self.is_inherited(object) {
            return Ok(());
        }
        let [vm] = vms.as_slice() else {
            return Err(format!("ready with {} VMs", vms.len()));
        };
        let wanted = Wanted::of(object, &self.sim.world().api);
        if vm.power != wanted.power {
            return Err(format!("ready but {:?}, not {:?}", vm.power, wanted.power));
        }
        // Where a provider does not say what waits, somebody else's change of a field that waits is taken for ours.
        let meddled = self.sim.world().ledger.meddling_with(&identity_of(object));
        let taken_for_ours = self.sim.setting.is_basic() && meddled.size;
        let open: Vec<_> = wanted
            .differences(vm)
            .into_iter()
            .filter(|f| !(taken_for_ours && told_as_waiting(object, f)))
            .filter(|f| !waits(object, vm, f))
            .collect();
        if !open.is_empty() {
            return Err(format!("ready but {open:?} differ: {vm:?}, not {wanted:?}"));
        }
        let told = object["status"]["powerState"].as_str().unwrap_or_default();
        if object["status"]["id"] != vm.id.as_str() || told != vm.power.wire() {
            return Err(format!(
                "the status tells another story than {vm:?}: {}",
                object["status"]
            ));
        }
        Ok(())
    }

    /// Drift that is only reported was made by somebody else, and may be only reported.
    fn check_drift(&self, object: &Value) -> Result<(), String> {
        let vms = self.vms_of(object);
        let [vm] = vms.as_slice() else {
            return Err(format!("drifted with {} VMs", vms.len()));
        };
        let (wanted, meddled, class_edits) = {
            let world = self.sim.world();
            let meddled = world.ledger.meddling_with(&identity_of(object));
            (
                Wanted::of(object, &world.api),
                meddled,
                world.ledger.class_edits,
            )
        };
        let policy = |field: &str| object["spec"]["driftPolicy"][field] != "Correct";
        let size = wanted
            .differences(vm)
            .into_iter()
            .any(|f| !waits(object, vm, f));
        // A VM that somebody starts while its size is being changed keeps the old one.
        let excused = meddled.size || meddled.power || class_edits > 1;
        // What was under way for an object that went by force is somebody else's doing to the one that follows.
        let inherited = {
            let world = self.sim.world();
            world.ledger.left_behind.contains(&identity_of(object))
        };
        let meddled_power = meddled.power || inherited;
        if vm.power != wanted.power && !(meddled_power && policy("power")) {
            return Err(format!(
                "power drifted by nobody's doing, or against the policy: {}",
                object["status"]["message"]
            ));
        }
        if size && !(excused && policy("size")) {
            return Err(format!(
                "size drifted by nobody's doing, or against the policy: {}",
                object["status"]["message"]
            ));
        }
        if size || vm.power != wanted.power {
            Ok(())
        } else {
            Err("no drift is there".to_owned())
        }
    }

    fn check_missing(&self, object: &Value) -> Result<(), String> {
        let meddled = self.sim.world().ledger.meddling_with(&identity_of(object));
        let recreate = object["spec"]["driftPolicy"]["deletion"] == "Recreate";
        if meddled.deleted && !recreate && self.vms_of(object).is_empty() {
            return Ok(());
        }
        Err("the VM is told as missing, but nobody deleted it, or it is to be made anew".to_owned())
    }

    /// Somebody else's VM has the name, or another object has the better right to the identity.
    fn check_conflict(&self, key: &ObjectKey, object: &Value) -> Result<(), String> {
        let name = name_of(key.namespace(), key.name(), object);
        let ours: BTreeSet<_> = self.vms_of(object).into_iter().map(|vm| &vm.id).collect();
        let taken = self
            .vms
            .iter()
            .any(|vm| vm.name == name && !ours.contains(&vm.id));
        if taken || self.is_copied(object) {
            Ok(())
        } else {
            Err("told of a conflict that is not there".to_owned())
        }
    }

    /// Whether the VM is one that an object of the same name left behind by force, on a provider that cannot tell the two apart.
    fn is_inherited(&self, object: &Value) -> bool {
        let world = self.sim.world();
        let id = VmId::from(object["status"]["id"].as_str().unwrap_or_default());
        let maker = world.ledger.identity(&id);
        self.sim.setting.is_basic()
            && maker.is_some_and(|maker| world.ledger.left_behind.contains(maker))
    }

    fn is_copied(&self, object: &Value) -> bool {
        let identity = identity_of(object);
        object["metadata"]["uid"] != identity.as_str()
            || self
                .objects
                .iter()
                .filter(|(_, other)| identity_of(other) == identity)
                .count()
                > 1
    }

    fn check_image_failed(&self) -> Result<(), String> {
        let broken = self
            .image()
            .is_some_and(|image| image["spec"]["source"]["http"]["checksum"] == "bad");
        if broken || self.sim.world().ledger.imports_refused > ATTEMPTS {
            Ok(())
        } else {
            Err("told of an image that failed, but nothing is wrong with it".to_owned())
        }
    }

    fn image(&self) -> Option<Arc<Value>> {
        self.sim.world().api.get(&objects::image()).cloned()
    }

    /// No VM is left without an object, and nobody touched a stranger.
    fn check_vms(&self) -> Result<(), String> {
        let world = self.sim.world();
        let living: BTreeSet<_> = self
            .objects
            .iter()
            .map(|(_, object)| identity_of(object))
            .collect();
        let mut seen = BTreeSet::new();
        for vm in &self.vms {
            if let Some(before) = world.ledger.strangers.get(&vm.id) {
                if before != vm {
                    return Err(format!("the stranger {} was changed: {vm:?}", vm.id));
                }
                continue;
            }
            let Some(identity) = world.ledger.identity(&vm.id) else {
                return Err(format!("nobody knows where the VM {} comes from", vm.id));
            };
            if !living.contains(identity) && !world.ledger.left_behind.contains(identity) {
                return Err(format!("the VM {} of {identity} is an orphan", vm.id));
            }
            let retained =
                self.sim.setting.is_basic() && world.ledger.left_behind.contains(identity);
            if !seen.insert(identity.clone()) && !retained {
                return Err(format!("{identity} has more than one VM"));
            }
        }
        Ok(())
    }

    /// A reboot that was asked for was carried out; with identities, once.
    fn check_reboots(&self) -> Result<(), String> {
        let world = self.sim.world();
        for asked in &world.ledger.reboots {
            let vm = self.vms.iter().find(|vm| vm.id == asked.vm);
            let object = self
                .objects
                .iter()
                .find(|(_, o)| o["metadata"]["uid"] == asked.uid.as_str());
            let (Some(vm), Some((key, object))) = (vm, object) else {
                continue;
            };
            let current =
                object["metadata"]["annotations"][names::REBOOT_ANNOTATION] == asked.value.as_str();
            let its_own = object["status"]["id"] == vm.id.as_str();
            let settled = current && its_own && !is_deleting(object) && ready(object).0 == "True";
            if settled && vm.power == PowerState::On && boots(&vm.details) <= asked.boots {
                return Err(format!(
                    "{key}: the reboot {} was never carried out",
                    asked.value
                ));
            }
        }
        if self.sim.setting.is_basic() {
            return Ok(());
        }
        for (vm, sent) in &world.ledger.restarts_sent {
            let journal = self.sim.mock.journal();
            let done = journal
                .iter()
                .filter(|entry| entry.vm == *vm && entry.what == Happened::Restarted)
                .count();
            if done > sent.len() {
                return Err(format!("{vm} was restarted {done} times for {sent:?}"));
            }
        }
        Ok(())
    }

    /// Each image is brought in once, unless the provider lost it or failed; and it is there if somebody uses it. A foreign
    /// provider need not know that it was asked for the same image before, so there a lost answer costs another import.
    fn check_images(&self) -> Result<(), String> {
        if !self.sim.setting.is_basic() {
            let world = self.sim.world();
            let allowed = 1 + world.ledger.import_excuses;
            if let Some((source, times)) = world
                .ledger
                .imports
                .iter()
                .find(|(_, times)| **times > allowed)
            {
                return Err(format!(
                    "{source} was imported {times} times, {allowed} are enough"
                ));
            }
        }
        let Some(image) = self.image() else {
            return Ok(());
        };
        let used = self
            .objects
            .iter()
            .any(|(_, object)| object["spec"]["imageRef"].is_object());
        let there = image["status"]["providerStatus"]["lab/prov"]["available"] == true;
        if used && !there && self.check_image_failed().is_err() {
            return Err(format!(
                "the image is used but not there: {}",
                image["status"]
            ));
        }
        Ok(())
    }

    /// The class knows how many use it.
    fn check_counts(&self) -> Result<(), String> {
        let world = self.sim.world();
        let Some(class) = world.api.get(&objects::class()) else {
            return Ok(());
        };
        let users = self
            .objects
            .iter()
            .filter(|(_, object)| object["spec"]["classRef"].is_object())
            .count();
        let told = class["status"]["usedByVMs"].as_u64();
        if told == Some(users as u64) {
            Ok(())
        } else {
            Err(format!("the class has {users} users but tells of {told:?}"))
        }
    }
}

/// Whether a difference is told as one that a restart will mend, and may be left so.
fn waits(object: &Value, vm: &VmState, field: &str) -> bool {
    let never = object["spec"]["reconfigurePolicy"]["restart"] != "WhenNeeded";
    told_as_waiting(object, field)
        && never
        && vm.power == PowerState::On
        && vm.restart_required.iter().any(|f| f == field)
}

fn told_as_waiting(object: &Value, field: &str) -> bool {
    let told = object["status"]["restartRequired"].as_array();
    told.into_iter().flatten().any(|f| f == field)
}
