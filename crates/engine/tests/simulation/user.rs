//! What people do to the objects, at any time.

use std::sync::Arc;

use polyvirt_api::names;
use polyvirt_contract::VmId;
use polyvirt_contract::model::PowerState;
use polyvirt_engine::runtime::key::{Key, Kind, ObjectKey};
use serde_json::{Value, json};

use crate::cluster::identity_of;
use crate::ledger::RebootAsked;
use crate::objects::{self, LAB, SECRET, TEAM};
use crate::rng::Rng;
use crate::world::Sim;

/// The names that people choose from: the same in two namespaces, and copies.
const PLACES: [(&str, &str); 4] = [(LAB, "a"), (TEAM, "a"), (LAB, "b"), (TEAM, "copy")];

/// What a person does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Create,
    Copy,
    Power,
    Size,
    GrowDisk,
    AddDisk,
    RemoveDisk,
    AddCard,
    RemoveCard,
    Policies,
    Reboot,
    Pause,
    Resume,
    Delete,
    ForceDelete,
    EditClass,
    EditImage,
    EditSecret,
}

const ACTIONS: [(u64, Action); 18] = [
    (12, Action::Create),
    (3, Action::Copy),
    (10, Action::Power),
    (6, Action::Size),
    (4, Action::GrowDisk),
    (4, Action::AddDisk),
    (3, Action::RemoveDisk),
    (3, Action::AddCard),
    (3, Action::RemoveCard),
    (3, Action::Policies),
    (5, Action::Reboot),
    (3, Action::Pause),
    (4, Action::Resume),
    (8, Action::Delete),
    (2, Action::ForceDelete),
    (3, Action::EditClass),
    (3, Action::EditImage),
    (3, Action::EditSecret),
];

/// People, and what they know of their own doing.
pub struct User {
    sim: Arc<Sim>,
    counter: u64,
}

impl User {
    /// Somebody has set the lab up; some things are still missing.
    pub fn new(sim: &Arc<Sim>, rng: &mut Rng) -> Self {
        let user = Self::with_provider(sim);
        if rng.percent(85) {
            user.create(&objects::class(), objects::class_manifest(2, 4));
        }
        if rng.percent(85) {
            let broken = rng.percent(15);
            user.create(&objects::image(), objects::image_manifest(0, broken));
        }
        if rng.percent(80) {
            user.write_secret();
        }
        user
    }

    /// Somebody has set the lab up, and nothing is missing.
    pub fn with_lab(sim: &Arc<Sim>) -> Self {
        let mut user = Self::with_provider(sim);
        user.complete_the_lab();
        user
    }

    fn with_provider(sim: &Arc<Sim>) -> Self {
        let user = Self {
            sim: sim.clone(),
            counter: 0,
        };
        user.create(
            &Key::new(Kind::Provider, objects::provider_key()),
            objects::provider(),
        );
        user.create(&objects::network(), objects::network_manifest());
        user
    }

    pub fn create(&self, key: &Key, object: Value) -> bool {
        let now = self.sim.now();
        let done = self.sim.world().api.create(key, object, now);
        if done {
            self.sim.note(|| format!("user creates {key:?}"));
        }
        done
    }

    pub fn edit(&self, key: &Key, change: impl FnOnce(&mut Value)) {
        if self.sim.world().api.edit(key, change) {
            self.sim.note(|| format!("user edits {key:?}"));
        }
    }

    pub fn delete(&self, key: &Key) {
        self.sim.note(|| format!("user deletes {key:?}"));
        let now = self.sim.now();
        self.sim.world().api.delete(key, now);
    }

    fn write_secret(&self) {
        for namespace in [LAB, TEAM] {
            let text = format!("host-{}", self.counter);
            let key = ObjectKey::new(namespace, SECRET);
            self.sim
                .world()
                .api
                .put_secret(&key, objects::user_data(&text));
        }
        self.sim.note(|| "user writes the Secrets".to_owned());
    }

    /// Everything that is still missing is there in the end.
    pub fn complete_the_lab(&mut self) {
        self.create(&objects::class(), objects::class_manifest(2, 4));
        self.create(&objects::image(), objects::image_manifest(0, false));
        let missing = self.sim.world().api.secret_names().is_empty();
        if missing {
            self.write_secret();
        }
    }

    /// Does something.
    pub fn act(&mut self, rng: &mut Rng) {
        self.counter += 1;
        let Some(action) = rng.weighted(ACTIONS.to_vec()) else {
            return;
        };
        let vms = self.vms();
        let target = (!vms.is_empty()).then(|| rng.pick(&vms).clone());
        let name = format!("{action:?}");
        self.sim.world().summary.count("user", &name);
        self.sim.note(|| format!("user: {name}"));
        match (action, target) {
            (Action::Create, _) | (_, None) => self.create_vm(rng),
            (Action::EditClass, _) => self.edit_class(rng),
            (Action::EditImage, _) => self.edit_image(rng),
            (Action::EditSecret, _) => self.write_secret(),
            (action, Some(key)) => self.change(action, &key, rng),
        }
    }

    fn vms(&self) -> Vec<Key> {
        let world = self.sim.world();
        let keys = world
            .api
            .list(Kind::VirtualMachine)
            .map(|(key, _)| key.clone());
        keys.map(|key| Key::new(Kind::VirtualMachine, key))
            .collect()
    }

