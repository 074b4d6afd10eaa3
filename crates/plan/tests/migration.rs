//! The planner of moves: the table of its states, and a small world in which everything dies.
#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_api::infra::MoveResult;
use polyvirt_contract::model::{MigrateVm, MigrationMode, PowerState, VmState};
use polyvirt_contract::{
    Capabilities, ErrorKind, Extension, Features, ProviderError, RequestId, TaskId,
};
use polyvirt_plan::migration::{
    Desired, Done, End, Facts, Intent, Object, Observed, Quiet, Record, Release, Step, Stop,
    VmFacts, WaitFor, Wish, next_step,
};
use polyvirt_plan::snapshot::{Life, VmPlace};
use polyvirt_plan::virtual_machine::{Attention, Claim, Force, ProviderFacts};
use proptest::prelude::*;

const REQUEST: &str = "uid-1";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn place() -> VmPlace {
    VmPlace {
        provider_namespace: "lab".into(),
        provider: "prov".into(),
        id: "vm-1".into(),
        identity: "me".into(),
    }
}

fn vm_on(host: &str) -> VmState {
    VmState {
        id: "vm-1".into(),
        host: host.to_owned(),
        power: PowerState::On,
        ..VmState::default()
    }
}

fn begun() -> Record {
    Record {
        vm: Some(place()),
        source: "a".into(),
        target: "b".into(),
        begun: Some(at(100)),
        ..Record::default()
    }
}

struct Case {
    now: i64,
    object: Object,
    record: Record,
    desired: Desired,
    vm: VmFacts,
    rival: Option<&'static str>,
    reachable: bool,
    state: Option<VmState>,
    looked: bool,
    intent: Intent,
    failure: Option<ProviderError>,
    quiet: Quiet,
    features: Features,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            now: 200,
            object: Object {
                claim: Claim::Held,
                life: Life::Alive,
                attention: Attention::Active,
                force: Force::No,
                wish: Wish::Move,
            },
            record: Record::default(),
            desired: Desired {
                request: MigrateVm {
                    target_host: "b".into(),
                    mode: MigrationMode::Live,
                    request: RequestId::non_empty(REQUEST),
                    ..MigrateVm::default()
                },
                timeout: Duration::from_secs(3600),
                pause: Duration::from_secs(10),
                growth: 2,
                ..Desired::default()
            },
            vm: VmFacts::Made,
            rival: None,
            reachable: true,
            state: Some(vm_on("a")),
            looked: true,
            intent: Intent::Earlier,
            failure: None,
            quiet: Quiet::Unknown,
            features: Features {
                extensions: [Extension::Identity, Extension::Migrate].into(),
                ..Features::default()
            },
        }
    }
}

impl Case {
    fn open() -> Self {
        Self {
            record: begun(),
            ..Self::default()
        }
    }

    fn plan(&self) -> Step {
        let capabilities = Capabilities::default();
        next_step(&Facts {
            now: at(self.now),
            object: self.object,
            record: &self.record,
            desired: Ok(&self.desired),
            vm: self.vm,
            rival: self.rival,
            provider: if self.reachable {
                ProviderFacts::Ready {
                    features: &self.features,
                    capabilities: &capabilities,
                }
            } else {
                ProviderFacts::Unavailable
            },
            connected: Some(at(0)),
            observed: match &self.state {
                _ if !self.looked => Observed::Unknown,
                Some(state) => Observed::Vm(state),
                None => Observed::NoVm,
            },
            intent: self.intent,
            failure: self.failure.as_ref(),
            quiet: self.quiet,
        })
    }
}

fn waits_for(step: &Step) -> Option<&WaitFor> {
    match step {
        Step::Wait(wait) => Some(&wait.on),
        _ => None,
    }
}

#[test]
fn it_begins_in_order_and_writes_down_before_it_sends() {
    let mut case = Case::default();
    case.object.claim = Claim::Missing;
    assert_eq!(case.plan(), Step::Claim);
    case.object.claim = Claim::Held;
    assert_eq!(case.plan(), Step::RecordIntent);
    case.record = begun();
    case.looked = false;
    assert_eq!(case.plan(), Step::Look);
    case.looked = true;
    assert_eq!(case.plan(), Step::Send);
    case.record.task = Some("t".into());
    assert_eq!(case.plan(), Step::CheckTask("t".into()));
}

#[test]
fn what_keeps_it_from_beginning_is_waited_for() {
    let waits = |case: &Case| waits_for(&case.plan()).cloned();
    for (vm, on) in [
        (VmFacts::Missing, WaitFor::VmMissing),
        (VmFacts::NotMade, WaitFor::VmNotMade),
        (VmFacts::Leaving, WaitFor::VmLeaving),
        (VmFacts::Busy, WaitFor::VmBusy),
    ] {
        let case = Case {
            vm,
            ..Case::default()
        };
        assert_eq!(waits(&case), Some(on));
    }
    let mut off = Case::default();
    off.state.as_mut().expect("a VM").power = PowerState::Off;
    assert_eq!(waits(&off), Some(WaitFor::VmOff));
    off.desired.request.mode = MigrationMode::Cold;
    assert_eq!(off.plan(), Step::RecordIntent);
    let second = Case {
        rival: Some("first"),
        ..Case::default()
    };
    assert_eq!(waits(&second), Some(WaitFor::Behind("first".into())));
    let away = Case {
        reachable: false,
        ..Case::default()
    };
    assert_eq!(waits(&away), Some(WaitFor::ProviderUnavailable));
}

