//! What the caches do not need and so do not keep. It is often more than half of an object.

use kube::Resource;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Takes off who wrote what, and kubectl's copy of the manifest.
pub fn metadata<K: Resource>(mut object: K) -> K {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
    object
}