    fn create_vm(&self, rng: &mut Rng) {
        let (namespace, name) = PLACES[rng.index(3)];
        self.create(&objects::vm(namespace, name), objects::any_vm(rng));
    }

    fn edit_class(&mut self, rng: &mut Rng) {
        let (cpu, memory) = (rng.between(1, 6), rng.between(1, 8));
        if !self.create(&objects::class(), objects::class_manifest(2, 4)) {
            self.sim.world().ledger.class_edits += 1;
            self.edit(&objects::class(), |class| {
                class["spec"]["cpu"] = json!(cpu);
                class["spec"]["memory"] = json!(format!("{memory}Gi"));
            });
        }
    }

    fn edit_image(&mut self, rng: &mut Rng) {
        let manifest = objects::image_manifest(self.counter, rng.percent(15));
        if !self.create(&objects::image(), manifest.clone()) {
            self.edit(&objects::image(), |image| {
                image["spec"] = manifest["spec"].clone()
            });
        }
    }

    fn change(&mut self, action: Action, key: &Key, rng: &mut Rng) {
        match action {
            Action::Copy => self.copy(key, rng),
            Action::Delete => self.delete(key),
            Action::ForceDelete => {
                self.annotate(key, names::FORCE_DELETE_ANNOTATION, "true");
                self.delete(key);
            }
            Action::Reboot => self.ask_for_reboot(key),
            Action::Pause => self.annotate(key, names::PAUSED_ANNOTATION, "true"),
            Action::Resume => self.annotate(key, names::PAUSED_ANNOTATION, "false"),
            Action::RemoveCard => self.edit(key, |vm| drop_last(&mut vm["spec"]["networks"])),
            Action::RemoveDisk => self.edit(key, |vm| drop_last(&mut vm["spec"]["disks"])),
            other => self.edit_spec(other, key, rng),
        }
    }

    fn edit_spec(&self, action: Action, key: &Key, rng: &mut Rng) {
        let counter = self.counter;
        self.edit(key, |vm| {
            let alive = vm["metadata"]["deletionTimestamp"].is_null();
            let spec = &mut vm["spec"];
            match action {
                Action::Power => {
                    spec["powerState"] = json!(rng.pick(&["On", "Off", "OffGraceful"]))
                }
                Action::Size => {
                    spec["resources"] =
                        json!({"cpu": rng.between(1, 6), "memoryMiB": 1024 * rng.between(1, 8)});
                }
                Action::GrowDisk => grow_first(&mut spec["disks"]),
                // A name is never used again, so no disk ever shrinks.
                Action::AddDisk => push(
                    &mut spec["disks"],
                    objects::disk(&format!("more-{counter}"), rng),
                ),
                Action::AddCard => push(&mut spec["networks"], objects::card(counter + 10, rng)),
                Action::Policies if alive => objects::policies(spec, rng),
                _ => {}
            }
        });
    }

    pub fn annotate(&self, key: &Key, name: &str, value: &str) {
        self.edit(key, |object| {
            object["metadata"]["annotations"][name] = json!(value)
        });
    }

    /// Somebody restores an object from a backup under another name, or beside itself.
    fn copy(&self, key: &Key, rng: &mut Rng) {
        let Some(original) = self.sim.world().api.get(key).cloned() else {
            return;
        };
        let annotations = original["metadata"]["annotations"].clone();
        if annotations[names::IDENTITY_ANNOTATION].is_null() {
            return;
        }
        let (namespace, name) = PLACES[if rng.percent(60) { 3 } else { rng.index(3) }];
        let identity = annotations[names::IDENTITY_ANNOTATION].clone();
        let mut object = json!({
            "metadata": {"annotations": {names::IDENTITY_ANNOTATION: identity}},
            "spec": original["spec"].clone(),
        });
        if rng.percent(50) {
            object["metadata"]["finalizers"] = json!([names::VIRTUAL_MACHINE_FINALIZER]);
        }
        self.create(&objects::vm(namespace, name), object);
    }

    pub fn ask_for_reboot(&mut self, key: &Key) {
        self.counter += 1;
        let value = format!("time-{}", self.counter);
        self.annotate(key, names::REBOOT_ANNOTATION, &value);
        let Some(object) = self.sim.world().api.get(key).cloned() else {
            return;
        };
        let identity = identity_of(&object);
        let vms = self.sim.mock.vms();
        let mut world = self.sim.world();
        let running = vms.iter().find(|vm| {
            vm.power == PowerState::On && world.ledger.identity(&vm.id) == Some(&identity)
        });
        let Some(vm) = running else { return };
        let uid = object["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let asked = RebootAsked {
            uid,
            value,
            vm: VmId::clone(&vm.id),
            boots: boots(&vm.details),
        };
        world.ledger.reboots.push(asked);
    }
}

/// How often the VM was started.
pub fn boots(details: &std::collections::BTreeMap<String, String>) -> u64 {
    details
        .get("boots")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn drop_last(list: &mut Value) {
    list.as_array_mut().map(Vec::pop);
}

fn push(list: &mut Value, item: Value) {
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

fn grow_first(disks: &mut Value) {
    if let Some(disk) = disks.get_mut(0) {
        let size = disk["sizeGiB"].as_i64().unwrap_or(1);
        disk["sizeGiB"] = json!(size + 5);
    }
}
