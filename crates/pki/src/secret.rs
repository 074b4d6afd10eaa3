//! Secrets that others may have made for us to fill.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;

/// One that somebody made so that it goes with what they made it for: it is ours to fill.
pub fn is_empty(secret: &Secret) -> bool {
    secret.data.as_ref().is_none_or(BTreeMap::is_empty)
}

/// What others have written on the Secret stays.
pub fn written_over(mut new: Secret, old: Secret) -> Secret {
    let all = |ours: Option<BTreeMap<String, String>>, theirs: Option<_>| {
        let mut all: BTreeMap<String, String> = theirs.unwrap_or_default();
        all.extend(ours.unwrap_or_default());
        Some(all)
    };
    let keep = old.metadata;
    new.metadata.labels = all(new.metadata.labels, keep.labels);
    new.metadata.annotations = all(new.metadata.annotations, keep.annotations);
    new.metadata.owner_references = keep.owner_references;
    new.metadata.finalizers = keep.finalizers;
    new.metadata.resource_version = keep.resource_version;
    new.type_ = old.type_;
    new
}
