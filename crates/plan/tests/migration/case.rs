//! What the planner sees, and its answer.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::model::{MigrateVm, MigrationMode, PowerState, VmState};
use polyvirt_contract::{Capabilities, Extension, Features, ProviderError, RequestId};
use polyvirt_plan::migration::{
    Desired, Facts, Intent, Object, Observed, Quiet, Record, Step, VmFacts, WaitFor, Wish,
    next_step,
};
use polyvirt_plan::snapshot::{Life, VmPlace};
use polyvirt_plan::virtual_machine::{Attention, Claim, Force, ProviderFacts};

pub const REQUEST: &str = "uid-1";

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

pub fn place() -> VmPlace {
    VmPlace {
        provider_namespace: "lab".into(),
        provider: "prov".into(),
        id: "vm-1".into(),
        identity: "me".into(),
    }
}

pub fn vm_on(host: &str) -> VmState {
    VmState {
        id: "vm-1".into(),
        host: host.to_owned(),
        power: PowerState::On,
        ..VmState::default()
    }
}

pub fn begun() -> Record {
    Record {
        vm: Some(place()),
        source: "a".into(),
        target: "b".into(),
        begun: Some(at(100)),
        ..Record::default()
    }
}

pub struct Case {
    pub now: i64,
    pub object: Object,
    pub record: Record,
    pub desired: Desired,
    pub vm: VmFacts,
    pub rival: Option<&'static str>,
    pub reachable: bool,
    pub state: Option<VmState>,
    pub looked: bool,
    pub intent: Intent,
    pub failure: Option<ProviderError>,
    pub quiet: Quiet,
    pub features: Features,
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
    pub fn open() -> Self {
        Self {
            record: begun(),
            ..Self::default()
        }
    }

    pub fn plan(&self) -> Step {
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

pub fn waits_for(step: &Step) -> Option<&WaitFor> {
    match step {
        Step::Wait(wait) => Some(&wait.on),
        _ => None,
    }
}
