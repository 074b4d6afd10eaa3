//! The decision.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use polyvirt_contract::model::Host;

use crate::filter::Candidate;
use crate::ground::{Compiled, Ground};
use crate::reason::Reason;
use crate::request::Request;
use crate::rule::Rule;
use crate::score::{Scores, Weighted, score};
use crate::world::{Site, Topology, World};

/// How many reasons a summary names.
const MOST_GROUPS: usize = 6;
/// How long a summary gets; names of people can be long.
const LONGEST_SUMMARY: usize = 800;

/// Where a VM goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The Provider, as `namespace/name`.
    pub provider: String,
    /// The host.
    pub host: String,
    /// The datastore; `None` where the provider may choose.
    pub datastore: Option<String>,
    /// Devices of the host that are the VM's.
    pub devices: BTreeMap<String, u32>,
    /// Why this host.
    pub scores: Scores,
    /// What was found out about each host.
    pub verdicts: Vec<Verdict>,
}

impl Choice {
    /// Why this host, in one sentence.
    pub fn why(&self) -> String {
        let fitting = self
            .verdicts
            .iter()
            .filter(|verdict| verdict.fits())
            .count();
        let hosts = self.verdicts.len();
        format!(
            "Best of {fitting} hosts that fit, out of {hosts}; {}",
            self.scores
        )
    }
}

/// What was found out about one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The Provider, as `namespace/name`.
    pub provider: String,
    /// The host.
    pub host: String,
    /// Whether it can take the VM.
    pub outcome: Outcome,
}

impl Verdict {
    /// Whether the host can take the VM.
    pub const fn fits(&self) -> bool {
        matches!(self.outcome, Outcome::Fits { .. })
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fits { scores, .. } => scores.fmt(f),
            Self::Refused(reason) => reason.fmt(f),
        }
    }
}

/// Whether a host can take a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It can.
    Fits {
        /// How good it is.
        scores: Scores,
        /// Devices that the VM would get.
        devices: BTreeMap<String, u32>,
        /// The datastore that would be used.
        datastore: Option<String>,
    },
    /// It cannot.
    Refused(Reason),
}

/// No host can take the VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Each host, and what is against it.
    pub verdicts: Vec<Verdict>,
}

impl Refusal {
    /// One sentence, however many hosts there are: `0/5 hosts are available: 3 too little memory, 2 cordoned`.
    pub fn summary(&self) -> String {
        let mut groups: BTreeMap<String, usize> = BTreeMap::new();
        for verdict in &self.verdicts {
            if let Outcome::Refused(reason) = &verdict.outcome {
                *groups.entry(reason.group()).or_default() += 1;
            }
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(text, count)| (Reverse(*count), text.clone()));
        let shown = groups
            .iter()
            .take(MOST_GROUPS)
            .map(|(text, count)| format!("{count} {text}"));
        let mut list: Vec<_> = shown.collect();
        let rest: usize = groups
            .iter()
            .skip(MOST_GROUPS)
            .map(|(_, count)| count)
            .sum();
        if rest > 0 {
            list.push(format!("{rest} for other reasons"));
        }
        let colon = if list.is_empty() { "" } else { ": " };
        let text = format!(
            "0/{} hosts are available{colon}{}",
            self.verdicts.len(),
            list.join(", ")
        );
        text.chars().take(LONGEST_SUMMARY).collect()
    }
}

/// The best host for the VM, or why there is none.
pub fn place(request: &Request, world: &World<'_>) -> Result<Choice, Refusal> {
    let verdicts = explain(request, world);
    // They are sorted by name: of equals the first is taken.
    let fitting = verdicts.iter().rev().filter(|verdict| verdict.fits());
    let best = fitting.max_by_key(|verdict| rank(verdict)).cloned();
    match best {
        Some(Verdict {
            provider,
            host,
            outcome:
                Outcome::Fits {
                    scores,
                    devices,
                    datastore,
                },
        }) => Ok(Choice {
            provider,
            host,
            datastore,
            devices,
            scores,
            verdicts,
        }),
        _ => Err(Refusal { verdicts }),
    }
}

fn rank(verdict: &Verdict) -> u32 {
    match &verdict.outcome {
        Outcome::Fits { scores, .. } => scores.total(),
        Outcome::Refused(_) => 0,
    }
}

/// Whether each host can take the VM, sorted by provider and name.
pub fn explain(request: &Request, world: &World<'_>) -> Vec<Verdict> {
    let ground = Ground::new(world);
    let question = Question::new(request, &ground);
    let mut verdicts: Vec<_> = world
        .sites
        .iter()
        .flat_map(|site| question.site(site, &ground))
        .collect();
    verdicts.sort_by(|a, b| (&a.provider, &a.host).cmp(&(&b.provider, &b.host)));
    verdicts
}

/// Whether a host that somebody names on purpose can take the VM at all: it answers, and has the memory, which is never promised
/// twice. What else is against it ([`explain`]) whoever names it may overrule. `None` if there is no such host.
pub fn named(request: &Request, world: &World<'_>, host: &str) -> Option<Result<(), Reason>> {
    let ground = Ground::new(world);
    let hosts = world.sites.iter().flat_map(|site| {
        let hosts = site.inventory.hosts.iter();
        hosts.map(move |host| (site, host))
    });
    let (site, host) = hosts.into_iter().find(|(_, found)| found.name == host)?;
    let room = ground.room(site, host);
    Some(Candidate { site, host, room }.can_carry(request))
}

/// The request with the VMs that it speaks of.
struct Question<'r> {
    request: &'r Request,
    rules: Vec<Compiled<'r>>,
    wishes: Vec<Weighted<'r>>,
    forbidden: BTreeMap<Topology, BTreeMap<String, String>>,
}

impl<'r> Question<'r> {
    fn new(request: &'r Request, ground: &Ground<'_>) -> Self {
        let compiled = |rule: &'r Rule| Compiled::new(rule, request, ground);
        let rules = request.rules.iter().map(compiled);
        let wishes = request.wishes.iter();
        let wishes = wishes.map(|wish| (wish.weight, compiled(&wish.rule)));
        Self {
            request,
            rules: rules.collect(),
            wishes: wishes.collect(),
            forbidden: ground.forbidden(request),
        }
    }

    fn site<'a>(&self, site: &'a Site<'a>, ground: &Ground<'a>) -> Vec<Verdict> {
        let judged = |host: &'a Host| {
            let datastore = || self.request.storage.choose(site, host, ground);
            let room = ground.room(site, host);
            let candidate = Candidate { site, host, room };
            Verdict {
                provider: site.provider.to_owned(),
                host: host.name.clone(),
                outcome: self
                    .judge(&candidate, datastore)
                    .unwrap_or_else(Outcome::Refused),
            }
        };
        site.inventory.hosts.iter().map(judged).collect()
    }

    /// What a person can change least comes first: of several reasons the first is told.
    fn judge(
        &self,
        candidate: &Candidate<'_>,
        datastore: impl FnOnce() -> Result<Option<String>, Reason>,
    ) -> Result<Outcome, Reason> {
        candidate.is_up()?;
        for rule in &self.rules {
            candidate.meets(rule, self.request)?;
        }
        candidate.is_welcome(&self.forbidden)?;
        candidate.has_room(self.request)?;
        let datastore = datastore()?;
        let devices = candidate.devices(self.request)?;
        let scores = score(candidate, self.request, &self.wishes);
        Ok(Outcome::Fits {
            scores,
            devices,
            datastore,
        })
    }
}
