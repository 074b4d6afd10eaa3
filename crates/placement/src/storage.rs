//! Room for disks. A datastore is for all hosts of its provider, or for those that it names.

use std::collections::{BTreeMap, BTreeSet};

use polyvirt_contract::model::{Datastore, Host};

use crate::ground::Ground;
use crate::reason::Reason;
use crate::world::Site;

/// Room for the disks of a VM. Disks that grow as they are written count when they have grown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Bytes that are allocated at once, on the datastore that is chosen.
    pub bytes: u64,
    /// Bytes that are allocated at once on datastores that the disks name themselves.
    pub elsewhere: BTreeMap<String, u64>,
    /// The datastore, if the VM names it.
    pub named: Option<String>,
    /// Datastores to choose from; empty for all.
    pub allowed: BTreeSet<String>,
    /// Datastores not to choose.
    pub excluded: BTreeSet<String>,
    /// Datastores to choose if they have the room.
    pub preferred: BTreeSet<String>,
    /// Bytes that stay free.
    pub keep_free: u64,
    /// How much of a datastore may be used, in percent.
    pub most_used_percent: Option<u32>,
}

impl Storage {
    /// The datastore of this host, or why there is none. `Ok(None)` where nobody cares and the provider may choose.
    pub(crate) fn choose(
        &self,
        site: &Site<'_>,
        host: &Host,
        ground: &Ground<'_>,
    ) -> Result<Option<String>, Reason> {
        if site.inventory.datastores.is_empty() {
            return Ok(self.named.clone());
        }
        let all = site.inventory.datastores.iter();
        let here: Vec<_> = all.filter(|store| is_at(store, host)).collect();
        self.check_elsewhere(&here, site, ground)?;
        let all = here.into_iter();
        let candidates: Vec<_> = all.filter(|store| self.admits(&store.name)).collect();
        let room = |store: &&Datastore| ground.free_bytes(site.provider, store);
        let rank = |store: &&&Datastore| (self.preferred.contains(&store.name), room(store));
        let fits = |store: &&&Datastore| self.fits(store, room(store));
        match candidates.iter().filter(fits).max_by_key(rank) {
            Some(best) => Ok(self.cares().then(|| best.name.clone())),
            None => Err(self.refusal(candidates.into_iter().max_by_key(room), site, ground)),
        }
    }

    /// Whether the choice is ours.
    fn cares(&self) -> bool {
        let free = self.allowed.is_empty() && self.excluded.is_empty() && self.preferred.is_empty();
        self.named.is_some() || !free
    }

    fn admits(&self, name: &str) -> bool {
        match &self.named {
            Some(named) => named == name,
            None => {
                (self.allowed.is_empty() || self.allowed.contains(name))
                    && !self.excluded.contains(name)
            }
        }
    }

    fn fits(&self, store: &Datastore, free: u64) -> bool {
        let used = store
            .capacity_bytes
            .saturating_sub(free)
            .saturating_add(self.bytes);
        let busy = |most: u32| {
            u128::from(used) * 100 > u128::from(store.capacity_bytes) * u128::from(most)
        };
        // A cluster does not tell how much room a storage class has.
        store.capacity_bytes == 0
            || (self.bytes.saturating_add(self.keep_free) <= free
                && !self.most_used_percent.is_some_and(busy))
    }

    fn check_elsewhere(
        &self,
        here: &[&Datastore],
        site: &Site<'_>,
        ground: &Ground<'_>,
    ) -> Result<(), Reason> {
        for (name, bytes) in &self.elsewhere {
            let store = here.iter().find(|store| store.name == *name);
            let Some(store) = store.filter(|store| store.capacity_bytes > 0) else {
                continue;
            };
            let free = ground.free_bytes(site.provider, store);
            if *bytes > free {
                return Err(full(name, *bytes, free));
            }
        }
        Ok(())
    }

    fn refusal(&self, best: Option<&Datastore>, site: &Site<'_>, ground: &Ground<'_>) -> Reason {
        let Some(store) = best else {
            return Reason::NoDatastore;
        };
        let free = ground.free_bytes(site.provider, store);
        full(&store.name, self.bytes.saturating_add(self.keep_free), free)
    }
}

fn is_at(store: &Datastore, host: &Host) -> bool {
    store.hosts.is_empty() || store.hosts.contains(&host.name)
}

fn full(name: &str, wanted: u64, free: u64) -> Reason {
    Reason::DatastoreFull {
        datastore: name.to_owned(),
        wanted_gib: wanted.div_ceil(1 << 30),
        free_gib: free >> 30,
    }
}
