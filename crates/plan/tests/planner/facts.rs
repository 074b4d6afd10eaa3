//! Any facts at all, also such as no history leads to.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::model::{
    ClassSpec, CreateVm, DiskState, NicState, Owner, PowerState, VmState,
};
use polyvirt_contract::{Capabilities, Extension, Features};
use polyvirt_plan::virtual_machine::hooks::{Action, Hook, HookFailurePolicy, Hooks};
use polyvirt_plan::virtual_machine::{
    Applied, Attention, Claim, DeletionPolicy, Desired, DesiredPower, Facts, Force, ImageReadiness,
    Intent, Life, Object, Observed, OnDrift, Operation, OperationKind, Origin, Placing,
    ProviderFacts, Record, RestartPolicy, RevertState, RevertTarget, RevertWish, Reverted, Sent,
    Shape, Step, next_step,
};
use polyvirt_plan::{Problem, Reason};
use proptest::prelude::*;

/// What the provider has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Unknown,
    Absent,
    Present,
    Stranger,
}

impl Sight {
    pub fn any() -> impl Strategy<Value = Self> {
        prop_oneof![
            Just(Self::Unknown),
            Just(Self::Absent),
            Just(Self::Present),
            Just(Self::Stranger)
        ]
    }
}

#[derive(Clone, Debug)]
pub struct Any {
    pub sight: Sight,
    pub claim: Claim,
    pub life: Life,
    pub attention: Attention,
    pub force: Force,
    pub origin: Origin,
    pub intent: Intent,
    pub desired: Desired,
    pub record: Record,
    pub revert: Option<RevertWish>,
    pub vm: VmState,
    pub features: Features,
    pub capabilities: Capabilities,
}

impl Any {
    pub fn plan(&self) -> Step {
        self.plan_with(Placing::NotOurs)
    }

    pub fn plan_with(&self, placing: Placing) -> Step {
        next_step(&self.facts(placing))
    }

    /// With a change that was sent, and a provider that is heard since then.
    pub fn plan_after(&self, sent: &Sent, heard: Timestamp) -> Step {
        next_step(&Facts {
            sent: Some(sent),
            connected: Some(heard),
            ..self.facts(Placing::NotOurs)
        })
    }

    fn facts(&self, placing: Placing) -> Facts<'_> {
        Facts {
            now: at(1000),
            object: Object {
                claim: self.claim,
                life: self.life,
                attention: self.attention,
                force: self.force,
                reboot: "",
                origin: self.origin,
            },
            record: &self.record,
            desired: Ok(&self.desired),
            provider: ProviderFacts::Ready {
                features: &self.features,
                capabilities: &self.capabilities,
            },
            observed: match self.sight {
                Sight::Unknown => Observed::Unknown,
                Sight::Absent => Observed::Absent,
                Sight::Present => Observed::Present(&self.vm),
                Sight::Stranger => Observed::Stranger(&self.vm),
            },
            asked: at(1000),
            connected: None,
            sent: None,
            intent: self.intent,
            revert: self.revert.as_ref(),
            placing,
            moving: None,
            keeper: None,
        }
    }

    pub fn identity_known(&self) -> bool {
        self.features.has(Extension::Identity)
    }

    pub fn was_never_created(&self) -> bool {
        !self.identity_known() && self.record.id.is_none() && self.intent == Intent::Missing
    }
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

pub fn features(identity: bool) -> Features {
    let identity = identity.then_some(Extension::Identity);
    let extensions = identity.into_iter().chain([Extension::Pause]);
    Features {
        extensions: extensions.collect(),
        ..Features::default()
    }
}

pub fn power() -> impl Strategy<Value = DesiredPower> {
    prop_oneof![
        Just(DesiredPower::On),
        Just(DesiredPower::Off),
        Just(DesiredPower::OffGraceful),
        Just(DesiredPower::Paused)
    ]
}

fn on_drift() -> impl Strategy<Value = OnDrift> {
    prop_oneof![Just(OnDrift::Report), Just(OnDrift::Correct)]
}

fn image() -> impl Strategy<Value = ImageReadiness> {
    prop_oneof![
        3 => Just(ImageReadiness::Ready),
        1 => Just(ImageReadiness::Waiting("on its way".into())),
        1 => Just(ImageReadiness::Failed("no route".into())),
    ]
}

pub fn desired() -> impl Strategy<Value = Desired> {
    let policies = (on_drift(), on_drift(), on_drift(), any::<bool>());
    let parts = (1..3_u32, power(), policies, image(), hooks());
    parts.prop_map(|(cpu, power, (p, s, d, restart), image, hooks)| Desired {
        vm: CreateVm {
            name: "web".into(),
            class: ClassSpec {
                cpu,
                memory_mib: 512,
                ..ClassSpec::default()
            },
            ..CreateVm::default()
        },
        power,
        graceful_timeout: Duration::from_secs(60),
        on_power_drift: p,
        on_size_drift: s,
        on_deletion: d,
        restart: if restart {
            RestartPolicy::WhenNeeded
        } else {
            RestartPolicy::Never
        },
        image,
        hooks,
    })
}

