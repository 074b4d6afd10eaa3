//! A hypervisor on which things go wrong, and a manager that dies between any two lines.

use std::collections::VecDeque;

use jiff::Timestamp;
use polyvirt_contract::TaskId;
use polyvirt_contract::model::SnapshotState;
use polyvirt_plan::snapshot::{
    Desired, Done, Facts, Intent, Life, Object, Observed, Record, Step, VmFacts, next_step,
};
use polyvirt_plan::virtual_machine::{Claim, Operation, OperationKind, ProviderFacts};
use proptest::prelude::*;

use super::facts::{NAME, able, at, features, named, place};

const MOST_PASSES: usize = 200;

/// What happens to one call of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accident {
    None,
    /// Not done, and an error says so.
    Refused,
    /// Not done, and the error leaves it open.
    Dropped,
    /// Done, and the error leaves it open.
    AnswerLost,
    /// The manager dies before the call arrives.
    DiesBefore,
    /// The manager dies before it has written the answer down.
    DiesAfter,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub lost: usize,
    pub crashed: usize,
    pub failed: usize,
}

/// A task of the hypervisor: what it will do when it is asked about next.
#[derive(Clone, Debug)]
enum Work {
    Take(SnapshotState),
    Delete,
}

#[derive(Clone, Debug)]
pub struct World {
    pub identity: bool,
    pub tells: bool,
    tasks: bool,
    accidents: VecDeque<Accident>,
    now: Timestamp,
    object: Object,
    /// What is in the status, and so survives.
    written: Record,
    list: Vec<SnapshotState>,
    working: Option<Work>,
    pub made: usize,
    pub seen: Seen,
    ended: Option<Step>,
}

pub fn any_world() -> impl Strategy<Value = World> {
    let accident = prop_oneof![
        2 => Just(Accident::None),
        1 => Just(Accident::Refused),
        1 => Just(Accident::Dropped),
        2 => Just(Accident::AnswerLost),
        1 => Just(Accident::DiesBefore),
        2 => Just(Accident::DiesAfter),
    ];
    let accidents = proptest::collection::vec_deque(accident, 0..8);
    let kind = (any::<bool>(), any::<bool>(), any::<bool>());
    (kind, accidents).prop_map(|((identity, tells, tasks), accidents)| World {
        identity,
        tells: tells || identity,
        tasks,
        accidents,
        now: at(1000),
        object: Object::default(),
        written: Record::default(),
        list: vec![named("other")],
        working: None,
        made: 0,
        seen: Seen::default(),
        ended: None,
    })
}

/// The memory of one pass.
struct Pass {
    record: Record,
    intent: Intent,
    looked: bool,
    gone: bool,
}

enum Flow {
    GoesOn,
    Ends,
    Dies,
}

impl World {
    pub fn ours(&self) -> Vec<&SnapshotState> {
        self.list.iter().filter(|s| s.name == NAME).collect()
    }

    pub fn ready(&self) -> bool {
        self.ended == Some(Step::Done(Done::Ready)) && !self.ours().is_empty()
    }

    /// A provider without identities and without a list cannot be asked what became of a lost request.
    pub fn may_leave(&self) -> bool {
        !self.identity && (!self.tells || self.made > 1)
    }

    pub fn take(&mut self) -> Result<(), TestCaseError> {
        self.run(|step| matches!(step, Step::Done(_)))
    }

    pub fn take_some(&mut self, passes: usize) {
        for _ in 0..passes {
            self.pass();
        }
    }

    pub fn delete(&mut self) -> Result<(), TestCaseError> {
        self.object.life = Life::Deleting;
        self.run(|step| matches!(step, Step::Release(_) | Step::Stop(_) | Step::Done(_)))
    }

    fn run(&mut self, is_end: impl Fn(&Step) -> bool) -> Result<(), TestCaseError> {
        for _ in 0..MOST_PASSES {
            self.pass();
            if self.ended.as_ref().is_some_and(&is_end) {
                return Ok(());
            }
        }
        Err(TestCaseError::fail(format!("it never ends: {self:?}")))
    }

    fn pass(&mut self) {
        self.ended = None;
        let mut pass = Pass {
            record: self.written.clone(),
            intent: Intent::Earlier,
            looked: false,
            gone: false,
        };
        for _ in 0..16 {
            let step = self.plan(&pass);
            match self.act(&mut pass, &step) {
                Flow::GoesOn => {}
                Flow::Dies => {
                    self.seen.crashed += 1;
                    return;
                }
                Flow::Ends => {
                    self.written = pass.record;
                    self.ended = Some(step);
                    return;
                }
            }
        }
    }

    fn plan(&self, pass: &Pass) -> Step {
        let (features, capabilities) = (features(self.identity), able());
        next_step(&Facts {
            now: self.now,
            object: self.object,
            name: NAME,
            record: &pass.record,
            desired: Ok(&Desired::default()),
            vm: VmFacts::Made,
            hold: polyvirt_plan::snapshot::schedule::Hold::Free,
            maker: polyvirt_plan::snapshot::Maker::User,
            provider: ProviderFacts::Ready {
                features: &features,
                capabilities: &capabilities,
            },
            observed: match (pass.gone, pass.looked, self.tells) {
                (true, ..) => Observed::Gone,
                (_, false, _) => Observed::Unknown,
                (_, true, true) => Observed::Listed(&self.list),
                (_, true, false) => Observed::Untold,
            },
            intent: pass.intent,
        })
    }

