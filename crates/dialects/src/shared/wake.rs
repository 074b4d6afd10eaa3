//! What of a change matters, and how soon it is to be looked at.

use kube::Resource;
use polyvirt_engine::runtime::dispatch::Source;
use polyvirt_engine::runtime::queue::Urgency;
use polyvirt_engine::runtime::store::{Change, Store};
use polyvirt_engine::runtime::trim;

/// How soon a change is to be looked at.
pub const fn urgency(source: Source) -> Urgency {
    match source {
        Source::FirstList => Urgency::Background,
        Source::Watch => Urgency::User,
        Source::OurWrite => Urgency::Event,
    }
}

/// Takes the answer to a status write into a cache, unless it brings an edit with it: that is left to the watch, which wakes
/// whom it concerns.
pub fn keep<K: Resource>(store: &Store<K>, before: &K, written: K) {
    let written = trim::metadata(written);
    if !is_edited(before, &written) {
        store.written(written);
    }
}

/// Whether anything but the status changed.
pub fn is_edited<K: Resource>(old: &K, new: &K) -> bool {
    let (old, new) = (old.meta(), new.meta());
    old.generation != new.generation
        || old.annotations != new.annotations
        || old.labels != new.labels
        || old.finalizers != new.finalizers
        || old.deletion_timestamp != new.deletion_timestamp
}

/// Whether what the object wants changed, or whose it is.
pub fn changes_spec<K: Resource>(change: &Change<K>) -> bool {
    match change {
        Change::Updated { old, new } => {
            old.meta().generation != new.meta().generation
                || old.meta().owner_references != new.meta().owner_references
        }
        Change::Added(_) | Change::Removed(_) => true,
    }
}
