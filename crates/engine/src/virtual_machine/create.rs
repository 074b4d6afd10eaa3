//! The VM is made.

use std::sync::Arc;

use polyvirt_contract::model::CreateVm;
use polyvirt_contract::{ErrorKind, ProviderError};
use polyvirt_plan::virtual_machine::{Applied, Desired, Intent, OperationKind, Outcome};
use polyvirt_plan::{Note, Reason};

use super::pass::{Flow, Pass, Reach};

impl Pass<'_> {
    pub(super) async fn create(&mut self) -> Flow {
        let request = match self.request().await {
            Ok(request) => request,
            Err(flow) => return flow,
        };
        let Reach::Ready(ready) = &self.reach else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        if let Some(refusal) = self.refused(&request) {
            return refusal;
        }
        self.sending(OperationKind::Create, None);
        match provider.create(request.clone()).await {
            Ok(created) => {
                self.tell_recreation();
                self.record.id = Some(created.id);
                let shape = self.desired.as_ref().ok().map(Desired::shape);
                self.record.applied = Applied {
                    shape,
                    ..Applied::default()
                };
                self.accepted(OperationKind::Create, created.task)
            }
            Err(error) => {
                self.remember_refusal(request, &error);
                self.create_failed(error)
            }
        }
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

    /// After an error that leaves it open whether the VM was made, the intent stays written: it is looked for by name.
    fn create_failed(&mut self, error: ProviderError) -> Flow {
        let open = error.kind.may_have_happened();
        self.intent = match self.intent {
            Intent::Missing => Intent::Missing,
            _ if !open => Intent::Missing,
            Intent::JustWritten => Intent::Older(self.ctx.now()),
            older @ Intent::Older(_) => older,
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
