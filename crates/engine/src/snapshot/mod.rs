//! The controller of VMSnapshots. The states and the rules are those of [`polyvirt_plan::snapshot`]; the flow around them is that
//! of VirtualMachines: load from the caches, plan and act in turn, report once.
//!
//! Nothing is polled. A snapshot is looked at when its object, its VirtualMachine, its VM or its provider changes, when a task
//! ends that it waits for, and when its life ends.

mod act;
mod finish;
mod load;
pub(crate) mod refusals;
mod schedule;

use std::sync::Arc;

use polyvirt_api::infra::VMSnapshot;
use polyvirt_contract::model::VmState;
use polyvirt_plan::snapshot::schedule::Hold;
use polyvirt_plan::snapshot::{
    Desired, Facts, Intent, Maker, Observed, Outcome, Record, VmFacts, VmPlace, next_step, record,
};
use polyvirt_plan::{Note, Problem};

use crate::context::Context;
use crate::next::Next;
use crate::runtime::key::{Key, ObjectKey};
use crate::virtual_machine::reach::Reach;

/// No sane sequence is longer.
const MOST_STEPS: usize = 16;

/// Brings one VMSnapshot a step, or all the way, to what is declared.
pub async fn reconcile(ctx: &Context, key: &ObjectKey) -> Next {
    let Some(object) = ctx.stores.snapshots.get(key) else {
        ctx.refusals.forget(key);
        return Next::Idle;
    };
    if schedule::is_for_us(&object) {
        return schedule::reconcile(ctx, key, object).await;
    }
    let mut pass = Pass::load(ctx, key, object);
    for _ in 0..MOST_STEPS {
        let step = next_step(&pass.facts());
        tracing::trace!(snapshot = %key, ?step, "plan");
        match pass.act(step).await {
            Flow::Continue => {}
            Flow::End(outcome) => return pass.finish(outcome).await,
            Flow::Abandon(next) => return next,
        }
    }
    Next::Backoff
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

/// What the pass knows of the VM and its snapshots.
enum Seen {
    Unknown,
    Silent,
    NoVm,
    Gone,
    Vm(Arc<VmState>),
}

struct Pass<'a> {
    ctx: &'a Context,
    key: Key,
    object: Arc<VMSnapshot>,
    name: String,
    vm: VmFacts,
    /// Whether it is pinned, its VM is to go back to it, or it is the newest of its schedule.
    hold: Hold,
    /// How the schedule that made it stands.
    maker: Maker,
    /// The VM as it is now, for a snapshot that was not begun.
    place: Option<VmPlace>,
    reach: Reach,
    desired: Result<Desired, Problem>,
    record: Record,
    intent: Intent,
    seen: Seen,
    notes: Vec<Note>,
}

impl Pass<'_> {
    fn facts(&self) -> Facts<'_> {
        Facts {
            now: self.ctx.now(),
            object: record::object(&self.object),
            name: &self.name,
            record: &self.record,
            desired: self.desired.as_ref(),
            vm: self.vm,
            hold: self.hold,
            maker: self.maker,
            provider: self.reach.facts(),
            observed: self.observed(),
            intent: self.intent,
        }
    }

    fn observed(&self) -> Observed<'_> {
        match &self.seen {
            Seen::Unknown => Observed::Unknown,
            Seen::Silent => Observed::Silent,
            Seen::NoVm => Observed::NoVm,
            Seen::Gone => Observed::Gone,
            Seen::Vm(vm) => match &vm.snapshots {
                Some(list) => Observed::Listed(list),
                None => Observed::Untold,
            },
        }
    }

    fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }
}
