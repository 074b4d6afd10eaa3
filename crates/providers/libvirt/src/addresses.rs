//! Where guests are. Nobody tells when a guest gets an address, so it is asked after something happened to it, until it has
//! said the same twice. A guest at rest is asked nothing.
//!
//! ```text
//!   start, reboot, the agent comes, a card comes ─► another turn ─► ask, with growing pauses ─► settled ─► rest
//! ```
//!
//! The agent is asked if it listens, else libvirt is asked for the addresses that its own networks gave out.

use std::sync::{Arc, Weak};
use std::time::Duration;

use polyvirt_provider_kit::guest::{Answer, Pace, Told};

use crate::core::{Core, Vm};
use crate::domain::Machine;
use crate::domain::nic::Plug;
use crate::guest;
use crate::rpc::Domain;

/// How long libvirt may take to read its list of leases.
const LEASES_WITHIN: Duration = Duration::from_secs(15);

/// Who knows where the guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Its agent.
    Agent,
    /// libvirt's networks.
    Leases,
}

/// Who is asked, and about what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// libvirt's number for this run of the domain.
    run: i32,
    way: Way,
    macs: Vec<String>,
}

impl Source {
    /// Who knows where the guest of this machine is; `None` if nobody does.
    pub(crate) fn of(live: &Machine, run: i32) -> Option<Self> {
        let listens = live.agent == Some(true);
        let leased = |plug: &Plug| matches!(plug, Plug::Network(_));
        let cards = live.nics.iter();
        let macs: Vec<String> = cards
            .filter(|nic| listens || leased(&nic.plug))
            .map(|nic| nic.mac.clone())
            .collect();
        let way = if listens { Way::Agent } else { Way::Leases };
        (listens || !macs.is_empty()).then_some(Self { run, way, macs })
    }

    /// Whether what this one told is good until the next one has told more. An agent that went may have gone with its guest.
    fn holds_until(&self, next: &Self) -> bool {
        self.run == next.run && (self.way == Way::Leases || next.way == Way::Agent)
    }
}

/// Why a guest is asked again that has said all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Again {
    /// To be sure that nothing was missed.
    Repair,
    /// Something happened to it.
    Happened,
}

/// The questions to one guest after one thing that happened.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    number: u64,
    source: Source,
    pace: Pace,
}

/// What a guest has told, and who is asking it.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    source: Option<Source>,
    again: Option<Again>,
    turn: u64,
    told: Told,
    /// What the guest told on the host that it comes from.
    brought: Option<Told>,
}

impl Asking {
    /// The next look begins another turn.
    pub(crate) fn ask_again(&mut self, why: Again) {
        self.again = self.again.max(Some(why));
    }

    /// What the guest has told so far.
    pub(crate) fn told(&self) -> Told {
        self.told.clone()
    }

    /// Believes what the guest told on another host until it has been asked here.
    pub(crate) fn bring(&mut self, told: Told) {
        // Where its agent listens already, it is asked soon; what was brought is not to be heard again after a reboot.
        self.brought = self.source.is_none().then(|| told.clone());
        self.told = told;
    }

    /// The guest does not run any more: what it told elsewhere is of the past.
    pub(crate) fn has_stopped(&mut self) {
        self.brought = None;
    }

    /// Takes in who can be asked now. Gives what is known, and the turn to begin if there is reason for one.
    pub(crate) fn turn_to(&mut self, source: Option<Source>) -> (Told, Option<Turn>) {
        let same = self.source == source;
        if same && self.again.is_none() {
            return (self.told.clone(), None);
        }
        let holds =
            matches!((&self.source, &source), (Some(old), Some(new)) if old.holds_until(new));
        if !holds {
            self.told = match &source {
                Some(_) => self.brought.take().unwrap_or_default(),
                // Its agent has not been heard yet.
                None => self.brought.clone().unwrap_or_default(),
            };
        }
        let repairs = same && self.again == Some(Again::Repair);
        let pace = if repairs {
            Pace::check()
        } else {
            Pace::fresh()
        };
        self.again = None;
        self.turn += 1;
        self.source.clone_from(&source);
        let number = self.turn;
        let turn = source.map(|source| Turn {
            number,
            source,
            pace,
        });
        (self.told.clone(), turn)
    }

    /// Takes in an answer, unless it comes from an earlier turn.
    pub(crate) fn learn(&mut self, turn: &Turn, told: Told) {
        if self.turn == turn.number {
            self.told = told;
        }
    }
}

/// Begins a turn.
pub(crate) fn begin(core: &Arc<Core>, vm: &Arc<Vm>, turn: Turn) {
    let (weak, vm, stop) = (Arc::downgrade(core), Arc::downgrade(vm), core.stop.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = keep_asking(weak, vm, turn) => {}
        }
    });
}

async fn keep_asking(core: Weak<Core>, vm: Weak<Vm>, mut turn: Turn) {
    loop {
        let (Some(core), Some(vm)) = (core.upgrade(), vm.upgrade()) else {
            return;
        };
        if vm.asking().turn != turn.number {
            return;
        }
        let told = ask(&core, &vm, &turn.source).await;
        let answer = take_in(&core, &vm, &turn, told).await;
        drop((core, vm));
        let Some(pause) = turn.pace.after(answer) else {
            return;
        };
        tokio::time::sleep(pause).await;
    }
}

