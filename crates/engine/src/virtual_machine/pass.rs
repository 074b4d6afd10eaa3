//! The state of one pass over one VirtualMachine.

use std::sync::Arc;

use jiff::Timestamp;
use polyvirt_api::infra::VirtualMachine;
use polyvirt_contract::Identity;
use polyvirt_contract::model::{VmRef, VmState};
use polyvirt_plan::honoured::once::Declared;
use polyvirt_plan::virtual_machine::{
    Applied, Claim, Desired, Facts, Intent, Life, Observed, Outcome, Record, RevertWish, Sent,
    record,
};
use polyvirt_plan::{Note, Problem};

use crate::context::{Context, Memo};
use crate::next::Next;
use crate::runtime::key::ObjectKey;

pub(super) use super::reach::{Reach, Ready, reach};

/// What a step leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Flow {
    /// Plan again with what is known now.
    Continue,
    /// The pass is over: report.
    End(Outcome),
    /// The pass is over and there is nothing to report, or nobody to report to.
    Abandon(Next),
}

/// What the pass knows of the VM.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Unknown,
    Absent,
    Present(Arc<VmState>),
    Stranger(Arc<VmState>),
}

pub(super) struct Pass<'a> {
    pub ctx: &'a Context,
    pub key: ObjectKey,
    pub vm: Arc<VirtualMachine>,
    /// The generation that `desired` was worked out from. The object may have moved on since.
    pub generation: Option<i64>,
    pub identity: Identity,
    pub claim: Option<Claim>,
    pub reach: Reach,
    pub desired: Result<Desired, Problem>,
    pub ignored_fields: Vec<String>,
    /// Digests of the fields that are read once, as they are declared now.
    pub declared: Declared,
    pub record: Record,
    pub intent: Intent,
    /// What the VM is to go back to.
    pub revert: Option<RevertWish>,
    /// The VMSnapshot that is not to go with the VM.
    pub keeper: Option<String>,
    pub seen: Seen,
    /// When the provider was last asked for the VM in this pass.
    pub asked: Option<Timestamp>,
    pub memo: Memo,
    pub notes: Vec<Note>,
    /// Whether this pass has chosen the host.
    pub placed_now: bool,
    /// When to look again, where the outcome alone does not say it.
    pub come_again: Option<Next>,
}

impl Pass<'_> {
    /// The VMMigration that moves the VM now. Asked before each step: one may begin while a pass is under way.
    pub fn mover(&self) -> Option<String> {
        crate::migration::mover_of(self.ctx, &self.key, self.identity.as_str())
    }

    /// All that the planner may know now.
    pub fn facts<'b>(&'b self, mover: Option<&'b str>) -> Facts<'b> {
        let mut object = record::object(&self.vm);
        object.claim = self.claim.unwrap_or(object.claim);
        Facts {
            now: self.ctx.now(),
            object,
            record: &self.record,
            desired: self.desired.as_ref(),
            provider: self.reach.facts(),
            observed: self.observed(),
            asked: self.asked.unwrap_or_else(|| self.ctx.now()),
            connected: self.ready().map(|ready| ready.heard),
            sent: self.sent(),
            intent: self.intent,
            revert: self.revert.as_ref(),
            placing: self.placing(),
            moving: mover,
            keeper: self.keeper.as_deref(),
        }
    }

    fn observed(&self) -> Observed<'_> {
        match &self.seen {
            Seen::Unknown => Observed::Unknown,
            Seen::Absent => Observed::Absent,
            Seen::Present(vm) => Observed::Present(vm),
            Seen::Stranger(vm) => Observed::Stranger(vm),
        }
    }

    /// A change counts as sent until the VM shows anything new.
    fn sent(&self) -> Option<&Sent> {
        let (sent, then) = self.memo.sent.as_ref()?;
        let unchanged = match (then, &self.seen) {
            (Some(then), Seen::Present(now)) => same_moment(then, now),
            (None, Seen::Absent) => true,
            _ => false,
        };
        unchanged.then_some(sent)
    }

    /// The VM as it was last seen, ours or not.
    pub fn present(&self) -> Option<&Arc<VmState>> {
        match &self.seen {
            Seen::Present(vm) => Some(vm),
            _ => None,
        }
    }

    pub fn is_deleting(&self) -> bool {
        matches!(record::object(&self.vm).life, Life::Deleting(_))
    }

    /// The VM is this one. If it was another, what that one had is no news of this one.
    pub fn found(&mut self, vm: &VmState) {
        if self.record.id.as_ref().is_some_and(|id| *id != vm.id) {
            self.record.applied = Applied::default();
        }
        self.record.id = Some(vm.id.clone());
    }

    /// The VM to change, on behalf of this object. `None` while the VM has no id.
    pub fn vm_ref(&self) -> Option<VmRef> {
        let id = self
            .present()
            .map(|vm| vm.id.clone())
            .or_else(|| self.record.id.clone())?;
        let meta = &self.vm.metadata;
        let owner = polyvirt_contract::model::Owner {
            identity: self.identity.clone(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        };
        Some(VmRef {
            id,
            owner: Some(owner),
        })
    }

    pub fn ready(&self) -> Option<&Ready> {
        match &self.reach {
            Reach::Ready(ready) => Some(ready),
            _ => None,
        }
    }
}

/// Whether two words about a VM are of the same moment. Counted where the provider counts, compared where it does not.
fn same_moment(a: &VmState, b: &VmState) -> bool {
    if a.revision != 0 || b.revision != 0 {
        return a.revision == b.revision;
    }
    (a.power, a.cpu, a.memory_mib, &a.disks, &a.nics)
        == (b.power, b.cpu, b.memory_mib, &b.disks, &b.nics)
}
