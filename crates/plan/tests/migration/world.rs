//! A small world in which everything dies.

use std::time::Duration;

use polyvirt_api::infra::MoveResult;
use polyvirt_contract::{ErrorKind, ProviderError, RequestId, TaskId};
use polyvirt_plan::migration::{Intent, Quiet, Record, Step, Wish};
use proptest::prelude::*;

use crate::case::{Case, REQUEST, at, begun, vm_on};

/// A hypervisor with one VM, and a manager that writes down what the planner wants.
struct World {
    case: Case,
    /// What is written down: what a manager that died has left.
    durable: Record,
    host: String,
    last_request: Option<RequestId>,
    task: Option<(TaskId, u8)>,
    ended: Option<(TaskId, Option<ErrorKind>)>,
    tasks: u64,
    begun: u32,
}

/// What befalls one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Well,
    /// The manager dies after the effect and before it knows.
    Dies,
    /// The provider forgets its tasks, and what they were at.
    Forgets,
    /// The task at work fails.
    Fails,
    /// The user wants it stopped.
    Cancels,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Well),
        3 => Just(Fate::Dies),
        1 => Just(Fate::Forgets),
        1 => Just(Fate::Fails),
        1 => Just(Fate::Cancels),
    ]
}

impl World {
    fn new() -> Self {
        let mut case = Case::default();
        case.desired.retries = 2;
        case.desired.pause = Duration::ZERO;
        case.looked = false;
        Self {
            case,
            durable: Record::default(),
            host: "a".into(),
            last_request: None,
            task: None,
            ended: None,
            tasks: 0,
            begun: 0,
        }
    }

    fn reborn(&mut self) {
        self.case.record = self.durable.clone();
        self.case.looked = false;
        self.case.intent = Intent::Earlier;
        self.case.failure = None;
        self.case.quiet = Quiet::Unknown;
    }

    fn written(&mut self) {
        self.durable = self.case.record.clone();
    }

    /// The hypervisor goes on by itself.
    fn tick(&mut self) {
        self.case.now += 3;
        if let Some((id, left)) = self.task.take() {
            if left > 0 {
                self.task = Some((id, left - 1));
                return;
            }
            self.host = "b".into();
            self.last_request = RequestId::non_empty(REQUEST);
            self.ended = Some((id, None));
        }
    }

    fn befall(&mut self, fate: Fate) {
        match fate {
            Fate::Forgets => {
                self.task = None;
                self.ended = None;
            }
            Fate::Fails => {
                if let Some((id, _)) = self.task.take() {
                    self.ended = Some((id, Some(ErrorKind::Internal)));
                }
            }
            Fate::Cancels => self.case.object.wish = Wish::Cancel,
            Fate::Well | Fate::Dies => {}
        }
    }

    fn migrate(&mut self) -> Option<TaskId> {
        if self.host == "b" {
            return None;
        }
        if let Some((id, _)) = &self.task {
            return Some(id.clone());
        }
        self.tasks += 1;
        self.begun += 1;
        let id = TaskId::from(format!("t-{}", self.tasks).as_str());
        self.task = Some((id.clone(), 2));
        Some(id)
    }

    fn over(&mut self, failure: Option<ProviderError>) {
        self.case.record.task = None;
        self.case.failure = failure;
        self.case.looked = false;
    }

    fn check(&mut self, task: &TaskId) -> bool {
        if self.task.as_ref().is_some_and(|(id, _)| id == task) {
            self.written();
            return true;
        }
        match self.ended.take().filter(|(id, _)| id == task) {
            Some((_, None)) => {
                self.case.quiet = Quiet::Told;
                self.over(Some(ProviderError::new(ErrorKind::Internal, "Elsewhere")));
            }
            Some((_, Some(kind))) => {
                self.case.quiet = Quiet::Told;
                self.over(Some(ProviderError::new(kind, "Failed")));
            }
            None => self.over(None),
        }
        false
    }

    fn cancel(&mut self) -> bool {
        match self.task.take() {
            Some((id, _)) => {
                self.ended = Some((id, Some(ErrorKind::Cancelled)));
                self.case.record.cancelled = Some(at(self.case.now));
                self.written();
                self.case.record.task.is_none()
            }
            None => {
                self.case.quiet = Quiet::Told;
                self.over(None);
                false
            }
        }
    }

    /// One step. Whether the pass is over after it.
    fn act(&mut self, step: Step) -> bool {
        match step {
            Step::RecordIntent => {
                self.case.record = Record {
                    begun: Some(at(self.case.now)),
                    ..begun()
                };
                self.written();
                false
            }
            Step::Look => {
                let mut seen = vm_on(&self.host);
                seen.last_request.clone_from(&self.last_request);
                self.case.state = Some(seen);
                self.case.looked = true;
                false
            }
            Step::Send => {
                assert!(self.durable.vm.is_some(), "sent before it was written down");
                match self.migrate() {
                    Some(task) => {
                        self.case.record.task = Some(task);
                        true
                    }
                    None => {
                        self.over(Some(ProviderError::new(ErrorKind::Internal, "Elsewhere")));
                        false
                    }
                }
            }
            Step::CheckTask(task) => self.check(&task),
            Step::Cancel(_) => self.cancel(),
            Step::Retry(_) => {
                self.case.record.retries += 1;
                self.case.record.failed = Some(at(self.case.now));
                true
            }
            Step::Finish(end) => {
                self.case.record.result = Some(end.result());
                true
            }
            Step::Wait(_) | Step::Done(_) => true,
            other => panic!("{other:?} in this world"),
        }
    }

    fn pass(&mut self, fates: &mut impl Iterator<Item = Fate>) {
        self.reborn();
        for _ in 0..16 {
            let fate = fates.next().unwrap_or(Fate::Well);
            self.befall(fate);
            let step = self.case.plan();
            let over = self.act(step);
            if fate == Fate::Dies {
                return;
            }
            if over {
                self.written();
                return;
            }
        }
        panic!("a pass without an end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever dies and whenever, the move ends, and what is told of it is true.
    #[test]
    fn a_move_ends_and_its_end_is_true(fates in proptest::collection::vec(fate(), 0..60)) {
        let mut world = World::new();
        let mut fates = fates.into_iter();
        for _ in 0..200 {
            world.pass(&mut fates);
            world.tick();
            if world.durable.result.is_some() {
                break;
            }
        }
        match world.durable.result {
            Some(MoveResult::Moved) => prop_assert_eq!(&world.host, "b"),
            Some(_) => {
                prop_assert_eq!(&world.host, "a");
                prop_assert!(world.task.is_none(), "told as over while it is under way");
            }
            None => prop_assert!(false, "no end"),
        }
    }
}
