//! Which of the hosts that fit is the best.

use std::fmt::{Display, Formatter};

use crate::filter::Candidate;
use crate::ground::{Compiled, Room};
use crate::request::Request;
use crate::world::Packing;

/// How good a host is, from 0 to 100 in each respect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scores {
    /// How many of the wishes it meets, by their weight.
    pub wishes: u32,
    /// How much stays free.
    pub room: u32,
    /// How few VMs of the same namespace are there.
    pub spread: u32,
    /// Whether its devices are left to those who need them.
    pub thrift: u32,
}

impl Scores {
    /// One figure to compare hosts by. What is wished for weighs most.
    pub const fn total(self) -> u32 {
        10 * self.wishes + 3 * self.room + self.spread + 5 * self.thrift
    }
}

impl Display for Scores {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self {
            wishes,
            room,
            spread,
            thrift,
        } = self;
        write!(
            f,
            "score {}: wishes {wishes}, room {room}, spread {spread}, thrift {thrift}",
            self.total()
        )
    }
}

/// A wish with the VMs that it speaks of.
pub(crate) type Weighted<'r> = (u32, Compiled<'r>);

pub(crate) fn score(
    candidate: &Candidate<'_>,
    request: &Request,
    wishes: &[Weighted<'_>],
) -> Scores {
    let packing = candidate.room.packing;
    let neighbours = candidate.room.vms.get(request.namespace.as_str());
    let neighbours = neighbours.unwrap_or(&0);
    Scores {
        wishes: wished(candidate, request, wishes),
        room: preferred(left(&candidate.room, request), packing),
        spread: preferred(100 / (1 + neighbours), packing),
        thrift: thrift(candidate, request),
    }
}

/// A host that is to be filled up is the better the less is free.
const fn preferred(free: u32, packing: Packing) -> u32 {
    match packing {
        Packing::Spread => free,
        Packing::BinPack => 100_u32.saturating_sub(free),
    }
}

fn wished(candidate: &Candidate<'_>, request: &Request, wishes: &[Weighted<'_>]) -> u32 {
    let all: u64 = wishes.iter().map(|(weight, _)| u64::from(*weight)).sum();
    let met = wishes
        .iter()
        .filter(|(_, wish)| candidate.meets(wish, request).is_ok());
    let met: u64 = met.map(|(weight, _)| u64::from(*weight)).sum();
    u32::try_from((met * 100).checked_div(all).unwrap_or(100)).unwrap_or(100)
}

/// The mean of what stays free of CPUs and of memory.
fn left(room: &Room<'_>, request: &Request) -> u32 {
    let part = |free: u64, wanted: u64, all: u64| {
        let rest = u128::from(free.saturating_sub(wanted)) * 100;
        u32::try_from(rest / u128::from(all.max(1))).unwrap_or(100)
    };
    let cpus = part(room.free_cpus(), request.cpus.into(), room.cpus);
    let memory = part(room.free_memory(), request.memory_mib, room.memory_mib);
    u32::midpoint(cpus, memory).min(100)
}

fn thrift(candidate: &Candidate<'_>, request: &Request) -> u32 {
    let wasted =
        request.devices.is_empty() && candidate.host.devices.values().any(|count| *count > 0);
    if wasted { 0 } else { 100 }
}
