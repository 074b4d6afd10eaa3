//! A cache of one kind, fed by a watch and by the answers to our own writes.
//!
//! The answer of a write is newer than the watch, so it goes in at once and a pass never plans on a status that it has itself
//! replaced. The watch may then deliver older versions: they are dropped by their resource version.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Resource;

use crate::runtime::key::ObjectKey;

/// What became of an object that was put into a store.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// It was not there before.
    Added(Arc<K>),
    /// It replaced an older version.
    Updated {
        /// The older version.
        old: Arc<K>,
        /// The one that is there now.
        new: Arc<K>,
    },
    /// It is gone.
    Removed(Arc<K>),
}

struct Inner<K> {
    objects: HashMap<ObjectKey, Arc<K>>,
    /// Objects that only this cache still has (`runtime/vanished.rs`). Kept beside the objects: nothing that a user can write
    /// into an object may change where it is stored.
    vanished: HashSet<ObjectKey>,
}

/// A cache of one kind.
pub struct Store<K> {
    inner: Mutex<Inner<K>>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            inner: Mutex::new(Inner {
                objects: HashMap::new(),
                vanished: HashSet::new(),
            }),
        }
    }
}

impl<K: Resource> Store<K> {
    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        // A panic in another pass cannot leave the map half changed: every change is a single insert or remove.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object as we know it.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.lock().objects.get(key).cloned()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them. For rare, whole-kind work only.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.lock().objects.values().cloned().collect()
    }

    /// Names of all of them.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.lock().objects.keys().cloned().collect()
    }

    /// Takes what the watch delivered. `None` if we know a newer version.
    pub fn watched(&self, object: K) -> Option<Change<K>> {
        let version = version(&object);
        self.lock().insert(object, version)
    }

    /// Takes the answer of a write of ours. `None` if we know a newer version, or the object is not here: then it was
    /// deleted meanwhile, or the watch will bring it.
    pub fn written(&self, object: K) -> Option<Change<K>> {
        let version = version(&object);
        let mut inner = self.lock();
        let known = inner.objects.contains_key(&ObjectKey::of(&object));
        known.then(|| inner.insert(object, version)).flatten()
    }

    /// Takes an object that the API server no longer has, as one that is still to be taken down. `None` if we know a newer
    /// version.
    pub fn vanish(&self, object: K) -> Option<Change<K>> {
        let (key, version) = (ObjectKey::of(&object), version(&object));
        let mut inner = self.lock();
        let change = inner.insert(object, version)?;
        inner.vanished.insert(key);
        Some(change)
    }

    /// Whether the object of that name is one that only this cache has.
    pub fn has_vanished(&self, key: &ObjectKey) -> bool {
        self.lock().vanished.contains(key)
    }

    /// Whether only this cache has the object. `false` if another object of its name has taken its place.
    pub fn is_vanished(&self, object: &K) -> bool {
        let inner = self.lock();
        inner.vanished.contains(&ObjectKey::of(object)) && inner.has_same(object)
    }

    /// Replaces an object that only this cache has, unless another one of its name has taken its place.
    pub fn keep(&self, object: K) -> Option<Change<K>> {
        let mut inner = self.lock();
        let same = inner.has_same(&object);
        same.then(|| inner.insert(object, 0)).flatten()
    }

    /// Removes an object that only this cache has, unless another one of its name has taken its place.
    pub fn let_go(&self, object: &K) -> Option<Change<K>> {
        let mut inner = self.lock();
        let same = inner.has_same(object);
        let removed = same.then(|| inner.remove(&ObjectKey::of(object)));
        removed.flatten().map(Change::Removed)
    }

    /// Takes a deletion that the watch delivered.
    pub fn removed(&self, object: &K) -> Option<Change<K>> {
        self.remove_key(&ObjectKey::of(object))
    }

    /// Removes what a fresh list no longer has.
    pub fn remove_key(&self, key: &ObjectKey) -> Option<Change<K>> {
        self.lock().remove(key).map(Change::Removed)
    }
}

impl<K: Resource> Inner<K> {
    fn has_same(&self, object: &K) -> bool {
        let here = self.objects.get(&ObjectKey::of(object));
        here.is_some_and(|here| here.meta().uid == object.meta().uid)
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<K>> {
        self.vanished.remove(key);
        self.objects.remove(key)
    }

    fn insert(&mut self, object: K, version_now: u64) -> Option<Change<K>> {
        let key = ObjectKey::of(&object);
        let known = self.objects.get(&key).map(|old| version(&**old));
        // Version 0 is one that cannot be compared: take it.
        if known.is_some_and(|known| version_now != 0 && known >= version_now) {
            return None;
        }
        if !self.has_same(&object) {
            // Another object of this name: the mark was about the former one.
            self.vanished.remove(&key);
        }
        let new = Arc::new(object);
        Some(match self.objects.insert(key, new.clone()) {
            Some(old) => Change::Updated { old, new },
            None => Change::Added(new),
        })
    }
}

/// Resource versions of one API server grow; comparing them is allowed since Kubernetes 1.35 and was true before.
fn version<K: Resource>(object: &K) -> u64 {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|v| v.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(version: u64) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("ns".into());
        map.metadata.name = Some("a".into());
        map.metadata.resource_version = Some(version.to_string());
        map
    }

    #[test]
    fn an_answer_beats_the_watch_that_lags() {
        let store = Store::default();
        assert!(matches!(store.watched(object(1)), Some(Change::Added(_))));
        assert!(matches!(
            store.written(object(3)),
            Some(Change::Updated { .. })
        ));
        assert!(store.watched(object(2)).is_none());
        let now = store.get(&ObjectKey::new("ns", "a")).expect("there");
        assert_eq!(now.metadata.resource_version.as_deref(), Some("3"));
    }

    fn with_uid(version: u64, uid: &str) -> ConfigMap {
        let mut map = object(version);
        map.metadata.uid = Some(uid.to_owned());
        map
    }

    #[test]
    fn the_mark_of_a_vanished_object_stays_with_its_updates_and_ends_with_it() {
        let store = Store::default();
        store.watched(with_uid(1, "a"));
        assert!(!store.is_vanished(&with_uid(1, "a")));
        store.vanish(with_uid(2, "a"));
        assert!(store.is_vanished(&with_uid(1, "a")));
        store.keep(with_uid(2, "a"));
        assert!(store.has_vanished(&ObjectKey::new("ns", "a")));
        store.let_go(&with_uid(2, "a"));
        store.watched(with_uid(3, "a"));
        assert!(!store.is_vanished(&with_uid(3, "a")));
    }

    #[test]
    fn an_object_that_takes_the_name_of_a_vanished_one_is_not_vanished() {
        let store = Store::default();
        store.watched(with_uid(1, "a"));
        store.vanish(with_uid(2, "a"));
        store.watched(with_uid(3, "b"));
        assert!(!store.is_vanished(&with_uid(3, "b")));
        assert!(
            !store.is_vanished(&with_uid(2, "a")),
            "it has no place here any more"
        );
        assert!(store.let_go(&with_uid(2, "a")).is_none());
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_was_deleted() {
        let store = Store::default();
        store.watched(object(1));
        store.removed(&object(5));
        assert!(store.written(object(4)).is_none());
        assert!(store.is_empty());
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_a_list_no_longer_had() {
        let store = Store::default();
        store.watched(object(1));
        store.remove_key(&ObjectKey::new("ns", "a"));
        assert!(store.written(object(2)).is_none());
        assert!(store.is_empty());
    }
}
