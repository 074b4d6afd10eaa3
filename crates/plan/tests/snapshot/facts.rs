//! Any facts at all, also such as no history leads to.

use jiff::Timestamp;
use polyvirt_contract::model::SnapshotState;
use polyvirt_contract::{Capabilities, Extension, Features};
use polyvirt_plan::snapshot::{
    Desired, Facts, Intent, Life, Object, Observed, Record, Step, VmFacts, VmPlace, next_step,
};
use polyvirt_plan::virtual_machine::{
    Attention, Claim, Force, Operation, OperationKind, ProviderFacts,
};
use proptest::prelude::*;

pub const NAME: &str = "nightly-12345678";

/// What the provider has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Unknown,
    Silent,
    NoVm,
    Gone,
    Untold,
    /// A list with ours in it.
    Ours,
    /// A list without.
    Others,
}

#[derive(Clone, Debug)]
pub struct Any {
    pub object: Object,
    pub record: Record,
    pub desired: Desired,
    pub vm: VmFacts,
    pub sight: Sight,
    pub identity: bool,
    pub intent: Intent,
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

pub fn features(identity: bool) -> Features {
    let extensions = identity
        .then_some(Extension::Identity)
        .into_iter()
        .collect();
    Features {
        extensions,
        ..Features::default()
    }
}

pub fn able() -> Capabilities {
    Capabilities {
        snapshots: true,
        memory_snapshots: true,
        ..Capabilities::default()
    }
}

pub fn place() -> VmPlace {
    VmPlace {
        provider_namespace: "ns".into(),
        provider: "p".into(),
        id: "vm-1".into(),
        identity: "me".into(),
    }
}

pub fn named(name: &str) -> SnapshotState {
    SnapshotState {
        id: format!("id-of-{name}").as_str().into(),
        name: name.to_owned(),
        ..SnapshotState::default()
    }
}

impl Any {
    pub fn plan(&self) -> Step {
        let (features, capabilities) = (features(self.identity), able());
        let list = match self.sight {
            Sight::Ours => vec![named("other"), named(NAME)],
            _ => vec![named("other")],
        };
        next_step(&Facts {
            now: at(1000),
            object: self.object,
            name: NAME,
            record: &self.record,
            desired: Ok(&self.desired),
            vm: self.vm,
            hold: polyvirt_plan::snapshot::schedule::Hold::Free,
            maker: polyvirt_plan::snapshot::Maker::User,
            provider: ProviderFacts::Ready {
                features: &features,
                capabilities: &capabilities,
            },
            observed: match self.sight {
                Sight::Unknown => Observed::Unknown,
                Sight::Silent => Observed::Silent,
                Sight::NoVm => Observed::NoVm,
                Sight::Gone => Observed::Gone,
                Sight::Untold => Observed::Untold,
                Sight::Ours | Sight::Others => Observed::Listed(&list),
            },
            intent: self.intent,
        })
    }
}

fn operation() -> impl Strategy<Value = Option<Operation>> {
    let kind = prop_oneof![Just(OperationKind::Create), Just(OperationKind::Delete)];
    proptest::option::of(
        (kind, any::<bool>(), 800..1000_i64).prop_map(|(kind, task, since)| Operation {
            kind,
            task: task.then(|| "t".into()),
            since: at(since),
            attempt: 0,
        }),
    )
}

fn record() -> impl Strategy<Value = Record> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (flags, operation()).prop_map(|((vm, id, completed), operation)| Record {
        vm: vm.then(place),
        id: id.then(|| format!("id-of-{NAME}").as_str().into()),
        begun: vm.then(|| at(900)),
        completed: completed.then(|| at(950)),
        operation,
    })
}

fn object() -> impl Strategy<Value = Object> {
    let claim = prop_oneof![1 => Just(Claim::Missing), 4 => Just(Claim::Held)];
    let life = prop_oneof![Just(Life::Alive), Just(Life::Deleting)];
    let force = prop_oneof![3 => Just(Force::No), 1 => Just(Force::Yes)];
    (claim, life, force).prop_map(|(claim, life, force)| Object {
        claim,
        life,
        attention: Attention::Active,
        force,
    })
}

pub fn any_facts() -> impl Strategy<Value = Any> {
    let sight = prop_oneof![
        Just(Sight::Unknown),
        Just(Sight::Silent),
        Just(Sight::NoVm),
        Just(Sight::Gone),
        Just(Sight::Untold),
        Just(Sight::Ours),
        Just(Sight::Others),
    ];
    let vm = prop_oneof![
        Just(VmFacts::Missing),
        Just(VmFacts::NotMade),
        Just(VmFacts::Leaving),
        Just(VmFacts::Made)
    ];
    let intent = prop_oneof![Just(Intent::Earlier), Just(Intent::JustWritten)];
    let age = proptest::option::of((0..100_u64).prop_map(std::time::Duration::from_secs));
    (object(), record(), age, vm, sight, any::<bool>(), intent).prop_map(
        |(object, record, max_age, vm, sight, identity, intent)| Any {
            object,
            record,
            desired: Desired {
                max_age,
                ..Desired::default()
            },
            vm,
            sight,
            identity,
            intent,
        },
    )
}