#[test]
fn a_provider_that_cannot_move_says_so() {
    let mut case = Case::default();
    case.features.extensions.clear();
    assert!(matches!(case.plan(), Step::Stop(_)));
}

#[test]
fn a_vm_that_is_there_needs_nothing() {
    let case = Case {
        state: Some(vm_on("b")),
        ..Case::default()
    };
    assert_eq!(case.plan(), Step::Finish(End::WasThere));
}

#[test]
fn of_two_that_begin_at_once_whoever_sees_the_other_takes_it_back() {
    let mut case = Case {
        intent: Intent::JustWritten,
        rival: Some("other"),
        ..Case::open()
    };
    assert_eq!(case.plan(), Step::Yield("other".into()));
    case.intent = Intent::Earlier;
    assert_eq!(case.plan(), Step::Send, "one that has sent goes on");
}

#[test]
fn only_the_vm_tells_how_it_ended() {
    let broken = ProviderError::new(ErrorKind::Internal, "Broken");
    let mut case = Case {
        failure: Some(broken.clone()),
        state: Some(vm_on("b")),
        ..Case::open()
    };
    assert_eq!(
        case.plan(),
        Step::Finish(End::Moved),
        "a task that failed has moved it"
    );
    case.state = Some(vm_on("a"));
    assert_eq!(case.plan(), Step::Finish(End::Failed(broken.clone())));
    case.desired.retries = 1;
    assert_eq!(case.plan(), Step::Retry(broken));
    case.state = None;
    assert_eq!(case.plan(), Step::Finish(End::VmGone));
}

#[test]
fn what_can_only_fail_again_is_not_tried_again() {
    let mut case = Case::open();
    case.desired.retries = 5;
    for kind in [
        ErrorKind::Invalid,
        ErrorKind::Unsupported,
        ErrorKind::Cancelled,
    ] {
        let error = ProviderError::new(kind, "No");
        case.failure = Some(error.clone());
        assert_eq!(case.plan(), Step::Finish(End::Failed(error)));
    }
}

#[test]
fn a_pause_grows_with_each_try() {
    let mut case = Case::open();
    case.record.retries = 2;
    case.record.failed = Some(at(190));
    let Step::Wait(wait) = case.plan() else {
        panic!("{:?}", case.plan());
    };
    assert_eq!(
        wait.recheck,
        Some(Duration::from_secs(10)),
        "20 s of which 10 are over"
    );
    case.now = 210;
    assert_eq!(case.plan(), Step::Send);
}

#[test]
fn it_is_stopped_once_and_its_end_awaited() {
    let mut case = Case::open();
    case.record.task = Some("t".into());
    case.object.wish = Wish::Cancel;
    assert_eq!(case.plan(), Step::Cancel(Stop::Asked));
    case.record.cancelled = Some(at(150));
    assert_eq!(case.plan(), Step::CheckTask("t".into()));
    case.record.task = None;
    assert_eq!(
        case.plan(),
        Step::Cancel(Stop::Asked),
        "is it really not at it?"
    );
    case.quiet = Quiet::Told;
    assert_eq!(case.plan(), Step::Finish(End::Stopped(Stop::Asked)));
    case.state = Some(vm_on("b"));
    assert_eq!(
        case.plan(),
        Step::Finish(End::Moved),
        "it was too late to stop"
    );
}

#[test]
fn a_request_that_may_still_arrive_is_waited_for() {
    let mut case = Case {
        quiet: Quiet::Told,
        now: 102,
        ..Case::open()
    };
    case.object.wish = Wish::Cancel;
    assert_eq!(waits_for(&case.plan()), Some(&WaitFor::LateRequest));
    case.now = 106;
    assert_eq!(case.plan(), Step::Finish(End::Stopped(Stop::Asked)));
}

#[test]
fn what_stops_a_move() {
    let mut case = Case::open();
    case.record.task = Some("t".into());
    case.vm = VmFacts::Leaving;
    assert_eq!(case.plan(), Step::Cancel(Stop::VmLeaving));
    case.vm = VmFacts::Missing;
    assert_eq!(case.plan(), Step::Cancel(Stop::VmLeaving));
    case.vm = VmFacts::Busy;
    assert_eq!(case.plan(), Step::CheckTask("t".into()));
    case.now = 100 + 3600;
    assert_eq!(case.plan(), Step::Cancel(Stop::TimedOut));
    case.object.life = Life::Deleting;
    assert_eq!(case.plan(), Step::Cancel(Stop::Deleted));
    case.object.force = Force::Yes;
    assert_eq!(case.plan(), Step::Release(Release::Forced));
}

#[test]
fn an_object_goes_at_once_when_nothing_is_under_way() {
    let mut case = Case::default();
    case.object.life = Life::Deleting;
    assert_eq!(case.plan(), Step::Release(Release::AtRest));
    case.record = begun();
    case.record.result = Some(MoveResult::Failed);
    assert_eq!(case.plan(), Step::Release(Release::AtRest));
    case.object.claim = Claim::Missing;
    assert_eq!(case.plan(), Step::Done(Done::NothingToRelease));
}

#[test]
fn what_is_over_is_over() {
    let mut case = Case::open();
    case.record.result = Some(MoveResult::Failed);
    case.state = Some(vm_on("b"));
    assert_eq!(case.plan(), Step::Done(Done::Over(MoveResult::Failed)));
    let mut never = Case::default();
    never.object.wish = Wish::Cancel;
    assert_eq!(never.plan(), Step::Finish(End::Stopped(Stop::Asked)));
}

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
