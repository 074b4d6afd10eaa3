//! Several hosts as one provider.
//!
//! ```text
//!   a call about a VM ─► who has it? ─► that host          who has it: what hosts told, else all are asked
//!   a new VM ─► nowhere yet ─► the host that is named, or the roomiest ─► noted as on its way ─► that host
//!   a host that is away: its VMs are unknown, never gone; the other hosts go on
//! ```
//!
//! Ids are those of a single host: the UUID of a domain, which no two hosts share but while a VM moves from one to the other.

mod moving;
mod provider;
mod told;

use std::sync::Arc;

use futures::future::join_all;
use polyvirt_contract::model::{CreateVm, Created, Owner, PowerState, VmRef, VmState};
use polyvirt_contract::{ErrorKind, Identity, Provider, ProviderError, Result, VmId};
use polyvirt_provider_kit::fleet::choice::{self, Candidate, choose, unavailable};
use polyvirt_provider_kit::fleet::running::Moves;
use polyvirt_provider_kit::fleet::sent::{Book, Sent};
use polyvirt_provider_kit::uuid::Uuid;

use crate::config::LibvirtConfig;
use crate::core::{Core, Revisions};
use crate::provider::Libvirt;
use told::stands_back;

/// A provider whose VMs are domains of several libvirts.
pub struct Fleet {
    hosts: Vec<Arc<Libvirt>>,
    book: Book,
    moves: Moves,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.hosts).finish()
    }
}

/// Begins to connect to all of them. One alone is a provider of its own, as it always was.
pub fn open_all(mut configs: Vec<LibvirtConfig>) -> Arc<dyn Provider> {
    if configs.len() == 1
        && let Some(config) = configs.pop()
    {
        let host = Libvirt::open(config);
        // It may have been one of several before.
        let alone: Arc<[Arc<Core>]> = Arc::new([host.core.clone()]);
        moving::keep_settled(&alone);
        return host;
    }
    Fleet::open(configs)
}

impl Fleet {
    /// Begins to connect to all of them.
    pub fn open(configs: Vec<LibvirtConfig>) -> Arc<Self> {
        let revisions = Revisions::begin();
        let open = |config| Libvirt::open_among(config, revisions.clone());
        let hosts: Vec<_> = configs.into_iter().map(open).collect();
        hosts.iter().for_each(told::tell_of_loss);
        moving::keep_settled(&hosts.iter().map(|host| host.core.clone()).collect());
        Arc::new(Self {
            hosts,
            book: Book::default(),
            moves: Moves::default(),
        })
    }

    /// All that is known of VMs, wherever they are, each once.
    fn states(&self) -> impl Iterator<Item = (usize, VmState)> {
        let hosts = self.hosts.iter().enumerate();
        let all = hosts.flat_map(|(place, host)| {
            let states = host.core.states().into_iter();
            states.map(move |state| (place, state))
        });
        all.filter(|(place, state)| !stands_back(self.cores(), *place, &state.id))
    }

    fn cores(&self) -> impl Iterator<Item = &Core> + Clone {
        self.hosts.iter().map(|host| host.core.as_ref())
    }

    async fn holder(&self, id: &VmId) -> Result<&Arc<Libvirt>> {
        Ok(&self.hosts[self.place_of(id).await?])
    }

