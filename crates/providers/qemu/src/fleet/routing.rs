//! Who has the VM, and who could have another.

use std::sync::Arc;

use futures::future::join_all;
use polyvirt_contract::model::{VmRef, VmState};
use polyvirt_contract::{ErrorKind, Identity, ProviderError, Result, VmId};
use polyvirt_provider_kit::fleet::choice::{self, Candidate, unavailable};
use polyvirt_provider_kit::uuid::Uuid;

use super::Fleet;
use super::member::Member;

impl Fleet {
    pub(super) async fn of(&self, vm: &VmRef) -> Result<&Arc<Member>> {
        Ok(&self.members[self.place_of(&vm.id).await?])
    }

    /// The host that has the VM.
    pub(super) async fn place_of(&self, id: &VmId) -> Result<usize> {
        if let Some(place) = self.told.holder(id) {
            return Ok(place);
        }
        let found = self.ask_all(id).await?;
        let absent = || ProviderError::not_found(format!("The VM {id}"));
        found.map(|(place, _)| place).ok_or_else(absent)
    }

    /// Asks the host that has the VM, and if it does not have it any more all others.
    pub(super) async fn look(&self, id: &VmId) -> Result<Option<VmState>> {
        if let Some(place) = self.told.holder(id)
            && let Some(state) = self.members[place].provider.describe(id).await?
        {
            return Ok(self.told.state(place, state));
        }
        let found = self.ask_all(id).await?;
        Ok(found.map(|(_, state)| state))
    }

    async fn ask_all(&self, id: &VmId) -> Result<Option<(usize, VmState)>> {
        let asked = self
            .members
            .iter()
            .map(|member| member.provider.describe(id));
        self.first_found(join_all(asked).await, id)
    }

    /// The VM that carries the identity.
    pub(super) async fn find_state(&self, identity: &Identity) -> Result<Option<(usize, VmState)>> {
        let id = Uuid::of_identity(identity).vm_id();
        let asked = self
            .members
            .iter()
            .map(|member| member.provider.find(identity));
        self.first_found(join_all(asked).await, &id)
    }

    /// Of the answers of all hosts the one that has it. One that is away may have it, unless it has told all that it has.
    fn first_found(
        &self,
        answers: Vec<Result<Option<VmState>>>,
        id: &VmId,
    ) -> Result<Option<(usize, VmState)>> {
        let mut away = None;
        let mut found = None;
        for (place, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(None) => {}
                Ok(Some(state)) => {
                    let held_by = |id: &VmId| self.told.holder(id) == Some(place);
                    let state = self.told.state(place, state);
                    found = state
                        .filter(|state| held_by(&state.id))
                        .map(|s| (place, s))
                        .or(found);
                }
                Err(error) => away = away.or(self.unless_absent(place, id, error)),
            }
        }
        match (found, away) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    fn unless_absent(&self, place: usize, id: &VmId, away: ProviderError) -> Option<ProviderError> {
        let on_its_way = self.book.where_is(id.as_str()) == Some(place);
        let has_it = self.told.holder(id) == Some(place);
        (on_its_way || has_it || !self.told.is_whole(place)).then_some(away)
    }

    /// All hosts as they are now.
    pub(super) async fn candidates(&self) -> Vec<Candidate> {
        join_all(self.members.iter().map(|member| self.candidate(member))).await
    }

    async fn candidate(&self, member: &Member) -> Candidate {
        let down = member.inventory().await.err();
        let given = self.told.of_host(member.place).into_iter();
        let given: u64 = given.map(|vm| vm.memory_mib).sum();
        let given = given + self.book.memory_mib(member.place);
        let signed = |mib: u64| i64::try_from(mib).unwrap_or(i64::MAX);
        let has = member.facts().map_or(0, |host| host.memory_mib);
        Candidate {
            name: member.name(),
            down,
            free_mib: signed(has) - signed(given),
        }
    }

    /// The first error if all have failed.
    pub(super) async fn any_answers(&self) -> Result<()> {
        let asked = self.members.iter().map(|member| member.provider.validate());
        let answers = join_all(asked).await;
        if answers.iter().any(Result::is_ok) {
            return Ok(());
        }
        let first = answers.into_iter().find_map(Result::err);
        Err(first.unwrap_or_else(|| unavailable("There is no host".to_owned())))
    }

    pub(super) fn check_host_names(&self) -> Result<()> {
        let names = self.members.iter().map(|member| member.name());
        let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        let Some(name) = choice::shared_name(&names) else {
            return Ok(());
        };
        let message = format!(
            "Two providers call their host {name}; add host=another-name to the endpoint of one of them"
        );
        Err(ProviderError::invalid("spec.endpoint", message))
    }

    /// Whether whoever asks may touch the VM.
    pub(super) fn must_own(vm: &VmRef, state: &VmState) -> Result<()> {
        let (Some(asks), Some(holds)) = (&vm.owner, &state.owner) else {
            return Ok(());
        };
        if asks.identity == holds.identity {
            return Ok(());
        }
        let message = format!(
            "The VM {} belongs to {}/{} and is not touched for {}/{}",
            vm.id, holds.namespace, holds.name, asks.namespace, asks.name
        );
        Err(ProviderError::new(ErrorKind::IdentityConflict, message))
    }
}
