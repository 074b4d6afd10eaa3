//! Changes of a VM that is there, and what is remembered of each.

use polyvirt_contract::model::{PowerOp, PowerRequest, PowerState};
use polyvirt_contract::{ErrorKind, ProviderError, RequestId, TaskId};
use polyvirt_plan::honoured::once;
use polyvirt_plan::virtual_machine::size::differences;
use polyvirt_plan::virtual_machine::{
    Answer, Desired, Done, Drift, Operation, OperationKind, Outcome, Sent, Step, record,
};
use polyvirt_plan::{Note, Reason};

use super::pass::{Flow, Pass, Reach, Seen};
use super::place::put_devices;

impl Pass<'_> {
    pub(super) async fn power(&mut self, request: PowerRequest) -> Flow {
        let (Some(vm), Reach::Ready(ready)) = (self.vm_ref(), &self.reach) else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        let kind = Step::Power(request.clone())
            .operation()
            .unwrap_or(OperationKind::PowerOn);
        self.sending(kind, request.request.clone());
        self.tell_power(&request);
        match provider.power(&vm, request.clone()).await {
            Ok(task) => {
                self.power_accepted(kind, &request);
                self.accepted(kind, task)
            }
            Err(error) => self.failed(error),
        }
    }

    fn tell_power(&mut self, request: &PowerRequest) {
        let overdue = self
            .record
            .operation
            .as_ref()
            .is_some_and(|o| o.kind == OperationKind::GracefulStop);
        if request.op == PowerOp::Off && overdue {
            let text = "The guest did not shut down in time and is stopped hard";
            self.notes
                .push(Note::warning(Reason::GracefulTimeout, text));
        }
    }

    fn power_accepted(&mut self, kind: OperationKind, request: &PowerRequest) {
        let asked = record::object(&self.vm).reboot.to_owned();
        if request.request == Some(RequestId::from(format!("reboot-{asked}"))) {
            self.notes.push(Note::normal(
                Reason::Rebooting,
                format!("Restarted as asked for by the annotation value {asked}"),
            ));
            self.record.reboot_handled = asked;
        } else if kind == OperationKind::Reboot {
            // What one restart does not bring, another will not: it is told as drift from now on.
            self.record.restart_required.clear();
            self.notes.push(Note::normal(
                Reason::Rebooting,
                "Restarted to make a change take effect",
            ));
        }
    }

    pub(super) async fn reconfigure(&mut self) -> Flow {
        let mut request = match self.request().await {
            Ok(request) => request,
            Err(flow) => return flow,
        };
        put_devices(&mut request, self.record.placement.as_deref());
        if let Some(futile) = self.futile() {
            return futile;
        }
        let (Some(vm), Reach::Ready(ready)) = (self.vm_ref(), &self.reach) else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        let says_what_waits = self.reach.facts().tells_what_waits();
        if let Some(refusal) = self.refused(&request) {
            return refusal;
        }
        self.sending(OperationKind::Reconfigure, None);
        match provider.reconfigure(&vm, request.clone()).await {
            Ok(task) => {
                self.memo.corrected = self.drift();
                // What waited was the change before this one.
                self.record.restart_required.clear();
                if !says_what_waits {
                    self.expect_restart();
                }
                self.reconfigure_accepted();
                self.accepted(OperationKind::Reconfigure, task)
            }
            Err(error) => {
                self.remember_refusal(request, &error);
                self.failed(error)
            }
        }
    }

    /// A provider that cannot change all of a running VM, and does not say what waits, leaves it to us to say it. What the
    /// VM has taken up all the same shows at the next look.
    fn expect_restart(&mut self) {
        let (Ok(desired), Some(vm)) = (&self.desired, self.present()) else {
            return;
        };
        if vm.power == PowerState::On {
            let open = differences(&desired.shape(), vm);
            self.record.restart_required = open.into_iter().map(|d| d.field.to_owned()).collect();
        }
    }

    /// What the VM shows otherwise than it was brought to; none if what is declared was edited since.
    fn drift(&self) -> Vec<Drift> {
        let (Ok(desired), Some(vm)) = (&self.desired, self.present()) else {
            return Vec::new();
        };
        let applied = &self.record.applied;
        let edited = applied.shape.as_ref() != Some(&desired.shape())
            || !desired.has_options(applied.options.as_deref());
        if edited {
            return Vec::new();
        }
        differences(&desired.shape(), vm)
    }

    /// The same drift was corrected before, and the provider accepted that: to correct it again would not end. It is reported
    /// once, and as drift.
    fn futile(&mut self) -> Option<Flow> {
        let drift = self.drift();
        if drift.is_empty() || drift != self.memo.corrected {
            return None;
        }
        let named: Vec<_> = drift
            .iter()
            .map(|d| format!("{} {}", d.field, d.found))
            .collect();
        let what = named.join(", ");
        if self.memo.contradiction.as_ref() != Some(&what) {
            let text = format!(
                "The provider contradicts itself: it accepted the correction of this VM, and still reports {what}. It is not sent again before something changes; report this to the authors of the provider"
            );
            self.notes
                .push(Note::warning(Reason::ProviderContradicts, text));
            self.memo.contradiction = Some(what);
        }
        Some(Flow::End(Outcome::Done(Done::Drifted(drift))))
    }

    fn reconfigure_accepted(&mut self) {
        let desired = self.desired.as_ref().ok();
        self.record.applied.shape = desired.map(Desired::shape);
        self.record.applied.options = desired.and_then(Desired::options);
        once::sent(&mut self.record.applied.created, &self.declared);
        self.notes.push(Note::normal(
            Reason::Reconfigured,
            "The change of size, disks, networks or options was accepted",
        ));
    }

    pub(super) async fn delete(&mut self) -> Flow {
        let (Some(vm), Reach::Ready(ready)) = (self.vm_ref(), &self.reach) else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        self.sending(OperationKind::Delete, None);
        match provider.delete(&vm).await {
            Ok(task) => self.accepted(OperationKind::Delete, task),
            Err(error) if error.kind == ErrorKind::NotFound => self.operation_over(),
            Err(error) => self.failed(error),
        }
    }

    /// Remembers what is about to be sent, so that it is not sent again before it can show.
    pub(super) fn sending(&mut self, kind: OperationKind, request: Option<RequestId>) {
        let sent = Sent {
            kind,
            at: self.ctx.now(),
            request,
            answer: Answer::Open,
        };
        self.memo.sent = Some((sent, self.present().cloned()));
    }

    /// The provider took the request; with a task it is still at work.
    pub(super) fn accepted(&mut self, kind: OperationKind, task: Option<TaskId>) -> Flow {
        self.seen = Seen::Unknown;
        if let Some((sent, _)) = &mut self.memo.sent {
            sent.answer = Answer::Taken;
        }
        let kept = self
            .record
            .operation
            .take()
            .filter(|o| o.kind == kind && o.task == task);
        let waits = task.is_some() || kind == OperationKind::GracefulStop;
        if waits {
            let since = kept.map_or_else(|| self.ctx.now(), |o| o.since);
            self.record.operation = Some(Operation {
                kind,
                task: task.clone(),
                since,
                attempt: 0,
            });
        }
        match task {
            Some(task) => self.await_task(&task),
            None => Flow::Continue,
        }
    }

    /// A request that failed for certain leaves nothing to wait for; otherwise the VM is looked at before the next try.
    pub(super) fn failed(&mut self, error: ProviderError) -> Flow {
        if !error.kind.may_have_happened() {
            self.memo.sent = None;
        }
        // What was refused for what it says has changed nothing: the VM is as it was seen.
        if error.kind != ErrorKind::Invalid {
            self.seen = Seen::Unknown;
        }
        Flow::End(Outcome::Failed(error))
    }
}
