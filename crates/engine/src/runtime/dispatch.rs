//! Who is to be looked at when something changes. Changes wake exactly those they concern.

mod hosts;
mod links;
mod moves;
mod observer;
mod places;
mod snapshots;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use polyvirt_api::infra::{
    ImageProviderStatus, Provider, VMClass, VMImage, VMNetworkAttachment, VirtualMachine,
};
use polyvirt_contract::VmId;

use crate::cluster::ClusterError;
use crate::context::Stores;
use crate::link::Link;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::queue::{Lane, Queue, Urgency};
use crate::runtime::store::Change;
use crate::runtime::vm_index::{Target, provider_of};

/// Counts of users are brought up to date this long after the first change, so that a thousand changes are one write.
const USAGE_DELAY: Duration = Duration::from_secs(3);
/// How long after a status that we did not know of its object is looked at.
const STATUS_NEWS_DELAY: Duration = Duration::from_secs(1);

/// Where a change comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The first list after a start: nobody waits for it.
    FirstList,
    /// The watch: somebody did something.
    Watch,
    /// The answer to a write of ours.
    OurWrite,
}

/// Turns changes into work.
pub struct Dispatcher {
    stores: Arc<Stores>,
    queue: Queue,
    followers: Vec<Arc<dyn Follower>>,
}

/// Hears which VMs and Providers have changed, once the caches have them so. It must not wait.
pub trait Follower: Send + Sync {
    /// A VirtualMachine came, changed or went.
    fn vm_changed(&self, vm: &ObjectKey);
    /// A Provider came, changed or went.
    fn provider_changed(&self, provider: &ObjectKey);
    /// A VirtualMachine that had the VM of that id is about to lose its finalizer. The finalizer is removed only after this has
    /// succeeded, so an owner can first record that its VM was deleted: after a crash nothing else would show it.
    fn vm_leaves<'a>(
        &'a self,
        vm: &'a VirtualMachine,
        id: &'a VmId,
    ) -> BoxFuture<'a, Result<(), ClusterError>>;
}

impl Dispatcher {
    /// Reads the caches, fills the queue.
    pub const fn new(stores: Arc<Stores>, queue: Queue) -> Self {
        Self {
            stores,
            queue,
            followers: Vec::new(),
        }
    }

    /// The same, and these hear of changes.
    #[must_use]
    pub fn followed_by(mut self, followers: Vec<Arc<dyn Follower>>) -> Self {
        self.followers = followers;
        self
    }

    /// Reconciles the VM for a reason that is not news of the VM itself: an operation that failed may be sent again now.
    fn wake_vm(&self, key: &ObjectKey, urgency: Urgency) {
        self.stores.setbacks.lift(key);
        self.tell_vm(key, urgency);
    }

    /// Reconciles the VM and leaves the pauses of failed operations alone: the news may be of that failure. What concerns a
    /// VM concerns its snapshots and its moves.
    fn tell_vm(&self, key: &ObjectKey, urgency: Urgency) {
        self.wake_snapshots_of(key, urgency);
        self.wake_moves_of(key, urgency);
        let Some(vm) = self.stores.vms.get(key) else {
            return;
        };
        let lane = Lane::Provider(provider_of(&vm));
        self.queue
            .add(Key::new(Kind::VirtualMachine, key.clone()), lane, urgency);
    }

    fn wake_users(&self, target: &Target, urgency: Urgency) {
        for key in self.stores.index.users(target) {
            self.wake_vm(&key, urgency);
        }
    }

    /// The Provider counts the VMs that nobody owns.
    fn wake_owners(&self, link: &Link, identity: &Target) {
        let owners = self.stores.index.users(identity);
        if owners.is_empty() {
            self.wake_later(Kind::Provider, &link.key);
        }
        for key in owners {
            self.tell_vm(&key, Urgency::Event);
        }
    }

    fn wake(&self, kind: Kind, key: &ObjectKey, urgency: Urgency) {
        self.queue
            .add(Key::new(kind, key.clone()), Lane::Control, urgency);
    }

    fn wake_later(&self, kind: Kind, key: &ObjectKey) {
        self.queue.add_after(
            Key::new(kind, key.clone()),
            Lane::Control,
            Urgency::Background,
            USAGE_DELAY,
        );
    }

