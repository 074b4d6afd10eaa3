//! Deletes objects whose owners are gone, and completes foreground and orphan deletions.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::graph::{FOREGROUND, Graph, Node, ORPHAN, Uid};
use super::kinds::{Kind, discover};

const TICK: Duration = Duration::from_millis(200);
/// An object whose deletion is refused, by a webhook for example, is tried again after this time.
const AGAIN: Duration = Duration::from_secs(5);
/// A new CustomResourceDefinition appears in discovery some time after it is established.
const DISCOVERIES: u32 = 10;
const DISCOVERY_PAUSE: Duration = Duration::from_secs(1);
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// They are many, have no owners and expire.
const IGNORED: [&str; 2] = ["events", "events.events.k8s.io"];
/// Room for a burst of events, so that a watch need not wait for the collector.
const ROOM: usize = 1024;

/// What the watches report.
#[derive(Debug)]
enum News {
    Seen(Uid, Node),
    Gone(Uid, String),
    /// A kind, and all of its objects.
    Listed(String, BTreeSet<Uid>),
}

/// How an owner is.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    Present,
    Gone,
    /// In foreground deletion, which waits for the dependent.
    Waiting,
}

/// Whether an object must be examined again without a new event.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Settled,
    Again,
}

struct Collector {
    client: Client,
    graph: Graph,
    kinds: BTreeMap<String, Kind>,
    /// The kinds that were listed completely at least once.
    listed: BTreeSet<String>,
    watches: JoinSet<()>,
    sender: mpsc::Sender<News>,
    /// The objects to examine, and when.
    due: BTreeMap<Uid, Instant>,
    discoveries: u32,
    next_discovery: Instant,
}

/// Collects garbage until it is dropped.
pub(super) async fn run(client: Client) {
    let (sender, mut news) = mpsc::channel(ROOM);
    let mut collector = Collector::new(client, sender);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(news) = news.recv() => collector.take(news),
            _ = ticks.tick(), if collector.has_work() => {
                collector.discover().await;
                collector.work().await;
            }
        }
    }
}

impl Collector {
    fn new(client: Client, sender: mpsc::Sender<News>) -> Self {
        Self {
            client,
            graph: Graph::default(),
            kinds: BTreeMap::new(),
            listed: BTreeSet::new(),
            watches: JoinSet::new(),
            sender,
            due: BTreeMap::new(),
            discoveries: DISCOVERIES,
            next_discovery: Instant::now(),
        }
    }

    fn has_work(&self) -> bool {
        self.discoveries > 0 || !self.due.is_empty()
    }

    fn take(&mut self, news: News) {
        let affected = match news {
            News::Seen(uid, node) => {
                self.rediscover_after(&node.kind);
                self.graph.put(uid, node)
            }
            News::Gone(uid, kind) => {
                self.rediscover_after(&kind);
                self.graph.remove(&uid)
            }
            News::Listed(kind, all) => {
                let affected = self.graph.retain(&kind, &all);
                self.listed.insert(kind);
                affected
            }
        };
        let now = Instant::now();
        self.due.extend(affected.into_iter().map(|uid| (uid, now)));
    }

    fn rediscover_after(&mut self, kind: &str) {
        if kind == DEFINITIONS {
            self.discoveries = DISCOVERIES;
        }
    }

    /// Starts a watch for each kind that is new.
    async fn discover(&mut self) {
        if self.discoveries == 0 || Instant::now() < self.next_discovery {
            return;
        }
        self.next_discovery = Instant::now() + DISCOVERY_PAUSE;
        let known = match discover(&self.client).await {
            Ok(known) => known,
            Err(error) => return tracing::debug!(%error, "discovery failed; it is retried"),
        };
        self.discoveries -= 1;
        for kind in known.kinds {
            let name = kind.name();
            let is_watched = self.kinds.contains_key(&name) || IGNORED.contains(&name.as_str());
            if !is_watched && kind.has("watch") {
                let watch = watch(self.client.clone(), kind.clone(), self.sender.clone());
                self.watches.spawn(watch);
                self.kinds.insert(name, kind);
            }
        }
    }

