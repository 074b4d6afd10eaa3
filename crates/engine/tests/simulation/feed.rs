//! Watches: each kind at its own pace, in order, sometimes twice, and from time to time begun anew with a whole list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use polyvirt_engine::context::Stores;
use polyvirt_engine::runtime::dispatch::{Dispatcher, Source};
use polyvirt_engine::runtime::key::{Kind, ObjectKey};
use polyvirt_engine::runtime::trim;
use serde_json::Value;

use crate::api_server::{Event, Watched};
use crate::world::Sim;

/// One watch.
#[derive(Clone, Debug)]
enum Feed {
    /// The list is asked for.
    Unlisted,
    /// The list was made, and is on its way.
    Listing {
        objects: Vec<Arc<Value>>,
        then: usize,
    },
    /// Up to here the events have been delivered.
    At(usize),
}

/// All watches of one life of the manager.
pub struct Feeds {
    sim: Arc<Sim>,
    stores: Arc<Stores>,
    dispatcher: Arc<Dispatcher>,
    feeds: BTreeMap<Watched, Feed>,
    /// Kinds whose first list is in.
    first: BTreeSet<Watched>,
}

impl Feeds {
    pub fn new(sim: &Arc<Sim>, stores: Arc<Stores>, dispatcher: Arc<Dispatcher>) -> Self {
        let feeds = Watched::ALL
            .into_iter()
            .map(|watched| (watched, Feed::Unlisted))
            .collect();
        Self {
            sim: sim.clone(),
            stores,
            dispatcher,
            feeds,
            first: BTreeSet::new(),
        }
    }

    /// Whether every cache is complete: work begins then.
    pub fn listed(&self) -> bool {
        Watched::ALL
            .iter()
            .all(|watched| self.first.contains(watched))
    }

    /// Whether there is something to deliver.
    pub fn has_news(&self, watched: Watched) -> bool {
        let world = self.sim.world();
        !world.api_down
            && match self.feeds[&watched] {
                Feed::Unlisted | Feed::Listing { .. } => true,
                Feed::At(place) => place < world.api.log(watched).len(),
            }
    }

    /// The next thing that the watch delivers, if there is one.
    pub fn deliver(&mut self, watched: Watched) {
        let feed = self.feeds[&watched].clone();
        let next = match feed {
            Feed::Unlisted => self.ask(watched),
            Feed::Listing { objects, then } => {
                self.take_list(watched, &objects);
                Feed::At(then)
            }
            Feed::At(place) => self.take_event(watched, place),
        };
        self.feeds.insert(watched, next);
    }

    /// The same event once more, as after a short break.
    pub fn repeat(&mut self, watched: Watched) {
        if let Feed::At(place) = self.feeds[&watched]
            && place > 0
        {
            self.take_event(watched, place - 1);
        }
    }

    /// The watch has fallen too far behind: 410 Gone, and a whole list again.
    pub fn expire(&mut self, watched: Watched) {
        self.sim.note(|| format!("  watch of {watched:?} expires"));
        self.feeds.insert(watched, Feed::Unlisted);
    }

    fn ask(&self, watched: Watched) -> Feed {
        let world = self.sim.world();
        let objects = match watched {
            Watched::Objects(kind) => world
                .api
                .list(kind)
                .map(|(_, object)| object.clone())
                .collect(),
            Watched::Secrets => Vec::new(),
        };
        Feed::Listing {
            objects,
            then: world.api.log(watched).len(),
        }
    }

    fn take_list(&mut self, watched: Watched, objects: &[Arc<Value>]) {
        self.sim
            .note(|| format!("  list of {watched:?}: {} objects", objects.len()));
        let again = self.first.contains(&watched);
        let source = if again {
            Source::Watch
        } else {
            Source::FirstList
        };
        match watched {
            Watched::Objects(kind) => self.fill(kind, objects, source),
            // Nothing is kept of Secrets, so any of them may have changed meanwhile.
            Watched::Secrets if again => self.every_secret(),
            Watched::Secrets => {}
        }
        self.first.insert(watched);
    }

