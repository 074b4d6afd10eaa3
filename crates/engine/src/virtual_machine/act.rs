//! One step against Kubernetes or the provider.

use polyvirt_plan::virtual_machine::{Outcome, Step, Wait};

use super::pass::{Flow, Pass};
use crate::next::Next;

impl Pass<'_> {
    /// Carries out one step.
    pub async fn act(&mut self, step: Step) -> Flow {
        match step {
            Step::Claim => self.take_claim().await,
            Step::RecordIntent => self.record_intent().await,
            Step::RecordChange(kind) => self.record_change(kind).await,
            Step::RecordDrift(found) => self.record_drift(found).await,
            Step::Look => self.look().await,
            Step::CheckTask(task) => self.check_task(task).await,
            Step::Place => self.place().await,
            Step::Create => self.create().await,
            Step::Power(request) => self.power(request).await,
            Step::Reconfigure => self.reconfigure().await,
            Step::Revert(snapshot) => self.revert(snapshot).await,
            Step::BeginHook(moment) => self.begin_hook(moment).await,
            Step::OweHook => self.owe_hook().await,
            Step::RunHook(moment) => self.run_hook(moment).await,
            Step::Delete => self.delete().await,
            Step::Release(release) => self.release(release).await,
            Step::Done(done) => Flow::End(Outcome::Done(done)),
            Step::Wait(wait) => Flow::End(Outcome::Waiting(wait)),
            Step::Stop(problem) => Flow::End(Outcome::Stopped(problem)),
        }
    }
}

/// Something wakes us, or the time does.
pub(super) fn wait_next(wait: &Wait) -> Next {
    wait.recheck.map_or(Next::Idle, Next::After)
}
