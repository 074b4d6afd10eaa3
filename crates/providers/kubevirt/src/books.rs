//! What is known of all VMs. Lists and watches come in any order; of two words about one object the newer one counts.
//!
//! Versions of objects of one cluster can be compared: they are positions in one log. What is said of a VM has a revision of
//! its own, which is at least the highest version of all that it is made of and grows with everything that is new.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::core::DynamicObject;
use polyvirt_contract::model::VmState;

use crate::cluster::Listed;
use crate::facts::{self, ClaimFacts, Fact, SnapshotFacts};
use crate::kinds::{Kind, VmKey, version};
use crate::map::from_kubevirt::Known;

/// VMs that went and of which the last version is remembered.
const REMEMBERED: usize = 4096;

/// Which objects a list was of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    All,
    Vm(&'a VmKey),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    kind: Kind,
    key: VmKey,
}

struct Seen {
    version: u64,
    /// `None` for an object that went.
    fact: Option<Arc<Fact>>,
    vm: VmKey,
}

/// What is known of all VMs.
#[derive(Default)]
pub(crate) struct Books(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    seen: HashMap<Place, Seen>,
    of_vm: HashMap<VmKey, BTreeSet<Place>>,
    revisions: HashMap<VmKey, u64>,
    gone: VecDeque<VmKey>,
    has_snapshots: bool,
}

impl Books {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of an object; the VM that it is about, unless something newer is known or nothing has changed.
    pub(crate) fn put(&self, kind: Kind, object: &DynamicObject) -> Option<VmKey> {
        let (place, vm) = (place(kind, object)?, facts::about(kind, object)?);
        let fact = Fact::read(kind, object)?;
        self.lock().put(place, vm, version(object), Some(fact))
    }

    /// Takes note of an object that went.
    pub(crate) fn gone(&self, kind: Kind, object: &DynamicObject) -> Option<VmKey> {
        let (place, vm) = (place(kind, object)?, facts::about(kind, object)?);
        let mut inside = self.lock();
        match inside.seen.get(&place) {
            Some(seen) if seen.fact.is_none() => Some(vm),
            Some(seen) if seen.version > version(object) => None,
            Some(seen) => {
                let next = seen.version + 1;
                inside.put(place, vm, next, None)
            }
            None => inside.put(place, vm, version(object), None),
        }
    }

    /// Takes note of a list: also of what is not in it.
    pub(crate) fn settle(&self, kind: Kind, scope: Scope<'_>, listed: &Listed) {
        for object in &listed.objects {
            self.put(kind, object);
        }
        let there: BTreeSet<Place> = listed
            .objects
            .iter()
            .filter_map(|object| place(kind, object))
            .collect();
        self.lock().absent(kind, scope, &there, listed.version);
    }

    /// Says that the cluster has snapshots at all.
    pub(crate) fn has_snapshots(&self) {
        self.lock().has_snapshots = true;
    }

    /// The VM as far as it is known; `None` if it is not.
    pub(crate) fn state(&self, key: &VmKey) -> Option<VmState> {
        self.lock().state(key)
    }

    /// The version of the last that is known of a VM.
    pub(crate) fn revision(&self, key: &VmKey) -> u64 {
        self.lock().revisions.get(key).copied().unwrap_or(0)
    }
}

fn place(kind: Kind, object: &DynamicObject) -> Option<Place> {
    let metadata = &object.metadata;
    let key = VmKey::new(metadata.namespace.clone()?, metadata.name.clone()?);
    Some(Place { kind, key })
}

