//! `polyvirt host drain`: a VMMigration for each VM of a host, a few at a time, until nobody is there.
//!
//! ```text
//!   close ─► who is there, or comes? ─► nobody: empty
//!                 ▲      └─► on its way: wait ─► in place: move ─┐
//!                 └──────────────────────────────────────────────┘  one that cannot move stays, and is named
//! ```
//!
//! Cut off in the middle it can be run again: VMs that have moved are elsewhere, and a move that was asked for is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::bail;
use futures::StreamExt as _;
use futures::stream;
use jiff::Timestamp;
use kube::ResourceExt;
use polyvirt_api::infra::{PowerState, VMMigration, VirtualMachine};

use super::cordon::{self, Wish};
use super::list::{all, is_listed, vms_of};
use super::presence::{Presence, is_known, presence};
use super::{Drain, OneHost};
use crate::commands::vm::migrate::{POLL, begin, is_over, until_over, wanted};
use crate::commands::vm::options::MoveTerms;
use crate::commands::vm::{Cluster, print, say};
use crate::exit::Failure;

/// Closes the host, and moves its VMs away.
pub async fn run(cluster: &Cluster, options: &Drain) -> anyhow::Result<()> {
    let host = &options.host.host;
    let mut there = Round::look(cluster, options).await?;
    must_be_known(cluster, options, &there).await?;
    cordon::set(cluster, &options.host, Wish::Closed).await?;
    let count = there.present(host).len();
    say(&format!("{host} takes no more VMs; {count} are to move"));
    let mut so_far = SoFar::default();
    while one_round(cluster, options, &there, &mut so_far).await {
        tokio::time::sleep(POLL).await;
        there = Round::look(cluster, options).await?;
    }
    if !so_far.stayed.is_empty() {
        bail!(
            "{} of {} VMs are still on {host}: run it again when what is told is mended",
            so_far.stayed.len(),
            so_far.since.len()
        );
    }
    print(&format!("host/{host}: empty\n"));
    Ok(())
}

/// A name that was mistyped is not told to be empty.
async fn must_be_known(cluster: &Cluster, options: &Drain, there: &Round) -> anyhow::Result<()> {
    let OneHost { provider, host } = &options.host;
    let object = cordon::provider(cluster, provider).await?;
    let closed = object.spec.cordoned_hosts.contains(host);
    if closed || is_listed(&object, host) || is_known(host, &there.vms, &there.moves) {
        return Ok(());
    }
    let text = format!(
        "Provider {provider} has no host {host}. Check the name with `polyvirt host list {provider}`, or cordon it with `polyvirt host cordon {provider} {host}`"
    );
    Err(Failure::NotFound(text).into())
}

/// VMs and moves, as they were listed once.
struct Round {
    vms: Vec<VirtualMachine>,
    moves: Vec<VMMigration>,
    /// VMs whose migration ended within the last seconds, by name.
    settling: BTreeSet<String>,
}

/// The status of a VM names its new host a moment after its migration has ended. Until then it is not migrated again.
const SETTLES: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);

impl Round {
    /// The moves first: one that ends in between has its VM where it went.
    async fn look(cluster: &Cluster, options: &Drain) -> anyhow::Result<Self> {
        let found = all(cluster, "VMMigrations cannot be read", |_| true).await?;
        let (ended, moves): (Vec<_>, Vec<_>) = found.into_iter().partition(is_over);
        let vms = vms_of(cluster, &options.host.provider).await?;
        let settling = ended.iter().filter(|found| has_just_ended(found));
        Ok(Self {
            vms,
            moves,
            settling: settling.map(vm_of).collect(),
        })
    }

    fn present(&self, host: &str) -> Vec<(&VirtualMachine, Presence<'_>)> {
        let found = self.vms.iter();
        found
            .filter_map(|vm| presence(vm, host, &self.moves).map(|how| (vm, how)))
            .collect()
    }
}

/// What became of the VMs that were found on the host, by name.
#[derive(Default)]
struct SoFar {
    since: BTreeMap<String, Instant>,
    /// Those that have moved: where they are is told a moment later.
    moved: BTreeSet<String>,
    stayed: BTreeSet<String>,
}

/// How far one VM came.
enum Step {
    /// It left, by a move of which this is told.
    Left(String),
    /// It is to be looked at again.
    Again,
}