    async fn work(&mut self) {
        let now = Instant::now();
        let ready: Vec<_> = self.due.iter().filter(|(_, at)| **at <= now).collect();
        let ready: Vec<_> = ready.into_iter().map(|(uid, _)| uid.clone()).collect();
        for uid in ready {
            self.due.remove(&uid);
            let again = match self.examine(&uid).await {
                Ok(Outcome::Settled) => continue,
                Ok(Outcome::Again) => TICK,
                Err(error) => {
                    tracing::debug!(%error, uid, "garbage collection of an object failed; it is retried");
                    AGAIN
                }
            };
            self.due.insert(uid, Instant::now() + again);
        }
    }

    async fn examine(&mut self, uid: &str) -> kube::Result<Outcome> {
        let Some(node) = self.graph.get(uid).cloned() else {
            return Ok(Outcome::Settled);
        };
        if node.waits_for(ORPHAN) {
            return self.orphan(uid, &node).await;
        }
        if node.waits_for(FOREGROUND) {
            return self.foreground(uid, &node).await;
        }
        if node.deleting || node.owners.is_empty() {
            return Ok(Outcome::Settled);
        }
        self.check_owners(uid, &node).await
    }

    /// Deletes the object if no owner is left; removes references to owners that are gone beside others.
    async fn check_owners(&self, uid: &str, node: &Node) -> kube::Result<Outcome> {
        let (mut gone, mut waiting) = (BTreeSet::new(), BTreeSet::new());
        for owner in &node.owners {
            match self.state_of(node, owner).await? {
                Owner::Present => {}
                Owner::Gone => drop(gone.insert(owner.uid.clone())),
                Owner::Waiting => drop(waiting.insert(owner.uid.clone())),
            }
        }
        if gone.len() + waiting.len() == node.owners.len() {
            return self.delete(uid, node, &waiting).await;
        }
        if gone.is_empty() {
            return Ok(Outcome::Settled);
        }
        let kept = node.owners_without(&gone);
        self.patch(uid, node, json!({ "ownerReferences": kept }))
            .await
    }

    /// An owner that the watches have not shown is looked up: it may be newer than they are.
    async fn state_of(&self, node: &Node, owner: &OwnerReference) -> kube::Result<Owner> {
        if let Some(known) = self.graph.get(&owner.uid) {
            let blocks = owner.block_owner_deletion == Some(true);
            let waits = blocks && known.waits_for(FOREGROUND);
            return Ok(if waits {
                Owner::Waiting
            } else {
                Owner::Present
            });
        }
        let group = owner
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        let mut kinds = self.kinds.values().map(|kind| (&kind.resource, kind));
        let kind = kinds.find(|(known, _)| known.group == group && known.kind == owner.kind);
        // The kind may appear in discovery later. Nothing is deleted on a guess.
        let Some((_, kind)) = kind else {
            return Ok(Owner::Present);
        };
        let api = kind.api(&self.client, node.namespace.as_deref());
        let found = api.get_metadata_opt(&owner.name).await?;
        let is_owner = found.is_some_and(|found| found.uid().as_ref() == Some(&owner.uid));
        Ok(if is_owner {
            Owner::Present
        } else {
            Owner::Gone
        })
    }

