//! Several machines as one provider: on each runs a [`Qemu`](crate::Qemu) behind a port, and this is in front of them.
//!
//! ```text
//!   a call about a VM ─► who has it? ─► that host           who has it: what hosts told, else all are asked
//!   a new VM ─► nowhere yet ─► the host that is named, or the roomiest ─► noted as on its way ─► that host
//!   a move ─► both hosts, step by step ─► settled by looking at both
//!   a host that is away: its VMs are unknown, never gone; the other hosts go on
//! ```
//!
//! Nothing is kept here. What must survive is with the hosts: VMs, and the marks of those that move.

mod config;
mod creating;
mod member;
mod moving;
mod provider;
mod routing;
#[cfg(test)]
mod tests;
mod told;

use std::sync::Arc;
use std::time::SystemTime;

use polyvirt_contract::Result;
use polyvirt_provider_kit::fleet::running::Moves;
use polyvirt_provider_kit::fleet::sent::Book;
use polyvirt_provider_kit::tasks::Tasks;
use tokio_util::sync::CancellationToken;

pub use config::{FleetConfig, FleetConfigError};
use member::{Member, follow};
use told::Told;

/// A provider whose VMs are on several machines, each of which has a provider of its own.
pub struct Fleet {
    members: Vec<Arc<Member>>,
    told: Arc<Told>,
    /// VMs that are being created.
    book: Book,
    /// Moves, and what is left of them.
    tasks: Tasks,
    moves: Moves,
    stop: CancellationToken,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hosts = self.members.iter().map(|member| &member.address);
        f.debug_list().entries(hosts).finish()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Fleet {
    /// Begins to listen to all hosts.
    pub fn open(config: FleetConfig) -> Result<Arc<Self>> {
        let hosts = config.hosts.into_iter().enumerate();
        let members = hosts.map(|(place, host)| Member::connect(place, host));
        Ok(Self::with(members.collect::<Result<_>>()?))
    }

    fn with(members: Vec<Member>) -> Arc<Self> {
        let told = Arc::new(Told::new(members.len()));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let life = format!("move-{:x}", now.unwrap_or_default().as_millis());
        let fleet = Arc::new(Self {
            members: members.into_iter().map(Arc::new).collect(),
            tasks: Tasks::new(told.hub.clone(), life),
            told,
            book: Book::default(),
            moves: Moves::default(),
            stop: CancellationToken::new(),
        });
        for place in 0..fleet.members.len() {
            let (weak, stop) = (Arc::downgrade(&fleet), fleet.stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = follow(weak, place) => {}
                }
            });
        }
        fleet
    }
}