impl Inside {
    fn put(&mut self, place: Place, vm: VmKey, version: u64, fact: Option<Fact>) -> Option<VmKey> {
        match self.seen.get_mut(&place) {
            Some(known) if known.version > version => return None,
            Some(known) if known.version == version => return Some(vm),
            Some(known) if known.fact.as_deref() == fact.as_ref() => {
                known.version = version;
                return None;
            }
            _ => {}
        }
        let revision = self.revisions.entry(vm.clone()).or_default();
        *revision = version.max(*revision + 1);
        if place.kind == Kind::Vm && fact.is_none() {
            self.bury(&vm);
        }
        let places = self.of_vm.entry(vm.clone()).or_default();
        places.insert(place.clone());
        let seen = Seen {
            version,
            fact: fact.map(Arc::new),
            vm: vm.clone(),
        };
        self.seen.insert(place, seen);
        Some(vm)
    }

    fn absent(&mut self, kind: Kind, scope: Scope<'_>, there: &BTreeSet<Place>, at: u64) {
        let fits = |place: &Place, seen: &Seen| {
            let in_scope = match scope {
                Scope::All => true,
                Scope::Vm(key) => seen.vm == *key,
            };
            let older = seen.fact.is_some() && seen.version < at;
            in_scope && older && place.kind == kind && !there.contains(place)
        };
        let gone: Vec<(Place, VmKey, u64)> = match scope {
            Scope::All => {
                let all = self.seen.iter().filter(|(place, seen)| fits(place, seen));
                all.map(|(place, seen)| (place.clone(), seen.vm.clone(), seen.version))
                    .collect()
            }
            Scope::Vm(key) => {
                let places = self.of_vm.get(key).into_iter().flatten();
                let found = places.filter_map(|p| Some((p, self.seen.get(p)?)));
                found
                    .filter(|(place, seen)| fits(place, seen))
                    .map(|(place, seen)| (place.clone(), seen.vm.clone(), seen.version))
                    .collect()
            }
        };
        for (place, vm, version) in gone {
            self.put(place, vm, version + 1, None);
        }
    }

    /// A VM that went is forgotten in the end, when nobody can speak of it any more.
    fn bury(&mut self, vm: &VmKey) {
        self.gone.push_back(vm.clone());
        if self.gone.len() <= REMEMBERED {
            return;
        }
        let Some(oldest) = self.gone.pop_front() else {
            return;
        };
        if self.fact(Kind::Vm, &oldest).is_some() {
            return;
        }
        for place in self.of_vm.remove(&oldest).unwrap_or_default() {
            self.seen.remove(&place);
        }
        self.revisions.remove(&oldest);
    }

    fn fact(&self, kind: Kind, key: &VmKey) -> Option<Arc<Fact>> {
        let place = Place {
            kind,
            key: key.clone(),
        };
        self.seen.get(&place)?.fact.clone()
    }

    fn state(&self, key: &VmKey) -> Option<VmState> {
        let vm = self.fact(Kind::Vm, key)?;
        let Fact::Vm(vm) = &*vm else { return None };
        let instance = self.fact(Kind::Vmi, key);
        let instance = instance.as_deref().and_then(|fact| match fact {
            Fact::Instance(instance) => Some(&**instance),
            _ => None,
        });
        let known = Known {
            key,
            vm,
            instance,
            claims: self.claims(key, vm),
            snapshots: self.has_snapshots.then(|| self.snapshots(key)),
            revision: self.revisions.get(key).copied().unwrap_or(0),
        };
        Some(known.state())
    }