    async fn delete(
        &self,
        uid: &str,
        node: &Node,
        waiting: &BTreeSet<Uid>,
    ) -> kube::Result<Outcome> {
        let Some(kind) = self.kinds.get(&node.kind) else {
            return Ok(Outcome::Settled);
        };
        let in_order = !waiting.is_empty() && !self.graph.dependents_of(uid).is_empty();
        let policy = if in_order {
            PropagationPolicy::Foreground
        } else {
            PropagationPolicy::Background
        };
        let params = DeleteParams {
            propagation_policy: Some(policy),
            // Never another object that has the name meanwhile.
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: node.version.clone(),
            }),
            ..DeleteParams::default()
        };
        let api = kind.api(&self.client, node.namespace.as_deref());
        let outcome = settled(api.delete(&node.name, &params).await.map(drop))?;
        let (kind, name) = (&node.kind, &node.name);
        tracing::info!(
            kind,
            name,
            namespace = node.namespace,
            "object without owner deleted"
        );
        Ok(outcome)
    }

    async fn orphan(&self, uid: &str, node: &Node) -> kube::Result<Outcome> {
        if !self.is_complete() {
            return Ok(Outcome::Again);
        }
        let this = BTreeSet::from([uid.to_owned()]);
        for dependent in self.graph.dependents_of(uid) {
            if let Some(child) = self.graph.get(&dependent) {
                let kept = child.owners_without(&this);
                let change = json!({ "ownerReferences": kept });
                if self.patch(&dependent, child, change).await? == Outcome::Again {
                    return Ok(Outcome::Again);
                }
            }
        }
        self.release(uid, node, ORPHAN).await
    }

    async fn foreground(&mut self, uid: &str, node: &Node) -> kube::Result<Outcome> {
        if !self.is_complete() {
            return Ok(Outcome::Again);
        }
        let blocking = self.graph.blocking(uid);
        if blocking.is_empty() {
            return self.release(uid, node, FOREGROUND).await;
        }
        let now = Instant::now();
        for dependent in blocking {
            self.due.entry(dependent).or_insert(now);
        }
        // The event of the last dependent wakes the owner.
        Ok(Outcome::Settled)
    }

    /// Whether all dependents of an object are known.
    fn is_complete(&self) -> bool {
        !self.kinds.is_empty() && self.kinds.keys().all(|kind| self.listed.contains(kind))
    }

    async fn release(&self, uid: &str, node: &Node, finalizer: &str) -> kube::Result<Outcome> {
        let mut kept = node.finalizers.clone();
        kept.retain(|known| known != finalizer);
        self.patch(uid, node, json!({ "finalizers": kept })).await
    }

    /// Changes the metadata of exactly the object that was seen.
    async fn patch(&self, uid: &str, node: &Node, mut change: Value) -> kube::Result<Outcome> {
        let Some(kind) = self.kinds.get(&node.kind) else {
            return Ok(Outcome::Settled);
        };
        change["uid"] = uid.into();
        change["resourceVersion"] = node.version.clone().into();
        let api = kind.api(&self.client, node.namespace.as_deref());
        let change = Patch::Merge(json!({ "metadata": change }));
        let params = PatchParams::default();
        settled(
            api.patch_metadata(&node.name, &params, &change)
                .await
                .map(drop),
        )
    }
}

/// An object that is gone needs nothing; one that has changed is examined in its new form.
fn settled(answer: kube::Result<()>) -> kube::Result<Outcome> {
    match answer {
        Ok(()) => Ok(Outcome::Settled),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Outcome::Settled),
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(Outcome::Again),
        Err(error) => Err(error),
    }
}

/// Reports the objects of a kind, and what becomes of them.
async fn watch(client: Client, kind: Kind, sender: mpsc::Sender<News>) {
    let name = kind.name();
    let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client, &kind.resource);
    let events = watcher(api, watcher::Config::default());
    let mut events = pin!(events.default_backoff());
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        let news = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.extend(object.uid());
                seen(&name, object.metadata)
            }
            Ok(Event::InitDone) => News::Listed(name.clone(), std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => seen(&name, object.metadata),
            Ok(Event::Delete(object)) => News::Gone(object.uid().unwrap_or_default(), name.clone()),
            Err(error) => {
                tracing::debug!(%error, kind = name, "a watch failed; it is retried");
                continue;
            }
        };
        if sender.send(news).await.is_err() {
            return;
        }
    }
}

fn seen(kind: &str, meta: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> News {
    let uid = meta.uid.clone().unwrap_or_default();
    News::Seen(uid, Node::new(kind, meta))
}
