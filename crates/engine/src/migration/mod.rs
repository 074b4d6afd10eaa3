//! The controller of VMMigrations: moves of VMs between hosts of one provider. The states and the rules are those of
//! [`polyvirt_plan::migration`]; the flow around them is that of VirtualMachines: load from the caches, plan and act in turn,
//! report once.
//!
//! A move is looked at when its object, its VirtualMachine, its VM or its provider changes, when its task ends, and while it is
//! under way every few seconds for its figures. So often at most its status is written.
//!
//! If this process dies
//! - before the beginning is written down: nothing was sent, and the next one begins;
//! - after that, or after the request, or before its task is written down: the next one looks where the VM is and sends the same
//!   request again, which its provider carries out once;
//! - after the end and before that is written down: the next one sees the VM on the target.

mod act;
pub(crate) mod count;
mod finish;
mod load;
mod target;

use std::sync::Arc;

use polyvirt_api::infra::VMMigration;
use polyvirt_contract::ProviderError;
use polyvirt_contract::model::VmState;
use polyvirt_plan::migration::{
    Desired, Facts, Intent, Observed, Outcome, Quiet, Record, VmFacts, next_step, record,
};
use polyvirt_plan::snapshot::VmPlace;
use polyvirt_plan::{Note, Problem};

use crate::context::Context;
use crate::next::Next;
use crate::runtime::key::{Key, ObjectKey};
use crate::virtual_machine::reach::Reach;

/// No sane sequence is longer.
const MOST_STEPS: usize = 16;

/// Brings one VMMigration a step, or all the way, to its end.
pub async fn reconcile(ctx: &Context, key: &ObjectKey) -> Next {
    let Some(object) = ctx.stores.migrations.get(key) else {
        return Next::Idle;
    };
    let mut pass = Pass::load(ctx, key, object);
    for _ in 0..MOST_STEPS {
        let rival = pass.rival();
        let step = next_step(&pass.facts(rival.as_deref()));
        tracing::trace!(migration = %key, ?step, "plan");
        match pass.act(step).await {
            Flow::Continue => {}
            Flow::End(outcome) => return pass.finish(outcome).await,
            Flow::Abandon(next) => return next,
        }
    }
    Next::Backoff
}

/// The VMMigration that moves a VM now.
pub(crate) fn mover_of(ctx: &Context, vm: &ObjectKey, identity: &str) -> Option<String> {
    let keys = ctx.stores.migration_index.of(vm).into_iter();
    let open = keys.filter_map(|key| ctx.stores.migrations.get(&key));
    let mut ours = open.filter(|m| {
        let vm = record::record(m).vm;
        record::is_open(m) && vm.is_some_and(|vm| vm.identity.as_str() == identity)
    });
    ours.next().and_then(|m| m.metadata.name.clone())
}

/// What a step leads to.
enum Flow {
    /// Plan again with what is known now.
    Continue,
    /// The pass is over: report.
    End(Outcome),
    /// The pass is over and there is nobody to report to.
    Abandon(Next),
}

/// What the pass knows of the VM.
enum Seen {
    Unknown,
    NoVm,
    Vm(Arc<VmState>),
}

struct Pass<'a> {
    ctx: &'a Context,
    key: Key,
    object: Arc<VMMigration>,
    vm: VmFacts,
    /// The VM as it is now, for a move that has not begun.
    place: Option<VmPlace>,
    reach: Reach,
    desired: Result<Desired, Problem>,
    record: Record,
    intent: Intent,
    seen: Seen,
    failure: Option<ProviderError>,
    quiet: Quiet,
    notes: Vec<Note>,
    /// When to look again, where the outcome alone does not say it.
    come_again: Option<Next>,
}

impl Pass<'_> {
    fn facts<'b>(&'b self, rival: Option<&'b str>) -> Facts<'b> {
        Facts {
            now: self.ctx.now(),
            object: record::object(&self.object),
            record: &self.record,
            desired: self.desired.as_ref(),
            vm: self.vm,
            rival,
            provider: self.reach.facts(),
            connected: match &self.reach {
                Reach::Ready(ready) => Some(ready.since),
                _ => None,
            },
            observed: match &self.seen {
                Seen::Unknown => Observed::Unknown,
                Seen::NoVm => Observed::NoVm,
                Seen::Vm(vm) => Observed::Vm(vm),
            },
            intent: self.intent,
            failure: self.failure.as_ref(),
            quiet: self.quiet,
        }
    }

    fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }
}