    fn fill(&self, kind: Kind, objects: &[Arc<Value>], source: Source) {
        for object in objects {
            self.apply(kind, object, source);
        }
        let listed: BTreeSet<_> = objects.iter().map(|object| key_of(object)).collect();
        self.forget_all_but(kind, &listed);
    }

    fn every_secret(&self) {
        let names = self.sim.world().api.secret_names();
        for name in names {
            self.dispatcher.secret_changed(&secret(&name));
        }
    }

    fn take_event(&self, watched: Watched, place: usize) -> Feed {
        let event = self.sim.world().api.log(watched).get(place).cloned();
        let Some(Event { object, deleted }) = event else {
            return Feed::At(place);
        };
        self.sim.note(|| {
            let word = if deleted { "deleted" } else { "applied" };
            format!("  watch: {watched:?} {} {word}", key_of(&object))
        });
        match watched {
            Watched::Secrets => self.dispatcher.secret_changed(&secret(&key_of(&object))),
            Watched::Objects(kind) if deleted => self.removed(kind, &object),
            Watched::Objects(kind) => self.apply(kind, &object, Source::Watch),
        }
        Feed::At(place + 1)
    }
}

/// What the real watches do, for each kind.
macro_rules! each_kind {
    ($($kind:ident, $store:ident, $changed:ident;)+) => {
        impl Feeds {
            fn apply(&self, kind: Kind, object: &Value, source: Source) {
                match kind { $(Kind::$kind => {
                    let typed = serde::Deserialize::deserialize(object).expect("an object of its kind");
                    if let Some(change) = self.stores.$store.watched(trim::metadata(typed)) {
                        self.dispatcher.$changed(&change, source);
                    }
                })+
                // Nobody feeds the kinds of dialects here.
                Kind::Machine | Kind::KubevirtConfig | Kind::NovacronVirtualMachine | Kind::VMClone | Kind::VMSet => {} }
            }

            fn removed(&self, kind: Kind, object: &Value) {
                match kind { $(Kind::$kind => {
                    let typed = serde::Deserialize::deserialize(object).expect("an object of its kind");
                    if let Some(change) = self.stores.$store.removed(&typed) {
                        self.dispatcher.$changed(&change, Source::Watch);
                    }
                })+
                // Nobody feeds the kinds of dialects here.
                Kind::Machine | Kind::KubevirtConfig | Kind::NovacronVirtualMachine | Kind::VMClone | Kind::VMSet => {} }
            }

            fn forget_all_but(&self, kind: Kind, listed: &BTreeSet<ObjectKey>) {
                match kind { $(Kind::$kind => {
                    let mut keys = self.stores.$store.keys();
                    keys.sort();
                    for key in keys.into_iter().filter(|key| !listed.contains(key)) {
                        if let Some(change) = self.stores.$store.remove_key(&key) {
                            self.dispatcher.$changed(&change, Source::Watch);
                        }
                    }
                })+
                // Nobody feeds the kinds of dialects here.
                Kind::Machine | Kind::KubevirtConfig | Kind::NovacronVirtualMachine | Kind::VMClone | Kind::VMSet => {} }
            }
        }
    };
}

each_kind! {
    VirtualMachine, vms, vm_changed;
    Provider, providers, provider_changed;
    VMClass, classes, class_changed;
    VMImage, images, image_changed;
    VMNetworkAttachment, networks, network_changed;
    VMSnapshot, snapshots, snapshot_changed;
    VMPlacementPolicy, policies, policy_changed;
    VMMigration, migrations, migration_changed;
}

fn key_of(object: &Value) -> ObjectKey {
    let meta = &object["metadata"];
    let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
    ObjectKey::new(&text("namespace"), &text("name"))
}

fn secret(key: &ObjectKey) -> PartialObjectMeta<Secret> {
    let mut secret = PartialObjectMeta::<Secret>::default();
    secret.metadata.name = Some(key.name().to_owned());
    secret.metadata.namespace = Some(key.namespace().to_owned());
    secret
}
