//! Chooses among providers, for callers that name none.

use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use polyvirt_api::infra::Provider;
use polyvirt_contract::model::Inventory;
use polyvirt_placement::{Choice, Refusal, Request, Site, World, place};

use super::books::{self, Entry};
use super::snapshots::Snapshots;
use super::{OLD, open_hosts, overcommit};
use crate::context::Stores;
use crate::link::Links;
use crate::runtime::key::ObjectKey;
use crate::virtual_machine::reach::{Reach, reach};

/// Chooses among providers. It reserves nothing: the VM's own pass decides on the host.
#[derive(Default)]
pub struct Chooser {
    snapshots: Snapshots,
}

/// A provider that answers, and the VMs on it.
struct Known {
    name: String,
    books: Vec<Entry>,
    object: Option<Arc<Provider>>,
    inventory: Inventory,
}

impl Known {
    fn site(&self) -> Site<'_> {
        Site {
            provider: &self.name,
            inventory: &self.inventory,
            overcommit: overcommit(self.object.as_deref()),
        }
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
        let asked = providers
            .iter()
            .map(|key| self.look(stores, links, key, now));
        let known: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        let sites: Vec<_> = known.iter().map(|known| known.site()).collect();
        let vms = known
            .iter()
            .flat_map(|known| known.books.iter().map(|entry| entry.placed(&known.name)));
        let vms: Vec<_> = vms.collect();
        place(
            request,
            &World {
                sites: &sites,
                vms: &vms,
            },
        )
    }

    async fn look(
        &self,
        stores: &Stores,
        links: &Links,
        key: &ObjectKey,
        now: Timestamp,
    ) -> Option<Known> {
        let Reach::Ready(ready) = reach(links.get(key), true, now) else {
            return None;
        };
        let oldest = now.saturating_sub(OLD).unwrap_or(now);
        let snapshot = self.snapshots.get(&ready, now, oldest).await.ok()?;
        let books = books::open(stores, &ready.link, &snapshot, None, None);
        let object = stores.providers.get(key);
        let inventory = open_hosts(object.as_deref(), &snapshot.inventory).into_owned();
        Some(Known {
            name: key.to_string(),
            books,
            object,
            inventory,
        })
    }
}
