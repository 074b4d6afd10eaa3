//! Which Secrets there are, by name: enough to warn whoever names one that is not there. Nothing else of them is kept.

use std::collections::{HashMap, HashSet};
use std::sync::{PoisonError, RwLock};

use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;

use crate::runtime::key::ObjectKey;
use crate::runtime::watch::Scope;

/// The names of Secrets, as watches tell them.
#[derive(Debug, Default)]
pub struct SecretNames(RwLock<HashMap<Scope, Names>>);

#[derive(Debug, Default)]
struct Names {
    /// All of them, once a list was complete.
    known: Option<HashSet<ObjectKey>>,
    /// What a list under way has named so far.
    listing: HashSet<ObjectKey>,
}

impl SecretNames {
    /// Takes in what a watch tells.
    pub fn take(&self, scope: &Scope, event: &Event<PartialObjectMeta<Secret>>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let names = all.entry(scope.clone()).or_default();
        match event {
            Event::Init => names.listing.clear(),
            Event::InitApply(secret) => drop(names.listing.insert(ObjectKey::of(secret))),
            Event::InitDone => names.known = Some(std::mem::take(&mut names.listing)),
            Event::Apply(secret) => {
                let known = names.known.as_mut();
                known.map(|known| known.insert(ObjectKey::of(secret)));
            }
            Event::Delete(secret) => {
                let known = names.known.as_mut();
                known.map(|known| known.remove(&ObjectKey::of(secret)));
            }
        }
    }

    /// Whether there is a Secret of that name; `None` if nobody can tell.
    pub fn has(&self, key: &ObjectKey) -> Option<bool> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let own = Scope::Namespace(key.namespace().to_owned());
        let names = all.get(&Scope::Cluster).or_else(|| all.get(&own))?;
        names.known.as_ref().map(|known| known.contains(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(namespace: &str, name: &str) -> PartialObjectMeta<Secret> {
        let mut meta = PartialObjectMeta::default();
        meta.metadata.namespace = Some(namespace.to_owned());
        meta.metadata.name = Some(name.to_owned());
        meta
    }

    #[test]
    fn nothing_is_missing_before_all_were_listed() {
        let (names, key) = (SecretNames::default(), ObjectKey::new("team", "a"));
        let scope = Scope::Namespace("team".to_owned());
        for (event, expected) in [
            (Event::Init, None),
            (Event::InitApply(secret("team", "b")), None),
            (Event::InitDone, Some(false)),
            (Event::Apply(secret("team", "a")), Some(true)),
            (Event::Delete(secret("team", "a")), Some(false)),
            (Event::Apply(secret("team", "a")), Some(true)),
            // A second list does not hide what the first one knew.
            (Event::Init, Some(true)),
            (Event::InitDone, Some(false)),
        ] {
            names.take(&scope, &event);
            assert_eq!(names.has(&key), expected, "{event:?}");
        }
        assert_eq!(names.has(&ObjectKey::new("other", "a")), None);
    }

    #[test]
    fn a_watch_of_all_namespaces_knows_each() {
        let names = SecretNames::default();
        for event in [
            Event::Init,
            Event::InitApply(secret("team", "a")),
            Event::InitDone,
        ] {
            names.take(&Scope::Cluster, &event);
        }
        assert_eq!(names.has(&ObjectKey::new("team", "a")), Some(true));
        assert_eq!(names.has(&ObjectKey::new("other", "a")), Some(false));
    }
}
