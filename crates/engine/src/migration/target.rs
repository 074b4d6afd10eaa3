//! The host that a VM moves to: the one that the user names, else one that the scheduler chooses, else the provider's choice.

use std::collections::BTreeSet;

use polyvirt_api::infra::{HostVerdict, VirtualMachine};
use polyvirt_contract::model::{CreateVm, VmState};
use polyvirt_contract::{Extension, ProviderError};
use polyvirt_placement::{Choice, Refusal, Rule, Topology};
use polyvirt_plan::{Problem, Reason};

use super::{Pass, Seen};
use crate::placement::question::{Question, policy_key};
use crate::subject::AboutVm as _;
use crate::virtual_machine::place::shown;
use crate::virtual_machine::reach::{Reach, Ready};

/// What was decided.
pub(super) enum Target {
    /// This host, or the provider's choice where it is empty, and what was for or against each.
    Host(String, Vec<HostVerdict>),
    /// No host can take it.
    None(Problem, Vec<HostVerdict>),
}

impl Pass<'_> {
    pub(super) async fn target(&self) -> Result<Target, ProviderError> {
        let named = self.desired.as_ref().map(|d| d.request.target_host.clone());
        let named = named.unwrap_or_default();
        let (Reach::Ready(ready), Seen::Vm(state)) = (&self.reach, &self.seen) else {
            return Ok(Target::Host(named, Vec::new()));
        };
        if !named.is_empty() || !ready.features.has(Extension::Inventory) {
            return Ok(Target::Host(named, Vec::new()));
        }
        let Some(vm) = self.ctx.stores.vms.get(&self.object.vm()) else {
            return Ok(Target::Host(named, Vec::new()));
        };
        match self.question(&vm, state, ready) {
            Ok(question) => self.choose(ready, &question).await,
            Err(problem) => Ok(Target::None(problem, Vec::new())),
        }
    }

    /// What the VM asks for, as it is now, anywhere but where it is.
    fn question(
        &self,
        vm: &VirtualMachine,
        state: &VmState,
        ready: &Ready,
    ) -> Result<Question, Problem> {
        let mut made = CreateVm::default();
        made.class.cpu = state.cpu;
        made.class.memory_mib = state.memory_mib;
        let policy = policy_key(vm).and_then(|key| self.ctx.stores.policies.get(&key));
        let mut question = Question::new(vm, &made, policy.as_deref(), &ready.features)?;
        if !state.host.is_empty() {
            let here = BTreeSet::from([state.host.clone()]);
            question
                .request
                .rules
                .push(Rule::NotNamed(Topology::Host, here));
        }
        Ok(question)
    }

    /// With what the hosts have now: a move is rare, and a full host is a failed one.
    async fn choose(&self, ready: &Ready, question: &Question) -> Result<Target, ProviderError> {
        let now = self.ctx.now();
        let placements = &self.ctx.placements;
        let snapshot = placements.snapshot(ready, now, now).await?;
        let vm = self.object.vm();
        let chosen = placements.choose_target(self.ctx, ready, &snapshot, &vm, question);
        Ok(match chosen {
            Ok(Choice { host, verdicts, .. }) => Target::Host(host, shown(&verdicts)),
            Err(refusal) => none(&refusal),
        })
    }
}

fn none(refusal: &Refusal) -> Target {
    let text = format!(
        "{}. Name a host in spec.target.host, or make room; status.hostMove.hosts tells it of each",
        refusal.summary()
    );
    let problem = Problem::new(Reason::Unschedulable, "spec.target.host", text);
    Target::None(problem, shown(&refusal.verdicts))
}
