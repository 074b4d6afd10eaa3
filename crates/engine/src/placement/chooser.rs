//! Chooses among providers, for callers that name none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use polyvirt_api::infra::{Provider, VirtualMachine};
use polyvirt_contract::Features;
use polyvirt_contract::model::{CreateVm, Inventory};
use polyvirt_placement::{Choice, HostRules, Namespaces, Refusal, Request, Site, World, place};
use polyvirt_plan::Problem;
use polyvirt_plan::virtual_machine::desired::class_from;

use super::books::{self, Entry};
use super::snapshots::Snapshots;
use super::{OLD, Question, open_hosts, overcommit};
use crate::context::Stores;
use crate::host::rules::host_rules;
use crate::link::Links;
use crate::runtime::key::ObjectKey;
use crate::virtual_machine::reach::{Reach, reach};

/// How long a choice is counted whose VM nobody has seen.
const UNSEEN: Duration = Duration::from_secs(120);

/// Why no provider was chosen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotChosen {
    /// What the VM asks for makes no sense.
    #[error("{0}")]
    Question(Problem),
    /// No provider tells of its hosts, or none answers.
    #[error("no provider tells of its hosts")]
    Silence(Vec<LeftOut>),
    /// No host of any provider can take it.
    #[error("{}", .0.summary())]
    Refused(Refusal, Vec<LeftOut>),
}

/// A provider whose hosts were not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Namespace and name.
    pub provider: ObjectKey,
    /// Why.
    pub why: Silence,
}

/// Why hosts of a provider are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// The first connection is being made.
    #[error("is being connected")]
    Connecting,
    /// It does not answer.
    #[error("does not answer")]
    Away,
    /// It tells of no hosts.
    #[error("tells of no hosts")]
    Hosts,
}

/// Chooses among providers. The VM's own pass decides on the host: what is remembered here only keeps many VMs that come at once
/// from going to one provider.
#[derive(Default)]
pub struct Chooser {
    snapshots: Snapshots,
    chosen: Mutex<HashMap<ObjectKey, Chosen>>,
}

/// A provider that was chosen for a VM that the provider's books do not show yet.
struct Chosen {
    provider: String,
    at: Timestamp,
    entry: Entry,
}

/// A provider that answers, and the VMs on it.
struct Known {
    name: String,
    books: Vec<Entry>,
    object: Option<Arc<Provider>>,
    inventory: Inventory,
    rules: HostRules,
}

impl Known {
    fn site(&self) -> Site<'_> {
        Site {
            provider: &self.name,
            inventory: &self.inventory,
            overcommit: overcommit(self.object.as_deref()),
            rules: Some(&self.rules),
        }
    }

    fn shows(&self, vm: &ObjectKey) -> bool {
        self.books.iter().any(|entry| entry.is_of(vm))
    }
}

impl Chooser {
    /// The best host of these providers. Those that do not answer, or do not tell of hosts, are left out.
    pub async fn choose(
        &self,
        stores: &Stores,
        links: &Links,
        providers: &[ObjectKey],
        request: &Request,
        now: Timestamp,
    ) -> Result<Choice, Refusal> {
        let (known, _) = self.known(stores, links, providers, now).await;
        let namespaces = stores.namespaces.labels().unwrap_or_default();
        decide(request, &known, &self.lock(), &namespaces)
    }

