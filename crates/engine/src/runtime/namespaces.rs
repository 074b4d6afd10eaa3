//! The labels of namespaces, for whoever looks for VMs by them, and which of them are being deleted. Nothing else is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;

/// Labels by namespace.
pub type Labels = polyvirt_placement::Namespaces;

/// The labels of all namespaces, as a watch tells them.
#[derive(Debug, Default)]
pub struct Namespaces(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    /// All of them, once a list was complete.
    known: Option<Arc<Labels>>,
    /// What a list under way has told so far.
    listing: Labels,
    /// Those that are being deleted.
    terminating: BTreeSet<String>,
}

/// Whether somebody may be seen with other eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Labels came, changed or went.
    Some,
    /// Nothing of that.
    None,
}

impl Namespaces {
    /// The labels of each; `None` if nobody tells: a manager of a few namespaces may not ask.
    pub fn labels(&self) -> Option<Arc<Labels>> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.known.clone()
    }

    /// Whether the namespace is being deleted, as far as this manager is told.
    pub fn is_terminating(&self, name: &str) -> bool {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.terminating.contains(name)
    }

    /// Takes in what a watch tells.
    pub fn take(&self, event: Event<PartialObjectMeta<Namespace>>) -> News {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        state.note_end(&event);
        match event {
            Event::Init => state.listing.clear(),
            Event::InitApply(found) => {
                let (name, labels) = told(found);
                state.listing.insert(name, labels);
            }
            Event::InitDone => return state.complete(),
            Event::Apply(found) => return state.apply(told(found)),
            Event::Delete(found) => return state.delete(&told(found).0),
        }
        News::None
    }
}

impl State {
    /// A namespace that was deleted and created again is another one.
    fn note_end(&mut self, event: &Event<PartialObjectMeta<Namespace>>) {
        match event {
            Event::Init => self.terminating.clear(),
            Event::InitApply(found) | Event::Apply(found) => {
                let name = found.metadata.name.clone().unwrap_or_default();
                if found.metadata.deletion_timestamp.is_some() {
                    self.terminating.insert(name);
                } else {
                    self.terminating.remove(&name);
                }
            }
            Event::Delete(found) => {
                let name = found.metadata.name.as_deref().unwrap_or_default();
                self.terminating.remove(name);
            }
            Event::InitDone => {}
        }
    }

    fn complete(&mut self) -> News {
        let listed = std::mem::take(&mut self.listing);
        let same = self.known.as_deref() == Some(&listed);
        self.known = Some(Arc::new(listed));
        if same { News::None } else { News::Some }
    }

    fn apply(&mut self, (name, labels): (String, BTreeMap<String, String>)) -> News {
        let Some(known) = &mut self.known else {
            return News::None;
        };
        if known.get(&name) == Some(&labels) {
            return News::None;
        }
        Arc::make_mut(known).insert(name, labels);
        News::Some
    }

    fn delete(&mut self, name: &str) -> News {
        match &mut self.known {
            Some(known) if known.contains_key(name) => {
                Arc::make_mut(known).remove(name);
                News::Some
            }
            _ => News::None,
        }
    }
}

fn told(found: PartialObjectMeta<Namespace>) -> (String, BTreeMap<String, String>) {
    let name = found.metadata.name.unwrap_or_default();
    (name, found.metadata.labels.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str, label: &str) -> PartialObjectMeta<Namespace> {
        let mut meta = PartialObjectMeta::default();
        meta.metadata.name = Some(name.to_owned());
        meta.metadata.labels = Some([("team".to_owned(), label.to_owned())].into());
        meta
    }

    fn team(all: &Namespaces, name: &str) -> Option<String> {
        all.labels()?.get(name)?.get("team").cloned()
    }

    #[test]
    fn labels_are_known_once_all_are_listed() {
        let all = Namespaces::default();
        all.take(Event::Init);
        assert_eq!(
            all.take(Event::InitApply(namespace("a", "red"))),
            News::None
        );
        assert!(all.labels().is_none(), "others may follow");
        assert_eq!(all.take(Event::InitDone), News::Some);
        assert_eq!(team(&all, "a").as_deref(), Some("red"));
        assert_eq!(all.take(Event::Apply(namespace("a", "red"))), News::None);
        assert_eq!(all.take(Event::Apply(namespace("a", "blue"))), News::Some);
        assert_eq!(team(&all, "a").as_deref(), Some("blue"));
        assert_eq!(all.take(Event::Delete(namespace("a", "blue"))), News::Some);
        assert_eq!(all.take(Event::Delete(namespace("a", "blue"))), News::None);
        assert_eq!(team(&all, "a"), None);
    }

    #[test]
    fn a_namespace_that_is_being_deleted_is_known_as_such() {
        let all = Namespaces::default();
        let mut dying = namespace("a", "red");
        dying.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
        );
        all.take(Event::Apply(namespace("a", "red")));
        assert!(!all.is_terminating("a"));
        all.take(Event::Apply(dying.clone()));
        assert!(all.is_terminating("a"));
        all.take(Event::Delete(dying));
        assert!(!all.is_terminating("a"));
    }

    #[test]
    fn a_list_after_a_break_replaces_all() {
        let all = Namespaces::default();
        for (name, news) in [("a", News::Some), ("b", News::Some), ("b", News::None)] {
            all.take(Event::Init);
            all.take(Event::InitApply(namespace(name, "red")));
            assert_eq!(all.take(Event::InitDone), news, "{name}");
        }
        assert_eq!(
            (team(&all, "a"), team(&all, "b").as_deref()),
            (None, Some("red"))
        );
    }
}
