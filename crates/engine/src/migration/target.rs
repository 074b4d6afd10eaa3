//! The host that a VM moves to: the one that the user names, if it can take the VM, else one that the scheduler chooses, else the
//! provider's choice.

use std::collections::BTreeSet;

use polyvirt_api::infra::{HostVerdict, VirtualMachine};
use polyvirt_contract::model::{CreateVm, PowerState, VmState};
use polyvirt_contract::{Extension, ProviderError};
use polyvirt_placement::{Choice, Refusal, Rule, Topology, Verdict};
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
    /// There is no such host, and waiting will not make one.
    Unknown(ProviderError),
}

impl Pass<'_> {
    pub(super) async fn target(&self) -> Result<Target, ProviderError> {
        let named = self.desired.as_ref().map(|d| d.request.target_host.clone());
        let named = named.unwrap_or_default();
        let (Reach::Ready(ready), Seen::Vm(state)) = (&self.reach, &self.seen) else {
            return Ok(Target::Host(named, Vec::new()));
        };
        if !ready.features.has(Extension::Inventory) {
            return Ok(Target::Host(named, Vec::new()));
        }
        let Some(vm) = self.ctx.stores.vms.get(&self.object.vm()) else {
            return Ok(Target::Host(named, Vec::new()));
        };
        let mut question = match self.question(&vm, state, ready) {
            Ok(question) => question,
            Err(problem) => return Ok(Target::None(problem, Vec::new())),
        };
        if named.is_empty() {
            return self.choose(ready, &question).await;
        }
        if state.power == PowerState::Off {
            question.request.memory_mib = 0;
        }
        self.check(ready, &question, named).await
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
        let question = Question::new(vm, &made, policy.as_deref(), &ready.features)?;
        let mut question = question.with(&self.ctx.stores)?;
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

impl Pass<'_> {
    /// Whoever names a host means it: what else is against it is told, and no hindrance. A provider that tells of no hosts knows
    /// best itself.
    async fn check(
        &self,
        ready: &Ready,
        question: &Question,
        host: String,
    ) -> Result<Target, ProviderError> {
        let now = self.ctx.now();
        let placements = &self.ctx.placements;
        let snapshot = placements.snapshot(ready, now, now).await?;
        if snapshot.inventory.hosts.is_empty() {
            return Ok(Target::Host(host, Vec::new()));
        }
        let vm = self.object.vm();
        let asked = (question, host.as_str());
        let (can, verdicts) = placements.name_target(self.ctx, ready, &snapshot, &vm, asked);
        let hosts = shown(&verdicts);
        Ok(match can {
            Some(Ok(())) => Target::Host(host, hosts),
            Some(Err(why)) => Target::None(cannot(&host, &why.to_string()), hosts),
            None => Target::Unknown(no_such_host(&host, &verdicts)),
        })
    }
}

fn no_such_host(host: &str, verdicts: &[Verdict]) -> ProviderError {
    let names: Vec<_> = verdicts.iter().map(|v| v.host.as_str()).collect();
    let names = names.join(", ");
    ProviderError::invalid(
        "spec.target.host",
        format!("There is no host {host}; this provider has {names}"),
    )
}

fn cannot(host: &str, why: &str) -> Problem {
    let text = format!(
        "Host {host} cannot take the VM: {why}. Name another in spec.target.host; status.hostMove.hosts tells it of each"
    );
    Problem::new(Reason::Unschedulable, "spec.target.host", text)
}

fn none(refusal: &Refusal) -> Target {
    let text = format!(
        "{}. Name a host in spec.target.host, or make room; status.hostMove.hosts tells it of each",
        refusal.summary()
    );
    let problem = Problem::new(Reason::Unschedulable, "spec.target.host", text);
    Target::None(problem, shown(&refusal.verdicts))
}
