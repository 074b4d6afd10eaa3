//! The controller of VirtualMachines. The states and the rules are those of [`polyvirt_plan::virtual_machine`]; here is the
//! flow around them:
//!
//! ```text
//!   load ──► ┌─► plan ─► act ─┐ ──► finish (status once, if it differs; events; when to come again)
//!   caches   └────────────────┘     Kubernetes
//!                    provider
//! ```
//!
//! A pass takes no hint of what changed, and stops at the first thing that it has to wait for.

mod act;
mod call;
mod change;
mod create;
pub(crate) mod errands;
mod finish;
mod hook;
mod load;
mod look;
pub(crate) mod ownership;
mod pass;
pub(crate) mod place;
pub(crate) mod reach;
mod records;
mod request;
mod revert;
pub mod setbacks;
mod sharing;
mod task;

use polyvirt_plan::virtual_machine::next_step;

use crate::context::{Context, Memo};
use crate::next::Next;
use crate::runtime::key::ObjectKey;

pub use pass::Flow;
use pass::Pass;

/// No sane sequence is longer; a longer one is a defect, and the next pass goes on where it stopped.
const MOST_STEPS: usize = 16;

/// Brings one VirtualMachine a step, or all the way, to what is declared.
pub async fn reconcile(ctx: &Context, key: &ObjectKey) -> Next {
    let Some(vm) = ctx.stores.vms.get(key) else {
        ctx.remember(key, Memo::default());
        ctx.placements.forget(key);
        ctx.reservations.free(key);
        ctx.errands.stop(key);
        ctx.stores.setbacks.forget(key);
        return Next::Idle;
    };
    match ctx.memo(key).released {
        Some(uid) if vm.metadata.uid.as_ref() == Some(&uid) => return Next::Idle,
        Some(_) => ctx.remember(key, Memo::default()),
        None => {}
    }
    let refusal = match sharing::refusal(ctx, &vm).await {
        Ok(refusal) => refusal,
        Err(error) => return Next::after_refusal(&error),
    };
    let mut pass = Pass::load(ctx, key, vm, refusal);
    for _ in 0..MOST_STEPS {
        let mover = pass.mover();
        let step = next_step(&pass.facts(mover.as_deref()));
        tracing::trace!(vm = %key, ?step, "plan");
        // Asked here and not where the operation is sent: steps that only prepare it write to the API server.
        if let Some(outcome) = pass.held_back(&step) {
            return pass.finish(outcome).await;
        }
        match pass.act(step).await {
            Flow::Continue => {}
            Flow::End(outcome) => return pass.finish(outcome).await,
            Flow::Abandon(next) => return next,
        }
    }
    Next::Backoff
}
