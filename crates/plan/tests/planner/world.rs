//! A small world in which steps have their effect at once, and in which the manager may have died anywhere before.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::model::{Owner, PowerOp, PowerState, Stage, VmState};
use polyvirt_contract::{Capabilities, Features};
use polyvirt_plan::virtual_machine::hooks::{HookState, Moment, Run};
use polyvirt_plan::virtual_machine::size::power_matches;
use polyvirt_plan::virtual_machine::{
    Applied, Attention, Claim, DeletionPolicy, Desired, DesiredPower, Done, Facts, Force, Intent,
    Life, Object, Observed, Operation, OperationKind, Origin, Placing, ProviderFacts, Record, Step,
    next_step,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::facts::{at, desired, features, record, vm_state};

/// More steps than any sane way has.
const MOST_STEPS: usize = 40;

#[derive(Clone, Debug)]
pub struct World {
    now: Timestamp,
    claim: Claim,
    life: Life,
    intent: Intent,
    desired: Desired,
    record: Record,
    vm: Option<VmState>,
    looked: bool,
    placing: Placing,
    /// A running VM takes a new size at its next start only.
    cold: bool,
    features: Features,
    capabilities: Capabilities,
    end: Option<Step>,
    /// Hooks that were run.
    pub hooks: Vec<Moment>,
    pub created: usize,
    /// VMs that were gone before we began.
    pub lost: usize,
    /// Creates that will leave the VM half created.
    faults: u32,
    /// Creates of a VM that was there, half created.
    pub resumed: usize,
}

pub fn any_world() -> impl Strategy<Value = World> {
    let life =
        prop_oneof![3 => Just(Life::Alive), 1 => Just(Life::Deleting(DeletionPolicy::Delete))];
    let vm = proptest::option::of(vm_state());
    (
        desired(),
        record(),
        vm,
        life,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        0..3_u32,
    )
        .prop_map(
            |(desired, mut record, mut vm, life, identity, claimed, cold, faults)| {
                if let Some(vm) = vm.as_mut().filter(|_| !identity) {
                    // Who does not say whose a VM is does not say either how far it is.
                    vm.stage = Stage::Whole;
                }
                // A record of a VM is written after its claim, and a task only with its VM.
                let claim = if claimed || vm.is_some() {
                    Claim::Held
                } else {
                    Claim::Missing
                };
                if claim == Claim::Missing {
                    record = Record::default();
                }
                if vm.is_some() {
                    record.id = Some("vm-1".into());
                }
                let lost = usize::from(vm.is_none() && record.id.is_some());
                World {
                    now: at(1000),
                    claim,
                    life,
                    intent: Intent::Missing,
                    desired,
                    record,
                    vm,
                    looked: false,
                    placing: if cold {
                        Placing::Open
                    } else {
                        Placing::NotOurs
                    },
                    cold,
                    features: features(identity),
                    capabilities: Capabilities::default(),
                    end: None,
                    hooks: Vec::new(),
                    created: 0,
                    lost,
                    faults: if identity { faults } else { 0 },
                    resumed: 0,
                }
            },
        )
}

impl World {
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            now: self.now,
            object: Object {
                claim: self.claim,
                life: self.life,
                attention: Attention::Active,
                force: Force::No,
                reboot: "",
                origin: Origin::Created,
            },
            record: &self.record,
            desired: Ok(&self.desired),
            provider: ProviderFacts::Ready {
                features: &self.features,
                capabilities: &self.capabilities,
            },
            observed: match (&self.vm, self.looked) {
                (_, false) => Observed::Unknown,
                (None, true) => Observed::Absent,
                (Some(vm), true) => Observed::Present(vm),
            },
            asked: self.now,
            connected: None,
            sent: None,
            intent: self.intent,
            revert: None,
            placing: self.placing,
            moving: None,
            keeper: None,
        }
    }

    pub fn run_to_the_end(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..MOST_STEPS {
            let step = next_step(&self.facts());
            if self.act(&step) == Flow::Ends {
                self.end = Some(step);
                return Ok(());
            }
        }
        Err(TestCaseError::fail(format!(
            "no end after {MOST_STEPS} steps: {self:?}"
        )))
    }

    fn act(&mut self, step: &Step) -> Flow {
        match step {
            Step::Claim => self.claim = Claim::Held,
            Step::Look => self.looked = true,
            Step::RecordIntent => {
                self.intent = Intent::JustWritten(self.now);
                self.record.id = None;
                self.record.applied = Applied::default();
            }
            Step::RecordChange(OperationKind::Reconfigure) => self.record.applied.shape = None,
            Step::RecordChange(_) => self.record.applied.power = None,
            Step::CheckTask(_) => self.record.operation = None,
            Step::Place => self.placing = Placing::Decided,
            Step::Create => self.create(),
            Step::Power(request) => self.power(request.op),
            Step::Reconfigure => self.reconfigure(),
            Step::Delete => self.vm = None,
            Step::Wait(wait) => return self.wait(wait.recheck),
            Step::BeginHook(_) | Step::OweHook | Step::RunHook(_) => self.hook(step),
            Step::Revert(_) | Step::Done(_) | Step::Release(_) | Step::Stop(_) => {
                return Flow::Ends;
            }
        }
        Flow::GoesOn
    }

    /// What is written down, and hooks that end well.
    fn hook(&mut self, step: &Step) {
        let runs = &mut self.record.hooks;
        match step {
            Step::BeginHook(moment) => {
                let run = Run::begin(runs.at(*moment), None, self.now);
                runs.set(*moment, Some(run));
            }
            Step::RunHook(moment) => {
                self.hooks.push(*moment);
                let run = runs
                    .at(*moment)
                    .cloned()
                    .expect("only what was begun is run");
                runs.set(*moment, Some(run.done()));
            }
            _ => runs.post_start = Some(Run::due(None, self.now)),
        }
    }

    /// Time passes where that is what is waited for; everything else comes from outside and is an end here.
    fn wait(&mut self, recheck: Option<Duration>) -> Flow {
        let Some(pause) = recheck else {
            return Flow::Ends;
        };
        self.now = self.now.checked_add(pause).expect("in range");
        Flow::GoesOn
    }

    fn create(&mut self) {
        match &self.vm {
            Some(vm) => {
                assert_eq!(vm.stage, Stage::Creating, "{self:?}");
                self.resumed += 1;
            }
            None => self.created += 1,
        }
        if self.faults > 0 {
            self.faults -= 1;
            return self.leave_half();
        }
        self.record.id = Some("vm-1".into());
        self.record.applied = Applied {
            shape: Some(self.desired.shape()),
            ..Applied::default()
        };
        self.vm = Some(VmState {
            id: "vm-1".into(),
            name: "web".into(),
            revision: 1,
            cpu: self.desired.vm.class.cpu,
            memory_mib: self.desired.vm.class.memory_mib,
            power: PowerState::Off,
            ..VmState::default()
        });
    }

    /// The provider takes the name and fails.
    fn leave_half(&mut self) {
        let owner = Owner {
            identity: "me".into(),
            namespace: "team".into(),
            name: "web".into(),
        };
        self.vm = Some(VmState {
            id: "vm-1".into(),
            name: "web".into(),
            owner: Some(owner),
            stage: Stage::Creating,
            ..VmState::default()
        });
    }

    /// What comes first has been done: nothing is started or stopped before its hook.
    fn check_hooks(&self, op: PowerOp) {
        let paused = |vm: &VmState| vm.power == PowerState::Suspended;
        if self.vm.as_ref().is_some_and(paused) {
            return;
        }
        let first = match op {
            PowerOp::On => Moment::PreStart,
            PowerOp::Off | PowerOp::ShutdownGraceful { .. } => Moment::PreStop,
            PowerOp::Reboot | PowerOp::Pause => return,
        };
        let run = self.record.hooks.at(first);
        let done = run.is_some_and(|run| run.state == HookState::Done);
        assert!(
            done || self.desired.hooks.at(first).is_none(),
            "{first:?}: {self:?}"
        );
        let owed = self.record.hooks.post_start.is_some();
        assert!(op != PowerOp::On || owed || self.desired.hooks.post_start.is_none());
    }

    fn power(&mut self, op: PowerOp) {
        self.check_hooks(op);
        let on = matches!(op, PowerOp::On | PowerOp::Reboot);
        let vm = self.vm.as_mut().expect("only a VM that is there has power");
        vm.revision += 1;
        if matches!(op, PowerOp::ShutdownGraceful { .. }) {
            // The guest ignores it: the deadline has to help.
            self.record.operation = Some(Operation {
                kind: OperationKind::GracefulStop,
                task: None,
                since: self.now,
                attempt: 0,
            });
            return;
        }
        if !vm.restart_required.is_empty() {
            vm.restart_required.clear();
            vm.cpu = self.desired.vm.class.cpu;
        }
        assert!(
            op != PowerOp::Pause || vm.power == PowerState::On,
            "only a VM that runs is paused"
        );
        vm.power = match op {
            PowerOp::Pause => PowerState::Suspended,
            _ if on => PowerState::On,
            _ => PowerState::Off,
        };
        self.record.operation = None;
        if power_matches(self.desired.power, vm.power) == Some(true) {
            self.record.applied.power = Some(self.desired.power);
        }
    }

    fn reconfigure(&mut self) {
        let shape = self.desired.shape();
        let vm = self
            .vm
            .as_mut()
            .expect("only a VM that is there has a size");
        vm.revision += 1;
        if self.cold && vm.power == PowerState::On && vm.cpu != shape.cpu {
            vm.restart_required = vec!["spec.resources.cpu".into()];
        } else if vm.cpu != 0 {
            (vm.cpu, vm.memory_mib) = (shape.cpu, shape.memory_mib);
        }
        self.record.applied.shape = Some(shape);
    }

    /// What the end must look like.
    pub fn check_end(&self) -> Result<(), TestCaseError> {
        match &self.end {
            Some(Step::Done(Done::Converged)) => self.check_as_declared(),
            Some(Step::Release(_)) => {
                prop_assert!(self.vm.is_none(), "released with its VM: {self:?}");
                Ok(())
            }
            Some(Step::Done(Done::NothingToRelease)) => {
                prop_assert_eq!(self.claim, Claim::Missing);
                Ok(())
            }
            Some(_) => Ok(()),
            None => Err(TestCaseError::fail("it has no end")),
        }
    }

    fn check_as_declared(&self) -> Result<(), TestCaseError> {
        let vm = self
            .vm
            .as_ref()
            .ok_or_else(|| TestCaseError::fail("as declared, but absent"))?;
        let wanted = match self.desired.power {
            DesiredPower::On => PowerState::On,
            DesiredPower::Paused => PowerState::Suspended,
            DesiredPower::Off | DesiredPower::OffGraceful => PowerState::Off,
        };
        prop_assert_eq!(vm.power, wanted);
        prop_assert_eq!(vm.stage, Stage::Whole);
        prop_assert!(vm.cpu == 0 || vm.cpu == self.desired.vm.class.cpu);
        Ok(())
    }

    pub fn end_word(&self) -> &'static str {
        match &self.end {
            Some(Step::Done(Done::Converged)) => "as declared",
            Some(Step::Done(Done::Drifted(_))) => "drifted",
            Some(Step::Done(Done::RestartNeeded(_))) => "restart needed",
            Some(Step::Release(_)) => "released",
            Some(Step::Stop(_)) => "stopped",
            _ => "other",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    GoesOn,
    Ends,
}