    fn act(&mut self, pass: &mut Pass, step: &Step) -> Flow {
        match step {
            Step::Claim => self.object.claim = Claim::Held,
            Step::RecordIntent => self.record_intent(pass),
            Step::Look => pass.looked = true,
            Step::CheckTask(_) => self.task_ends(pass),
            Step::Create => return self.create(pass),
            Step::Delete => return self.remove(pass),
            Step::Wait(wait) => {
                let pause = wait.recheck.unwrap_or_default();
                self.now = self.now.checked_add(pause).expect("in range");
                return Flow::Ends;
            }
            Step::Done(Done::Ready) => {
                pass.record.completed = pass.record.completed.or(Some(self.now));
                pass.record.operation = None;
                return Flow::Ends;
            }
            _ => return Flow::Ends,
        }
        Flow::GoesOn
    }

    fn record_intent(&mut self, pass: &mut Pass) {
        pass.record.vm = Some(place());
        pass.record.operation = Some(self.operation(OperationKind::Create, None));
        pass.intent = Intent::JustWritten;
        self.written = pass.record.clone();
    }

    fn operation(&self, kind: OperationKind, task: Option<TaskId>) -> Operation {
        Operation {
            kind,
            task,
            since: self.now,
            attempt: 0,
        }
    }

    fn task_ends(&mut self, pass: &mut Pass) {
        self.finish_work();
        let ended = pass.record.operation.take().expect("a task");
        pass.gone = ended.kind == OperationKind::Delete && !self.tells;
        pass.looked = false;
    }

    fn finish_work(&mut self) {
        match self.working.take() {
            Some(Work::Take(snapshot)) => self.list.push(snapshot),
            Some(Work::Delete) => self.list.retain(|s| s.name != NAME),
            None => {}
        }
    }

    fn accident(&mut self) -> Accident {
        self.accidents.pop_front().unwrap_or(Accident::None)
    }

    /// One of the same name is the same where the hypervisor knows identities.
    fn take_one(&mut self) -> (SnapshotState, Option<TaskId>) {
        let known = self.list.iter().find(|s| s.name == NAME).cloned();
        if let Some(known) = known.filter(|_| self.identity) {
            return (known, None);
        }
        if let Some(Work::Take(known)) = self.working.clone().filter(|_| self.identity) {
            return (known, Some("t".into()));
        }
        self.finish_work();
        self.made += 1;
        let taken = SnapshotState {
            id: format!("s-{}", self.made).as_str().into(),
            ..named(NAME)
        };
        if !self.tasks {
            self.list.push(taken.clone());
            return (taken, None);
        }
        self.working = Some(Work::Take(taken.clone()));
        (taken, Some("t".into()))
    }

    fn create(&mut self, pass: &mut Pass) -> Flow {
        let accident = self.accident();
        if accident == Accident::DiesBefore {
            return Flow::Dies;
        }
        if matches!(accident, Accident::Refused | Accident::Dropped) {
            return self.create_failed(pass, accident);
        }
        let (taken, task) = self.take_one();
        match accident {
            Accident::AnswerLost => return self.create_failed(pass, accident),
            Accident::DiesAfter => return Flow::Dies,
            _ => {}
        }
        pass.record.id = Some(taken.id);
        pass.looked = false;
        pass.record.operation = task.map(|task| self.operation(OperationKind::Create, Some(task)));
        self.written = pass.record.clone();
        Flow::GoesOn
    }

    fn create_failed(&mut self, pass: &mut Pass, accident: Accident) -> Flow {
        let open = accident != Accident::Refused;
        self.seen.failed += 1;
        self.seen.lost += usize::from(accident == Accident::AnswerLost);
        let alive = self.object.life == Life::Alive;
        if !(open || (self.identity && alive)) {
            pass.record.operation = None;
        }
        self.written = pass.record.clone();
        // Time passes until the next try, and the hypervisor goes on with its work.
        self.finish_work();
        self.now = self
            .now
            .checked_add(jiff::SignedDuration::from_secs(60))
            .expect("in range");
        Flow::Dies
    }

    fn remove(&mut self, pass: &mut Pass) -> Flow {
        let accident = self.accident();
        if matches!(
            accident,
            Accident::DiesBefore | Accident::Refused | Accident::Dropped
        ) {
            return Flow::Dies;
        }
        self.finish_work();
        let there = self.list.iter().any(|s| s.name == NAME);
        if there && self.tasks {
            self.working = Some(Work::Delete);
        } else {
            self.list.retain(|s| s.name != NAME);
        }
        if matches!(accident, Accident::AnswerLost | Accident::DiesAfter) {
            return Flow::Dies;
        }
        let task: Option<TaskId> = (there && self.tasks).then(|| "d".into());
        pass.gone = !there || (task.is_none() && !self.tells);
        pass.looked = false;
        pass.record.operation = task.map(|task| self.operation(OperationKind::Delete, Some(task)));
        Flow::GoesOn
    }
}