    fn claims<'a>(&self, key: &VmKey, vm: &'a facts::VmFacts) -> BTreeMap<&'a str, ClaimFacts> {
        let known = |claim: &str| {
            let fact = self.fact(Kind::Claim, &VmKey::new(&key.namespace, claim))?;
            match &*fact {
                Fact::Claim(claim) => Some(claim.clone()),
                _ => None,
            }
        };
        let disks = vm.disks.iter();
        disks
            .filter_map(|(_, claim)| Some((claim.as_str(), known(claim)?)))
            .collect()
    }

    fn snapshots(&self, key: &VmKey) -> Vec<&SnapshotFacts> {
        let places = self.of_vm.get(key).into_iter().flatten();
        let facts = places.filter_map(|place| self.seen.get(place)?.fact.as_deref());
        facts
            .filter_map(|fact| match fact {
                Fact::Snapshot(snapshot) => Some(&**snapshot),
                _ => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::model::PowerState;
    use serde_json::{Value, json};

    use super::*;

    #[allow(
        clippy::needless_pass_by_value,
        reason = "tables read better without references"
    )]
    fn object(version: u64, data: Value) -> DynamicObject {
        let mut whole = json!({
            "apiVersion": "v1", "kind": "X",
            "metadata": {"namespace": "a", "name": "web", "resourceVersion": version.to_string()},
        });
        for (key, value) in data.as_object().expect("an object") {
            whole[key] = value.clone();
        }
        serde_json::from_value(whole).expect("an object")
    }

    fn running(version: u64) -> DynamicObject {
        object(version, json!({"status": {"phase": "Running"}}))
    }

    fn key() -> VmKey {
        VmKey::new("a", "web")
    }

    fn told(books: &Books) -> (u64, PowerState) {
        let state = books.state(&key()).expect("there");
        (state.revision, state.power)
    }

    #[test]
    fn the_newest_word_counts_whatever_the_order() {
        let books = Books::default();
        assert_eq!(books.put(Kind::Vm, &object(5, json!({}))), Some(key()));
        assert_eq!(books.put(Kind::Vmi, &running(9)), Some(key()));
        assert_eq!(told(&books), (9, PowerState::On));
        assert_eq!(books.put(Kind::Vm, &object(5, json!({}))), Some(key()));
        assert_eq!(told(&books), (9, PowerState::On), "nothing new");
        assert_eq!(books.gone(Kind::Vmi, &running(12)), Some(key()));
        assert_eq!(told(&books), (10, PowerState::Off));
        assert_eq!(books.put(Kind::Vmi, &running(9)), None, "an old word");
        assert_eq!(books.put(Kind::Vmi, &running(14)), Some(key()));
        assert_eq!(told(&books), (14, PowerState::On));
    }

    #[test]
    fn what_says_nothing_new_is_no_change() {
        let books = Books::default();
        books.put(Kind::Vm, &object(5, json!({})));
        assert_eq!(books.put(Kind::Vm, &object(6, json!({}))), None);
        assert_eq!(books.revision(&key()), 5);
        assert_eq!(
            books.put(Kind::Vm, &object(5, json!({}))),
            None,
            "an old word"
        );
        assert_eq!(books.gone(Kind::Vm, &object(9, json!({}))), Some(key()));
        assert_eq!(books.revision(&key()), 7);
    }

    #[test]
    fn a_list_tells_what_is_not_there() {
        let books = Books::default();
        books.put(Kind::Vm, &object(5, json!({})));
        books.put(Kind::Vmi, &running(9));
        let empty = |version| Listed {
            objects: Vec::new(),
            version,
        };
        books.settle(Kind::Vmi, Scope::Vm(&key()), &empty(8));
        assert_eq!(told(&books), (9, PowerState::On), "the list is older");
        books.settle(Kind::Vmi, Scope::Vm(&key()), &empty(11));
        assert_eq!(told(&books), (10, PowerState::Off));
        books.settle(Kind::Vm, Scope::All, &empty(20));
        assert_eq!(books.state(&key()), None);
        assert_eq!(books.revision(&key()), 11);
    }

    #[test]
    fn those_who_went_are_forgotten_in_the_end() {
        let books = Books::default();
        for number in 0..REMEMBERED + 10 {
            let mut vm = object(7, json!({}));
            vm.metadata.name = Some(format!("vm-{number}"));
            books.put(Kind::Vm, &vm);
            books.gone(Kind::Vm, &vm);
        }
        assert_eq!(books.lock().seen.len(), REMEMBERED);
        assert_eq!(books.lock().revisions.len(), REMEMBERED);
    }
}
