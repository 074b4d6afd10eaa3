//! VMs that were made for objects which are not there: kept on purpose or deleted by force, made by another cluster on the same
//! hypervisor, or lost with an object that went too early (`runtime/vanished.rs`). They are counted and never touched.

use crate::context::Context;
use crate::runtime::key::ObjectKey;
use crate::runtime::vm_index::Target;

/// How many VMs of the provider carry an identity that no object has.
pub fn count(ctx: &Context, provider: &ObjectKey) -> usize {
    let Some(link) = ctx.links.get(provider) else {
        return 0;
    };
    let identities = link.seen(|seen| seen.identities());
    let nobodys = |identity| {
        ctx.stores
            .index
            .users(&Target::Identity(identity))
            .is_empty()
    };
    identities
        .into_iter()
        .filter(|i| nobodys(i.clone()))
        .count()
}