    /// A VirtualMachine changed. Our own status writes are known by their answers: a status that the watch brings as news is
    /// somebody else's, or ours whose answer was lost, and passes since then have planned on an older one.
    pub fn vm_changed(&self, change: &Change<VirtualMachine>, source: Source) {
        let (old, new) = match change {
            Change::Added(new) => (None, Some(new)),
            Change::Updated { old, new } => (Some(old), Some(new)),
            Change::Removed(old) => (Some(old), None),
        };
        let Some(any) = new.or(old) else { return };
        let key = ObjectKey::of(&**any);
        let moved = self
            .stores
            .index
            .update(&key, old.map(|v| &**v), new.map(|v| &**v));
        for target in moved {
            self.reference_moved(&target, source);
        }
        self.followers.iter().for_each(|f| f.vm_changed(&key));
        self.room_moved(old.map(|v| &**v), new.map(|v| &**v));
        if snapshots::vm_moved(old.map(|v| &**v), new.map(|v| &**v)) {
            self.wake_snapshots_of(&key, Urgency::Event);
        }
        if moves::vm_moved(old.map(|v| &**v), new.map(|v| &**v)) {
            self.wake_moves_of(&key, Urgency::Event);
        }
        match (source, new) {
            (Source::FirstList, Some(_)) => self.wake_vm(&key, Urgency::Background),
            (Source::Watch, Some(new)) if old.is_none_or(|old| is_edited(old, new)) => {
                self.wake_vm(&key, Urgency::User);
            }
            (Source::Watch, Some(new)) if old.is_some_and(|old| old.status != new.status) => {
                // Its own pauses go first: most such news is our own, a moment before its answer.
                let lane = Lane::Provider(provider_of(new));
                let key = Key::new(Kind::VirtualMachine, key);
                self.queue
                    .add_if_idle(key, lane, Urgency::Background, STATUS_NEWS_DELAY);
            }
            _ => {}
        }
    }

    /// The first user is known at once, so that what it uses cannot be deleted under it. The others are counted later.
    fn usage_moved(&self, kind: Kind, key: &ObjectKey, target: &Target, source: Source) {
        if source == Source::Watch && self.stores.index.count(target) == 1 {
            self.wake(kind, key, Urgency::Event);
        } else {
            self.wake_later(kind, key);
        }
    }

    /// Somebody began or ceased to use something.
    fn reference_moved(&self, target: &Target, source: Source) {
        match target {
            Target::Provider(key) => self.usage_moved(Kind::Provider, key, target, source),
            Target::Class(key) => self.usage_moved(Kind::VMClass, key, target, source),
            Target::Network(key) => {
                self.usage_moved(Kind::VMNetworkAttachment, key, target, source);
            }
            Target::Policy(key) => {
                self.usage_moved(Kind::VMPlacementPolicy, key, target, source);
            }
            Target::Image(key) if source == Source::FirstList => {
                self.wake_later(Kind::VMImage, key);
            }
            Target::Image(key) => self.wake(Kind::VMImage, key, Urgency::Event),
            // Another object that carried the same identity may have the right to it now.
            Target::Identity(_) if source != Source::FirstList => {
                self.wake_users(target, Urgency::Event);
            }
            Target::Identity(_) | Target::Secret(_) | Target::Snapshot(_) | Target::Vm(..) => {}
        }
    }

    /// A Provider changed.
    pub fn provider_changed(&self, change: &Change<Provider>, source: Source) {
        self.tell_of_provider(change);
        match change {
            Change::Added(new) => {
                let key = ObjectKey::of(&**new);
                self.wake(Kind::Provider, &key, urgency(source));
                if source == Source::Watch {
                    self.wake_users(&Target::Provider(key), Urgency::Event);
                    self.wake_snapshots_on(&ObjectKey::of(&**new));
                    self.wake_moves();
                }
            }
            Change::Updated { old, new } => {
                if old.metadata.generation != new.metadata.generation
                    || deletion_moved(&**old, &**new)
                {
                    self.wake(Kind::Provider, &ObjectKey::of(&**new), urgency(source));
                    self.hosts_changed(&ObjectKey::of(&**new));
                }
                // Those that were refused may use it now, and the other way round.
                if old.spec.consumer_namespace_selector != new.spec.consumer_namespace_selector {
                    let key = ObjectKey::of(&**new);
                    self.wake_users(&Target::Provider(key), Urgency::Event);
                }
            }
            Change::Removed(old) => {
                let key = ObjectKey::of(&**old);
                self.wake(Kind::Provider, &key, Urgency::Event);
                self.wake_users(&Target::Provider(key), Urgency::Event);
                self.wake_snapshots_on(&ObjectKey::of(&**old));
                self.wake_moves();
            }
        }
    }

    fn tell_of_provider(&self, change: &Change<Provider>) {
        let (Change::Added(any) | Change::Updated { new: any, .. } | Change::Removed(any)) = change;
        let key = ObjectKey::of(&**any);
        self.followers.iter().for_each(|f| f.provider_changed(&key));
    }

    /// Something changed where a Provider's code runs.
    pub fn place_changed(&self, provider: &ObjectKey) {
        self.wake(Kind::Provider, provider, Urgency::Event);
    }

    /// A class changed.
    pub fn class_changed(&self, change: &Change<VMClass>, source: Source) {
        self.referenced(change, Kind::VMClass, Target::Class, source);
    }

    /// A network changed.
    pub fn network_changed(&self, change: &Change<VMNetworkAttachment>, source: Source) {
        self.referenced(change, Kind::VMNetworkAttachment, Target::Network, source);
    }