/// One step with each VM that is there; whether somebody is to be looked at again.
async fn one_round(cluster: &Cluster, options: &Drain, there: &Round, so_far: &mut SoFar) -> bool {
    let mut present = there.present(&options.host.host);
    present.retain(|(vm, _)| !so_far.stayed.contains(&full_name(vm)));
    for (vm, _) in &present {
        let since = so_far.since.entry(full_name(vm));
        since.or_insert_with(Instant::now);
    }
    let known = &*so_far;
    let steps = present.iter().map(async |(vm, how)| {
        let name = full_name(vm);
        if matches!(how, Presence::InPlace) && there.settling.contains(&name) {
            return (name, Ok(Step::Again));
        }
        let step = one(cluster, options, vm, (*how, known)).await;
        (name, step)
    });
    let mut steps = stream::iter(steps).buffer_unordered(options.parallel.max(1));
    let mut ends = Vec::new();
    while let Some((name, step)) = steps.next().await {
        match &step {
            Ok(Step::Left(message)) => print(&format!("{name}: {message}\n")),
            Ok(Step::Again) => {}
            Err(error) => say(&format!("{name} stays: {error:#}")),
        }
        ends.push((name, step));
    }
    drop(steps);
    for (name, step) in ends {
        so_far.note(name, &step);
    }
    !present.is_empty()
}

impl SoFar {
    fn note(&mut self, name: String, step: &anyhow::Result<Step>) {
        match step {
            Ok(Step::Left(_)) => self.moved.insert(name),
            Ok(Step::Again) => false,
            Err(_) => self.stayed.insert(name),
        };
    }
}

/// Asks for a move, or waits: for one that somebody else asked for, for a VM that is being made, for news of one that has left.
async fn one(
    cluster: &Cluster,
    options: &Drain,
    vm: &VirtualMachine,
    (how, so_far): (Presence<'_>, &SoFar),
) -> anyhow::Result<Step> {
    let name = full_name(vm);
    let late = so_far.since.get(&name).map(Instant::elapsed);
    if late.is_some_and(|late| late > options.timeout) {
        let seconds = options.timeout.as_secs();
        let text = format!("it did not leave within {seconds} s");
        return Err(Failure::TimedOut(text).into());
    }
    let near = Cluster {
        client: cluster.client.clone(),
        namespace: vm.namespace().unwrap_or_default(),
        server: cluster.server.clone(),
    };
    match how {
        Presence::Leaving(other) => {
            let ended = until_over(&near, other, options.timeout, |_| ()).await;
            waited(ended)
        }
        Presence::Coming(Some(other)) => {
            let ended = until_over(&near, other, options.timeout, |_| ()).await;
            waited(ended).map(|_| Step::Again)
        }
        Presence::InPlace if !so_far.moved.contains(&name) => {
            let name = begin(&near, &wanted_of(options, vm)).await?;
            let ended = until_over(&near, &name, options.timeout, |_| ()).await;
            ended.map(Step::Left)
        }
        Presence::InPlace | Presence::Coming(None) => Ok(Step::Again),
    }
}

/// A move that somebody else asked for and that failed leaves the VM to us.
fn waited(ended: anyhow::Result<String>) -> anyhow::Result<Step> {
    match ended {
        Ok(message) => Ok(Step::Left(message)),
        Err(error) if matches!(error.downcast_ref(), Some(Failure::TimedOut(_))) => Err(error),
        Err(_) => Ok(Step::Again),
    }
}

fn wanted_of(options: &Drain, vm: &VirtualMachine) -> VMMigration {
    let terms = MoveTerms {
        cold: options.terms.cold || is_off(vm),
        ..options.terms.clone()
    };
    wanted(vm, None, &terms, Timestamp::now())
}

fn has_just_ended(migration: &VMMigration) -> bool {
    let status = migration.status.as_ref();
    let ended = status.and_then(|s| s.completion_time.as_ref());
    ended.is_some_and(|ended| Timestamp::now().duration_since(ended.0) < SETTLES)
}

fn vm_of(migration: &VMMigration) -> String {
    let namespace = migration.namespace().unwrap_or_default();
    format!("{namespace}/{}", migration.spec.source.vm_ref.name)
}

fn full_name(vm: &VirtualMachine) -> String {
    format!("{}/{}", vm.namespace().unwrap_or_default(), vm.name_any())
}

fn is_off(vm: &VirtualMachine) -> bool {
    let power = vm.status.as_ref().and_then(|s| s.power_state);
    matches!(power, Some(PowerState::Off | PowerState::OffGraceful))
}
