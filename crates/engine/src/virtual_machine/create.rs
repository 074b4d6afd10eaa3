//! The VM is made.

use std::sync::Arc;

use polyvirt_contract::model::CreateVm;
use polyvirt_contract::{ErrorKind, Extension, ProviderError};
use polyvirt_plan::honoured::once;
use polyvirt_plan::virtual_machine::{
    Applied, Desired, Intent, OperationKind, Outcome, Shape, is_fresh,
};
use polyvirt_plan::{Note, Reason};

use super::pass::{Flow, Pass, Reach};

impl Pass<'_> {
    pub(super) async fn create(&mut self) -> Flow {
        let mut request = match self.request().await {
            Ok(request) => request,
            Err(flow) => return flow,
        };
        self.put_in_place(&mut request);
        let Reach::Ready(ready) = &self.reach else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        if let Some(refusal) = self.refused(&request) {
            return refusal;
        }
        if self.is_intent_stale() {
            // A Secret was long in coming: the intent is written again first.
            return Flow::Continue;
        }
        self.sending(OperationKind::Create, None);
        match provider.create(request.clone()).await {
            Ok(created) => {
                self.intent = self.intent.spent();
                self.tell_recreation();
                self.record.id = Some(created.id);
                self.record.applied = Applied {
                    shape: self.shape_made(),
                    options: self.desired.as_ref().ok().and_then(Desired::options),
                    image: once::image_name(&self.vm.spec),
                    created: self.declared.clone(),
                    ..Applied::default()
                };
                self.accepted(OperationKind::Create, created.task)
            }
            Err(error) => {
                if !self.is_misplaced(&error) {
                    self.remember_refusal(request, &error);
                }
                self.create_failed(error)
            }
        }
    }

    fn is_intent_stale(&self) -> bool {
        let now = self.ctx.now();
        matches!(self.intent, Intent::JustWritten(at) if !is_fresh(at, now))
    }

    /// What was made is what is declared; but a create that finds may have found what an earlier declaration made.
    fn shape_made(&self) -> Option<Shape> {
        let finds = self
            .ready()
            .is_some_and(|ready| ready.features.has(Extension::Identity));
        let desired = self.desired.as_ref().ok().filter(|_| !finds);
        desired.map(Desired::shape)
    }

    /// A VM that was there and had to be made again is worth a warning: its disks are lost.
    pub(super) fn tell_recreation(&mut self) {
        if self.record.applied.reached.is_none() {
            return;
        }
        let id = self.record.id.as_ref().map_or("", |id| id.as_str());
        let text =
            format!("VM {id} was deleted on the hypervisor and is made anew, with new disks");
        self.notes.push(Note::warning(Reason::Recreating, text));
    }

    /// After an error that leaves it open whether the VM was made, or will be, the intent is written: it is looked for.
    fn create_failed(&mut self, error: ProviderError) -> Flow {
        let open = error.kind.may_have_happened();
        self.intent = match self.intent {
            Intent::JustWritten(_) if !open => Intent::Missing,
            Intent::JustWritten(_) => Intent::Older(self.ctx.now()),
            _ if error.kind.is_unanswered() => Intent::Older(self.ctx.now()),
            before => before,
        };
        self.failed(error)
    }

    /// A request that was refused for what it says is not sent again while it says the same, whoever wakes us.
    pub(super) fn refused(&mut self, request: &CreateVm) -> Option<Flow> {
        let (refused, error) = self.memo.refused.as_deref()?;
        if refused == request {
            return Some(Flow::End(Outcome::Failed(error.clone())));
        }
        self.memo.refused = None;
        None
    }

    pub(super) fn remember_refusal(&mut self, request: CreateVm, error: &ProviderError) {
        if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unsupported) {
            self.memo.refused = Some(Arc::new((request, error.clone())));
        }
    }
}
