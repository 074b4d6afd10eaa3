//! A host is chosen and written down before the VM is made.
//!
//! If the manager dies after the write, the next one reads the choice and goes on with it; before the write, nothing was sent
//! and the next one chooses anew. If a create went out and the choice is made again, create finds what is there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{HostVerdict, PlacementStatus, ProviderTopology};
use polyvirt_contract::model::{Chosen, CreateVm, HostDemand, HostTerm};
use polyvirt_contract::{Extension, ProviderError};
use polyvirt_placement::labels::Requirement;
use polyvirt_placement::{Choice, NodeTerm, Refusal, Rule, Topology, Verdict, host_terms};
use polyvirt_plan::virtual_machine::{OperationKind, Outcome, Placing};
use polyvirt_plan::{Note, Problem, Reason};

use super::pass::{Flow, Pass, Reach, Ready};
use crate::next::Next;
use crate::placement::question::{Question, policy_key, wishes};
use crate::placement::{OLD, Snapshot};
use crate::runtime::key::ObjectKey;
use crate::runtime::vm_index::provider_of;

/// Hosts whose reasons the status holds.
const SHOWN_HOSTS: usize = 32;

impl Pass<'_> {
    /// Whether a host has to be chosen.
    pub(super) fn placing(&self) -> Placing {
        if !self.is_scheduled() || !self.ready().is_some_and(tells_hosts) {
            return Placing::NotOurs;
        }
        if self.is_placed() {
            Placing::Decided
        } else {
            Placing::Open
        }
    }

    /// Whether the scheduler chooses the host: where the Provider says so, and where it says nothing if the VM asks for it.
    fn is_scheduled(&self) -> bool {
        match self.topology() {
            Some(ProviderTopology::Cluster) => true,
            Some(ProviderTopology::Single) => false,
            None => !wishes(&self.vm.spec).is_empty(),
        }
    }

    fn topology(&self) -> Option<ProviderTopology> {
        let provider = self.ctx.stores.providers.get(&provider_of(&self.vm))?;
        provider.spec.topology
    }

    /// A choice holds for the spec that it was made for, and for one VM.
    fn is_placed(&self) -> bool {
        let Some(placement) = self.record.placement.as_ref() else {
            return false;
        };
        let same = placement.generation == self.generation && self.record.applied.reached.is_none();
        placement.host.is_some() && (self.placed_now || same)
    }

    /// Wishes that go nowhere, because the provider does not tell of hosts or takes none.
    pub(super) fn unheard_wishes(&self) -> Vec<String> {
        match self.ready() {
            Some(ready)
                if !tells_hosts(ready) || self.topology() == Some(ProviderTopology::Single) =>
            {
                let fields = wishes(&self.vm.spec).into_iter().map(str::to_owned);
                fields
                    .filter(|field| !self.ignored_fields.contains(field))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// A refusal of wishes that are gone says nothing any more.
    pub(super) fn forget_refusal(&mut self) {
        let refused = self
            .record
            .placement
            .as_ref()
            .is_some_and(|p| p.host.is_none());
        if refused && !self.is_scheduled() {
            self.record.placement = None;
        }
    }

    pub(super) async fn place(&mut self) -> Flow {
        let question = match self.question() {
            Ok(question) => question,
            Err(problem) => {
                self.wait_for_place();
                return Flow::End(Outcome::Stopped(problem));
            }
        };
        match self.search(&question).await {
            Ok(Ok(chosen)) => self.record_place(chosen).await,
            Ok(Err(refusal)) => self.unplaced(&refusal),
            Err(error) => Flow::End(Outcome::Failed(error)),
        }
    }

    /// What the VM asks for, but not of hosts that were found full.
    fn question(&self) -> Result<Question, Problem> {
        let mut question = self.declared()?;
        if !self.memo.full_hosts.is_empty() {
            let full = Rule::NotNamed(Topology::Host, self.memo.full_hosts.clone());
            question.request.rules.push(full);
        }
        Ok(question)
    }

    fn declared(&self) -> Result<Question, Problem> {
        let made = self.desired.as_ref().map_err(Clone::clone)?;
        let policy = match policy_key(&self.vm) {
            Some(key) => Some(
                self.ctx
                    .stores
                    .policies
                    .get(&key)
                    .ok_or_else(|| no_policy(key.name()))?,
            ),
            None => None,
        };
        let features = self
            .ready()
            .map(|ready| ready.features.clone())
            .unwrap_or_default();
        let question = Question::new(&self.vm, &made.vm, policy.as_deref(), &features)?;
        question.with(&self.ctx.stores)
    }

    /// With what is known of the hosts; and before it is refused, with what they have now.
    async fn search(
        &self,
        question: &Question,
    ) -> Result<Result<PlacementStatus, Refusal>, ProviderError> {
        let Reach::Ready(ready) = &self.reach else {
            return Ok(Err(Refusal {
                verdicts: Vec::new(),
            }));
        };
        let begin = self.ctx.now();
        let oldest = begin.saturating_sub(OLD).unwrap_or(begin);
        let snapshot = self.ctx.placements.snapshot(ready, begin, oldest).await?;
        let chosen = self.choose(ready, &snapshot, question);
        if chosen.is_ok() || snapshot.asked >= begin {
            return Ok(chosen);
        }
        let snapshot = self
            .ctx
            .placements
            .snapshot(ready, self.ctx.now(), begin)
            .await?;
        Ok(self.choose(ready, &snapshot, question))
    }

    fn choose(
        &self,
        ready: &Ready,
        snapshot: &Snapshot,
        question: &Question,
    ) -> Result<PlacementStatus, Refusal> {
        let remember = |choice: &Choice| self.remembered(choice, question);
        self.ctx
            .placements
            .choose(self.ctx, ready, snapshot, &self.key, question, remember)
    }

    fn remembered(&self, choice: &Choice, question: &Question) -> PlacementStatus {
        let request = &question.request;
        let count = |(name, count): (&String, &u32)| {
            (name.clone(), i32::try_from(*count).unwrap_or(i32::MAX))
        };
        let gib = request.storage.bytes >> 30;
        PlacementStatus {
            host: Some(choice.host.clone()),
            generation: self.generation,
            datastore: choice.datastore.clone(),
            devices: choice.devices.iter().map(count).collect(),
            cpu: i32::try_from(request.cpus).ok(),
            memory_mib: i64::try_from(request.memory_mib).ok(),
            disk_gib: i64::try_from(gib).ok().filter(|gib| *gib > 0),
            time: Some(Time(self.ctx.now())),
            last_scheduled_time: Some(Time(self.ctx.now())),
            pool: self.pool_of(&choice.host),
            message: Some(choice.why()),
            hosts: shown(&choice.verdicts),
            ..PlacementStatus::default()
        }
    }

    /// The HostPool of a host of the VM's Provider.
    fn pool_of(&self, host: &str) -> Option<String> {
        let provider = provider_of(&self.vm);
        let key = ObjectKey::new(provider.namespace(), host);
        let host = self.ctx.stores.hosts.get(&key)?;
        let of = host.spec.provider_ref.as_ref()?;
        let pool = host.spec.pool_ref.as_ref()?;
        (of.name == provider.name()).then(|| pool.name.clone())
    }

    async fn record_place(&mut self, chosen: PlacementStatus) -> Flow {
        let before = (self.intent, self.record.clone());
        let host = chosen.host.clone().unwrap_or_default();
        let why = chosen.message.clone().unwrap_or_default();
        self.notes.push(Note::normal(
            Reason::Placed,
            format!("Goes to host {host}. {why}"),
        ));
        self.record.placement = Some(Box::new(chosen));
        let written = self
            .write_status(&Outcome::InFlight(OperationKind::Create))
            .await;
        if written.is_ok() {
            self.placed_now = true;
            self.ctx.placements.forget(&self.key);
        }
        // Whether it was written or not, it stays reserved until a pass knows better.
        self.go_on_if(written, before)
    }

    fn unplaced(&mut self, refusal: &Refusal) -> Flow {
        // All that was found full is looked at again, next time.
        self.memo.full_hosts.clear();
        let summary = refusal.summary();
        self.record.placement = Some(Box::new(PlacementStatus {
            generation: self.generation,
            message: Some(summary.clone()),
            reason: Some(Reason::Unschedulable.as_str().to_owned()),
            hosts: shown(&refusal.verdicts),
            ..PlacementStatus::default()
        }));
        self.wait_for_place();
        self.come_again = Some(Next::Backoff);
        let text = format!(
            "{summary}. `polyvirt vm explain {}` tells it of each host",
            self.key.name()
        );
        Flow::End(Outcome::Stopped(Problem::new(
            Reason::Unschedulable,
            "spec.placement",
            text,
        )))
    }

    /// It is looked at again when places change.
    fn wait_for_place(&self) {
        if let Some(ready) = self.ready() {
            self.ctx.stores.unplaced.add(&ready.link.key, &self.key);
        }
    }

    /// Puts what was chosen into the request.
    pub(super) fn put_in_place(&self, request: &mut CreateVm) {
        let Some(chosen) = self
            .record
            .placement
            .as_ref()
            .filter(|_| self.placing() == Placing::Decided)
        else {
            return;
        };
        let place = request.placement.get_or_insert_default();
        let is_named = !place.host.is_empty();
        place.host = chosen.host.clone().unwrap_or_default();
        if let Some(datastore) = &chosen.datastore {
            place.datastore.clone_from(datastore);
        }
        put_devices(request, Some(chosen));
        let place = request.placement.get_or_insert_default();
        let Ok(question) = self.declared() else {
            return;
        };
        if !is_named {
            place.chosen = Some(chosen_by(&question.request.rules));
        }
        if place.folder.is_empty() {
            place.folder = question.folder.unwrap_or_default();
        }
        if place.resource_pool.is_empty() {
            place.resource_pool = question.resource_pool.unwrap_or_default();
        }
    }

    /// Whether the provider refused the host that we chose. Then another is looked for, with what the hosts have now.
    pub(super) fn is_misplaced(&mut self, error: &ProviderError) -> bool {
        if !error.blames_host() || self.placing() != Placing::Decided {
            return false;
        }
        let placement = self.record.placement.take();
        self.placed_now = false;
        self.memo.full_hosts.extend(placement.and_then(|p| p.host));
        if let Some(ready) = self.ready() {
            self.ctx.placements.distrust(&ready.link.key);
        }
        self.come_again = Some(Next::Backoff);
        true
    }
}

/// What the host was chosen by, as far as it can go on to hold.
fn chosen_by(rules: &[Rule]) -> Chosen {
    let demands = |list: Vec<Requirement>| list.into_iter().map(demand).collect();
    let term = |term: NodeTerm| HostTerm {
        labels: demands(term.labels),
        name: demands(term.name),
    };
    Chosen {
        terms: host_terms(rules).into_iter().map(term).collect(),
    }
}

fn demand(requirement: Requirement) -> HostDemand {
    HostDemand {
        key: requirement.key,
        operator: requirement.operator.word().to_owned(),
        values: requirement.values,
    }
}

/// Says which devices the VM was given: when it is made, and with each change, for a provider that builds its VM anew.
pub(super) fn put_devices(request: &mut CreateVm, chosen: Option<&PlacementStatus>) {
    let devices = chosen.map(|chosen| &chosen.devices);
    let Some(devices) = devices.filter(|devices| !devices.is_empty()) else {
        return;
    };
    let count = |(name, count): (&String, &i32)| (name.clone(), u32::try_from(*count).unwrap_or(0));
    let place = request.placement.get_or_insert_default();
    place.devices = devices.iter().map(count).collect();
}

/// Those that fit come first.
pub(crate) fn shown(verdicts: &[Verdict]) -> Vec<HostVerdict> {
    let fitting = verdicts.iter().filter(|verdict| verdict.fits());
    let others = verdicts.iter().filter(|verdict| !verdict.fits());
    let told = fitting.chain(others).map(|verdict| HostVerdict {
        name: verdict.host.clone(),
        fits: verdict.fits(),
        message: verdict.outcome.to_string(),
    });
    told.take(SHOWN_HOSTS).collect()
}

/// Whether the provider tells of its hosts, and takes the one that is chosen.
fn tells_hosts(ready: &Ready) -> bool {
    let known = ready.link.view().inventory;
    ready.features.has(Extension::Inventory)
        && ready.features.honours("spec.placement.host")
        && known.is_none_or(|known| !known.hosts.is_empty())
}

fn no_policy(name: &str) -> Problem {
    let text = format!("VMPlacementPolicy {name} does not exist. Create it, or correct the name");
    Problem::new(
        Reason::WaitingForDependencies,
        "spec.placementRef.name",
        text,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_were_given_are_said_and_nothing_else() {
        let mut request = CreateVm::default();
        put_devices(&mut request, None);
        put_devices(&mut request, Some(&PlacementStatus::default()));
        assert_eq!(request, CreateVm::default(), "nothing was given");
        let chosen = PlacementStatus {
            host: Some("a".to_owned()),
            devices: [("nvidia.com/gpu".to_owned(), 2)].into(),
            ..PlacementStatus::default()
        };
        put_devices(&mut request, Some(&chosen));
        let place = request.placement.unwrap_or_default();
        assert_eq!(place.devices["nvidia.com/gpu"], 2);
        assert_eq!(place.host, "", "a VM may have moved since");
    }
}