async fn take_in(core: &Arc<Core>, vm: &Arc<Vm>, turn: &Turn, told: Option<Told>) -> Answer {
    let Some(told) = told else {
        return Answer::None;
    };
    let all = told.knows_all(turn.source.macs.iter().map(String::as_str));
    let news = vm.asking().told != told;
    if news {
        // If it fails, the connection is gone, and whoever opens the next one looks at everything.
        let _ = core.look_after(vm, turn, told).await;
    }
    if news || !all {
        Answer::News
    } else {
        Answer::Same
    }
}

/// One guest at a time: those that do not answer must not be in the way of whoever starts and stops others.
async fn ask(core: &Core, vm: &Vm, source: &Source) -> Option<Told> {
    let _turn = core.asks.acquire().await.ok()?;
    let session = core.session().await.ok()?;
    let domain = Domain::of(vm.uuid);
    match source.way {
        Way::Agent => guest::told(&session, &domain).await,
        Way::Leases => {
            let leases = tokio::time::timeout(LEASES_WITHIN, session.leases(&domain)).await;
            Some(Told {
                addresses: leases.ok()?.ok()?,
                hostname: String::new(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(run: i32, way: Way) -> Source {
        let macs = vec!["02:00:00:00:00:01".to_owned()];
        Source { run, way, macs }
    }

    fn told(address: &str) -> Told {
        let list = vec![address.to_owned()];
        Told {
            addresses: [("02:00:00:00:00:01".to_owned(), list)].into(),
            hostname: String::new(),
        }
    }

    #[test]
    fn a_guest_at_rest_begins_no_turn() {
        let mut asking = Asking::default();
        let (_, turn) = asking.turn_to(Some(source(1, Way::Agent)));
        asking.learn(&turn.expect("begins"), told("10.0.0.1"));
        for _ in 0..3 {
            let (known, turn) = asking.turn_to(Some(source(1, Way::Agent)));
            assert!(turn.is_none());
            assert_eq!(known, told("10.0.0.1"));
        }
        asking.ask_again(Again::Happened);
        asking.ask_again(Again::Repair);
        let (known, turn) = asking.turn_to(Some(source(1, Way::Agent)));
        assert!(turn.is_some(), "what happened is not forgotten");
        assert_eq!(known, told("10.0.0.1"), "it is known until it changes");
        assert!(asking.turn_to(Some(source(1, Way::Agent))).1.is_none());
    }

    #[test]
    fn what_was_told_holds_as_long_as_it_can_be_true() {
        use Way::{Agent, Leases};
        for (before, after, holds) in [
            (source(1, Leases), Some(source(1, Agent)), true),
            (source(1, Leases), Some(source(1, Leases)), true),
            (source(1, Agent), Some(source(1, Leases)), false),
            (source(1, Agent), Some(source(2, Agent)), false),
            (source(1, Agent), None, false),
        ] {
            let mut asking = Asking::default();
            let (_, turn) = asking.turn_to(Some(before.clone()));
            asking.learn(&turn.expect("begins"), told("10.0.0.1"));
            let (known, _) = asking.turn_to(after.clone());
            assert_eq!(known == told("10.0.0.1"), holds, "{before:?} {after:?}");
        }
    }

    #[test]
    fn an_answer_of_an_earlier_turn_is_not_believed() {
        let mut asking = Asking::default();
        let (_, first) = asking.turn_to(Some(source(1, Way::Agent)));
        asking.turn_to(Some(source(2, Way::Agent)));
        asking.learn(&first.expect("began"), told("10.0.0.9"));
        assert_eq!(
            asking.turn_to(Some(source(2, Way::Agent))).0,
            Told::default()
        );
    }

    #[test]
    fn what_was_brought_from_another_host_does_not_outlive_a_reboot() {
        for listens_already in [true, false] {
            let mut asking = Asking::default();
            if listens_already {
                asking.turn_to(Some(source(1, Way::Agent)));
            }
            asking.bring(told("10.0.0.1"));
            let (known, _) = asking.turn_to(Some(source(1, Way::Agent)));
            assert_eq!(known, told("10.0.0.1"));
            let (known, _) = asking.turn_to(None);
            assert_eq!(known, Told::default(), "{listens_already}");
        }
    }

    #[test]
    fn who_is_asked_depends_on_the_machine() {
        let machine = |agent: &str, kind: &str| {
            let text = format!(
                "<domain><devices><interface type='{kind}'><mac address='02:00:00:00:00:01'/><source network='n'/></interface><channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0' state='{agent}'/></channel></devices></domain>"
            );
            Source::of(&Machine::read(&text).expect("sound"), 1)
        };
        assert_eq!(machine("connected", "user"), Some(source(1, Way::Agent)));
        assert_eq!(machine("connected", "network"), Some(source(1, Way::Agent)));
        assert_eq!(
            machine("disconnected", "network"),
            Some(source(1, Way::Leases))
        );
        assert_eq!(machine("disconnected", "user"), None);
    }
}