    /// An image changed; its status matters too, for that is where it says on which providers it is ready.
    pub fn image_changed(&self, change: &Change<VMImage>, source: Source) {
        if let Change::Updated { old, new } = change {
            let edited = old.metadata.generation != new.metadata.generation
                || deletion_moved(&**old, &**new);
            if !edited && readiness(old) != readiness(new) {
                self.wake_users(&Target::Image(ObjectKey::of(&**new)), Urgency::Event);
            }
        }
        self.referenced(change, Kind::VMImage, Target::Image, source);
    }

    fn referenced<K: kube::Resource>(
        &self,
        change: &Change<K>,
        kind: Kind,
        target: fn(ObjectKey) -> Target,
        source: Source,
    ) {
        let key = match change {
            Change::Added(new) => ObjectKey::of(&**new),
            Change::Updated { old, new } => {
                let key = ObjectKey::of(&**new);
                let same = old.meta().generation == new.meta().generation;
                if same && !deletion_moved(&**old, &**new) {
                    if source == Source::Watch {
                        self.wake_later(kind, &key);
                    }
                    return;
                }
                key
            }
            Change::Removed(old) => ObjectKey::of(&**old),
        };
        self.wake(kind, &key, urgency(source));
        if source == Source::Watch {
            self.wake_users(&target(key), Urgency::Event);
        }
    }

    /// A Secret changed.
    pub fn secret_changed(&self, secret: &PartialObjectMeta<Secret>) {
        let key = ObjectKey::of(secret);
        self.wake_users(&Target::Secret(key.clone()), Urgency::Event);
        for provider in self.stores.providers.list() {
            if names_secret(&provider, &key) {
                self.wake(Kind::Provider, &ObjectKey::of(&*provider), Urgency::Event);
            }
        }
        for image in self.stores.images.list() {
            if image_names_secret(&image, &key) {
                self.wake(Kind::VMImage, &ObjectKey::of(&*image), Urgency::Event);
            }
        }
    }
}

fn image_names_secret(image: &VMImage, secret: &ObjectKey) -> bool {
    let own = image.metadata.namespace.as_deref().unwrap_or_default();
    let source = &image.spec.source;
    let http = source.http.as_ref();
    let auth = http.and_then(|h| h.authentication.as_ref());
    let bearer = auth.and_then(|a| a.bearer.as_ref().map(|b| &b.secret_ref.name));
    let basic = auth.and_then(|a| a.basic_auth.as_ref().map(|b| &b.secret_ref.name));
    let registry = source.registry.as_ref();
    let pull = registry.and_then(|r| r.pull_secret_ref.as_ref().map(|s| &s.name));
    let mut names = [bearer, basic, pull].into_iter().flatten();
    names.any(|name| ObjectKey::new(own, name) == *secret)
}

fn names_secret(provider: &Provider, secret: &ObjectKey) -> bool {
    let own = provider.metadata.namespace.as_deref().unwrap_or_default();
    let credentials = provider.spec.credential_secret_ref.as_ref();
    let tls = provider
        .spec
        .runtime
        .as_ref()
        .and_then(|r| r.service.as_ref()?.tls.as_ref()?.secret_ref.as_ref());
    credentials.is_some_and(|r| ObjectKey::new(r.namespace_or(own), &r.name) == *secret)
        || tls.is_some_and(|r| ObjectKey::new(own, &r.name) == *secret)
}

const fn urgency(source: Source) -> Urgency {
    match source {
        Source::FirstList => Urgency::Background,
        Source::Watch => Urgency::User,
        Source::OurWrite => Urgency::Event,
    }
}

/// Whether a user has changed spec, annotations, labels or finalizers, or wants it gone.
fn is_edited(old: &VirtualMachine, new: &VirtualMachine) -> bool {
    old.metadata.generation != new.metadata.generation
        || old.metadata.annotations != new.metadata.annotations
        || old.metadata.labels != new.metadata.labels
        || old.metadata.finalizers != new.metadata.finalizers
        || deletion_moved(old, new)
}

/// How an image stands on providers, as far as VMs care: not how far an import is.
fn readiness(image: &VMImage) -> Vec<(&String, Option<&String>, &[String], Readiness<'_>)> {
    let providers = image.status.iter().flat_map(|s| &s.provider_status);
    let told = providers.map(|(name, on)| {
        let checked = on.checked_for.as_slice();
        (name, on.fingerprint.as_ref(), checked, Readiness::of(on))
    });
    told.collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Readiness<'a> {
    Available,
    Importing,
    Failed(&'a str),
}

impl<'a> Readiness<'a> {
    fn of(on: &'a ImageProviderStatus) -> Self {
        let failed = || Self::Failed(on.message.as_deref().unwrap_or_default());
        match (on.available, &on.task_ref) {
            // Something newer was asked for.
            (true, None) if on.attempts.unwrap_or(0) > 0 => failed(),
            (true, _) => Self::Available,
            (false, Some(_)) => Self::Importing,
            (false, None) => failed(),
        }
    }
}

fn deletion_moved<K: kube::Resource>(old: &K, new: &K) -> bool {
    old.meta().deletion_timestamp != new.meta().deletion_timestamp
}
