//! The labels of namespaces, for whoever looks for VMs by them. Nothing else of namespaces is kept.

use std::collections::BTreeMap;
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

    /// Takes in what a watch tells.
    pub fn take(&self, event: Event<PartialObjectMeta<Namespace>>) -> News {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
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