    /// The host that has the VM. Of two that say so the one where it runs: the other has what a migration left behind.
    async fn place_of(&self, id: &VmId) -> Result<usize> {
        let mut known: Vec<_> = self.states().filter(|(_, state)| state.id == *id).collect();
        known.sort_by_key(|(place, state)| (state.power == PowerState::Off, *place));
        if let Some((place, _)) = known.first() {
            return Ok(*place);
        }
        let answers = join_all(self.hosts.iter().map(|host| host.describe(id))).await;
        let mut away = None;
        for (place, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(Some(_)) => return Ok(place),
                Ok(None) => {}
                Err(error) => away = away.or(self.unless_absent(place, id, error)),
            }
        }
        Err(away.unwrap_or_else(|| ProviderError::not_found(format!("The VM {id}"))))
    }

    /// A host that is away has told all its VMs before, and this one is neither among them nor on its way: it is not there.
    fn unless_absent(&self, place: usize, id: &VmId, away: ProviderError) -> Option<ProviderError> {
        let on_its_way = self.book.where_is(id.as_str()) == Some(place);
        let told_all = self.hosts[place].core.has_told_all();
        (on_its_way || !told_all).then_some(away)
    }

    async fn find_state(&self, identity: &Identity) -> Result<Option<(usize, VmState)>> {
        let id = Uuid::of_identity(identity).vm_id();
        let answers = join_all(self.hosts.iter().map(|host| host.find(identity))).await;
        let carries = |state: &VmState| {
            let owner = state.owner.as_ref();
            owner.is_some_and(|owner| owner.identity == *identity)
        };
        let mut away = None;
        for (place, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(Some(state)) if !stands_back(self.cores(), place, &state.id) => {
                    return Ok(Some((place, state)));
                }
                Ok(_) => {}
                Err(error) if self.hosts[place].core.states().iter().any(carries) => {
                    return Err(error);
                }
                Err(error) => away = away.or(self.unless_absent(place, &id, error)),
            }
        }
        away.map_or(Ok(None), Err)
    }

    async fn create_somewhere(&self, request: CreateVm) -> Result<Created> {
        let key = key(request.owner.as_ref(), &request.name);
        let _alone = self.book.turn(&key).await;
        if let Some(place) = self.already_at(&key, request.owner.as_ref()).await? {
            return self.send(place, &key, request).await;
        }
        self.check_name(request.owner.as_ref(), &request.name)?;
        let asked = request.placement.as_ref();
        let asked = asked.map_or("", |place| place.host.as_str());
        let place = choose(&self.candidates().await, asked)?;
        self.send(place, &key, request).await
    }

    async fn already_at(&self, key: &str, owner: Option<&Owner>) -> Result<Option<usize>> {
        if let Some(place) = self.book.where_is(key) {
            return Ok(Some(place));
        }
        let Some(owner) = owner else { return Ok(None) };
        let found = self.find_state(&owner.identity).await?;
        Ok(found.map(|(place, _)| place))
    }

    /// Noted first, so that an answer that is lost sends the next attempt to the same host.
    async fn send(&self, place: usize, key: &str, request: CreateVm) -> Result<Created> {
        let memory_mib = request.class.memory_mib;
        let host = place;
        self.book.send(key, Sent { host, memory_mib });
        let mut request = request;
        if let Some(placement) = &mut request.placement {
            // It was obeyed, or the VM is elsewhere already.
            placement.host.clear();
        }
        let answer = self.hosts[place].create(request).await;
        self.book.settle(key, &answer);
        answer
    }

    /// libvirt knows the names of one host only.
    fn check_name(&self, owner: Option<&Owner>, name: &str) -> Result<()> {
        let identity = owner.map(|owner| &owner.identity);
        let taken = |(_, state): &(usize, VmState)| {
            state.name == name && state.owner.as_ref().map(|owner| &owner.identity) != identity
        };
        let Some((_, state)) = self.states().find(taken) else {
            return Ok(());
        };
        let message = format!(
            "The name {name} is taken by the VM {} on the host {}; rename one of the two, or delete that one",
            state.id, state.host
        );
        Err(ProviderError::new(ErrorKind::NameConflict, message).at("metadata.name"))
    }

    async fn candidates(&self) -> Vec<Candidate> {
        let hosts = self.hosts.iter().enumerate();
        join_all(hosts.map(|(place, host)| self.candidate(place, host))).await
    }

    async fn candidate(&self, place: usize, host: &Arc<Libvirt>) -> Candidate {
        let core = &host.core;
        let down = match core.session().await {
            Ok(session) => core.host_facts(&session).await.err(),
            Err(error) => Some(error),
        };
        let facts = core.host.get();
        let given: u64 = core.states().iter().map(|vm| vm.memory_mib).sum();
        let given = given + self.book.memory_mib(place);
        let signed = |mib: u64| i64::try_from(mib).unwrap_or(i64::MAX);
        Candidate {
            name: facts.map(|facts| facts.name.clone()).unwrap_or_default(),
            down,
            free_mib: signed(facts.map_or(0, |facts| facts.memory_mib)) - signed(given),
        }
    }

    async fn of(&self, vm: &VmRef) -> Result<&Arc<Libvirt>> {
        self.holder(&vm.id).await
    }

    /// The first error if all have failed.
    async fn any_answers(&self) -> Result<()> {
        let answers = join_all(self.hosts.iter().map(|host| host.validate())).await;
        if answers.iter().any(Result::is_ok) {
            return Ok(());
        }
        let first = answers.into_iter().find_map(Result::err);
        Err(first.unwrap_or_else(|| unavailable("There is no host".to_owned())))
    }

    fn check_host_names(&self) -> Result<()> {
        let facts = self.hosts.iter().filter_map(|host| host.core.host.get());
        let names: Vec<String> = facts.map(|facts| facts.name.clone()).collect();
        let Some(name) = choice::shared_name(&names) else {
            return Ok(());
        };
        let message =
            format!("Two endpoints call their host {name}; add host=another-name to one of them");
        Err(ProviderError::invalid("spec.endpoint", message))
    }
}

/// What tells creations apart: the id that the VM will have, else its name.
fn key(owner: Option<&Owner>, name: &str) -> String {
    owner.map_or_else(
        || format!("name {name}"),
        |owner| Uuid::of_identity(&owner.identity).vm_id().to_string(),
    )
}