    /// The same for a VM that is to be made, and remembers it until the provider's books show the VM. Asked again for the same
    /// VM, it chooses anew.
    pub async fn choose_for(
        &self,
        stores: &Stores,
        links: &Links,
        providers: &[ObjectKey],
        vm: Arc<VirtualMachine>,
        now: Timestamp,
    ) -> Result<Choice, NotChosen> {
        let request = request(&vm, stores).map_err(NotChosen::Question)?;
        let (known, left_out) = self.known(stores, links, providers, now).await;
        if known.is_empty() {
            return Err(NotChosen::Silence(left_out));
        }
        let key = ObjectKey::of(&*vm);
        let mut chosen = self.lock();
        chosen.remove(&key);
        chosen.retain(|key, chosen| chosen.counts(key, stores, &known, now));
        let namespaces = stores.namespaces.labels().unwrap_or_default();
        let choice = decide(&request, &known, &chosen, &namespaces)
            .map_err(|refusal| NotChosen::Refused(refusal, left_out))?;
        let entry = Chosen {
            provider: choice.provider.clone(),
            at: now,
            entry: books::expected(stores, vm, &choice, &request),
        };
        chosen.insert(key, entry);
        Ok(choice)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Chosen>> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn known(
        &self,
        stores: &Stores,
        links: &Links,
        providers: &[ObjectKey],
        now: Timestamp,
    ) -> (Vec<Known>, Vec<LeftOut>) {
        let asked = providers
            .iter()
            .map(|key| self.look(stores, links, key, now));
        let (mut known, mut left_out) = (Vec::new(), Vec::new());
        for (provider, seen) in providers.iter().zip(join_all(asked).await) {
            match seen {
                Ok(seen) => known.push(seen),
                Err(why) => left_out.push(LeftOut {
                    provider: provider.clone(),
                    why,
                }),
            }
        }
        (known, left_out)
    }

    async fn look(
        &self,
        stores: &Stores,
        links: &Links,
        key: &ObjectKey,
        now: Timestamp,
    ) -> Result<Known, Silence> {
        let ready = match reach(links.get(key), true, now) {
            Reach::Ready(ready) => ready,
            Reach::Unavailable => return Err(Silence::Away),
            Reach::Missing | Reach::Connecting => return Err(Silence::Connecting),
        };
        let oldest = now.saturating_sub(OLD).unwrap_or(now);
        let snapshot = self.snapshots.get(&ready, now, oldest).await;
        let snapshot = snapshot.map_err(|_| Silence::Hosts)?;
        let books = books::open(stores, &ready.link, &snapshot, None, None);
        let object = stores.providers.get(key);
        let inventory = open_hosts(stores, key, object.as_deref(), &snapshot.inventory);
        let inventory = inventory.into_owned();
        let rules = host_rules(stores, key, overcommit(object.as_deref()));
        if inventory.hosts.is_empty() {
            return Err(Silence::Hosts);
        }
        Ok(Known {
            name: key.to_string(),
            books,
            object,
            inventory,
            rules,
        })
    }
}

impl Chosen {
    /// Whether it is counted here still: the books do not show the VM, and it is there or soon will be.
    fn counts(&self, vm: &ObjectKey, stores: &Stores, known: &[Known], now: Timestamp) -> bool {
        let shown = known.iter().any(|known| known.shows(vm));
        let young = now.duration_since(self.at).unsigned_abs() < UNSEEN;
        !shown && (young || stores.vms.get(vm).is_some())
    }
}

fn decide(
    request: &Request,
    known: &[Known],
    chosen: &HashMap<ObjectKey, Chosen>,
    namespaces: &Namespaces,
) -> Result<Choice, Refusal> {
    let sites: Vec<_> = known.iter().map(Known::site).collect();
    let there = known
        .iter()
        .flat_map(|known| known.books.iter().map(|entry| entry.placed(&known.name)));
    let soon = chosen
        .values()
        .map(|chosen| chosen.entry.placed(&chosen.provider));
    let vms: Vec<_> = there.chain(soon).collect();
    let world = World {
        sites: &sites,
        vms: &vms,
        namespaces,
    };
    place(request, &world)
}

/// What the VM asks of any provider: one that passes no devices on has none in its inventory.
fn request(vm: &VirtualMachine, stores: &Stores) -> Result<Request, Problem> {
    let class = vm.spec.class.as_deref().map(class_from).transpose()?;
    let made = CreateVm {
        class: class.unwrap_or_default(),
        ..CreateVm::default()
    };
    let question = Question::new(vm, &made, None, &Features::default())?;
    question.with(stores).map(|question| question.request)
}