fn hooks() -> impl Strategy<Value = Hooks> {
    let hook = || {
        proptest::option::of(Just(Hook {
            action: Action::Exec(vec!["true".into()]),
            timeout: Duration::from_secs(30),
            on_failure: HookFailurePolicy::Fail,
        }))
    };
    (hook(), hook(), hook()).prop_map(|(pre_start, post_start, pre_stop)| Hooks {
        generation: None,
        pre_start,
        post_start,
        pre_stop,
    })
}

pub fn vm_state() -> impl Strategy<Value = VmState> {
    let power = prop_oneof![
        Just(PowerState::On),
        Just(PowerState::Off),
        Just(PowerState::Suspended)
    ];
    (1..3_u32, power, any::<bool>()).prop_map(|(cpu, power, tells)| {
        let owner = Owner {
            identity: "me".into(),
            namespace: "team".into(),
            name: "web".into(),
        };
        VmState {
            id: "vm-1".into(),
            name: "web".into(),
            owner: Some(owner),
            revision: 1,
            power,
            cpu: if tells { cpu } else { 0 },
            memory_mib: if tells { 512 } else { 0 },
            disks: tells.then(Vec::<DiskState>::new),
            nics: tells.then(Vec::<NicState>::new),
            ..VmState::default()
        }
    })
}

fn shape() -> impl Strategy<Value = Option<Shape>> {
    proptest::option::of((1..3_u32).prop_map(|cpu| Shape {
        cpu,
        memory_mib: 512,
        ..Shape::default()
    }))
}

fn operation() -> impl Strategy<Value = Option<Operation>> {
    let kind = prop_oneof![
        Just(OperationKind::Create),
        Just(OperationKind::GracefulStop),
        Just(OperationKind::Delete),
        Just(OperationKind::Reconfigure),
    ];
    proptest::option::of(
        (kind, any::<bool>(), 900..1000_i64).prop_map(|(kind, task, since)| Operation {
            kind,
            task: task.then(|| "t".into()),
            since: at(since),
            attempt: 0,
        }),
    )
}

pub fn record() -> impl Strategy<Value = Record> {
    let applied = (
        proptest::option::of(1..3_i64),
        proptest::option::of(power()),
        shape(),
    );
    (any::<bool>(), applied, operation()).prop_map(|(id, (reached, power, shape), operation)| {
        Record {
            id: id.then(|| "vm-1".into()),
            identity: Some("me".into()),
            applied: Applied {
                reached,
                power,
                shape,
                options: None,
                ..Applied::default()
            },
            operation,
            ..Record::default()
        }
    })
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![
        2 => Just(Life::Alive),
        1 => Just(Life::Deleting(DeletionPolicy::Delete)),
        1 => Just(Life::Deleting(DeletionPolicy::Retain)),
    ]
}

fn intent() -> impl Strategy<Value = Intent> {
    prop_oneof![
        Just(Intent::Missing),
        Just(Intent::JustWritten(at(1000))),
        (0..1000_i64).prop_map(|s| Intent::Older(at(s)))
    ]
}

/// Few names, so that what is wished is often what was done.
fn revert() -> impl Strategy<Value = (Option<RevertWish>, Option<Reverted>)> {
    let name = || prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
    let target = prop_oneof![
        3 => name().prop_map(|uid| Ok(RevertTarget { uid, id: "s-1".into() })),
        1 => Just(Err(Problem::new(Reason::SnapshotNotReady, "spec", "Not yet"))),
    ];
    let wish = (name(), target).prop_map(|(name, target)| RevertWish { name, target });
    let state = prop_oneof![
        Just(RevertState::Begun),
        Just(RevertState::Done),
        Just(RevertState::Refused)
    ];
    let last = (name(), name(), state).prop_map(|(name, uid, state)| Reverted {
        name,
        uid,
        state,
        message: None,
    });
    (proptest::option::of(wish), proptest::option::of(last))
}

pub fn any_facts(sight: impl Strategy<Value = Sight>) -> impl Strategy<Value = Any> {
    let claim =
        prop_oneof![1 => Just(Claim::Missing), 4 => Just(Claim::Held), 1 => Just(Claim::Disputed)];
    let origin = prop_oneof![3 => Just(Origin::Created), 1 => Just(Origin::Adopted)];
    let force = prop_oneof![3 => Just(Force::No), 1 => Just(Force::Yes)];
    let object = (claim, life(), force, origin, intent());
    (
        sight,
        object,
        desired(),
        record(),
        vm_state(),
        any::<bool>(),
        revert(),
    )
        .prop_map(
            |(
                sight,
                (claim, life, force, origin, intent),
                desired,
                record,
                vm,
                identity,
                (wish, last),
            )| Any {
                sight,
                claim,
                life,
                attention: Attention::Active,
                force,
                origin,
                intent,
                desired,
                record: Record {
                    revert: last,
                    ..record
                },
                revert: wish,
                vm,
                features: features(identity),
                capabilities: Capabilities::default(),
            },
        )
}
