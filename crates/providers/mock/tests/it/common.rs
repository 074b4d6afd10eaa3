//! Words that all tests share.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use polyvirt_contract::model::{
    ClassSpec, CreateVm, DiskSpec, ExpandPolicy, NicSpec, Owner, PowerOp, VmRef, VmState,
};
use polyvirt_contract::{Provider, Result, TaskId, VmId};
use polyvirt_provider_mock::{Clock, Mock, MockConfig, TaskMode, Times};

pub const SECOND: Duration = Duration::from_secs(1);

/// A mock whose time stands still.
pub fn manual() -> Arc<Mock> {
    with(|_| ())
}

/// A mock whose time stands still, with another configuration.
pub fn with(change: impl FnOnce(&mut MockConfig)) -> Arc<Mock> {
    let mut config = MockConfig {
        clock: Clock::Manual,
        ..MockConfig::default()
    };
    change(&mut config);
    Mock::new(config)
}

/// A mock that answers with tasks, each of one second.
pub fn with_tasks() -> Arc<Mock> {
    Mock::new(async_config())
}

pub fn async_config() -> MockConfig {
    let times = Times {
        create: SECOND,
        delete: SECOND,
        power: SECOND,
        reconfigure: SECOND,
        snapshot: SECOND,
        clone: SECOND,
        image: SECOND,
        disk: SECOND,
        ..Times::default()
    };
    MockConfig {
        clock: Clock::Manual,
        tasks: TaskMode::Async,
        times,
        ..MockConfig::default()
    }
}

/// The answer of a future that must not wait for anything: no runtime, no waker, one poll.
#[track_caller]
pub fn now<F: Future>(future: F) -> F::Output {
    future.now_or_never().expect("answered at the first poll")
}

pub fn owner(name: &str) -> Owner {
    Owner {
        identity: format!("identity-of-{name}").into(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

/// A VM of 2 CPUs and 2 GiB that belongs to an object of the same name.
pub fn request(name: &str) -> CreateVm {
    CreateVm {
        owner: Some(owner(name)),
        name: name.to_owned(),
        class: ClassSpec {
            cpu: 2,
            memory_mib: 2048,
            ..ClassSpec::default()
        },
        ..CreateVm::default()
    }
}

pub fn disk(name: &str, size_gib: u32, expand_policy: ExpandPolicy) -> DiskSpec {
    DiskSpec {
        name: name.to_owned(),
        size_gib,
        expand_policy,
        ..DiskSpec::default()
    }
}

pub fn nic(name: &str) -> NicSpec {
    NicSpec {
        name: name.to_owned(),
        ..NicSpec::default()
    }
}

/// Creates the VM of [`request`] and speaks for its owner.
#[track_caller]
pub fn created(mock: &Mock, name: &str) -> VmRef {
    created_as(mock, request(name))
}

#[track_caller]
pub fn created_as(mock: &Mock, request: CreateVm) -> VmRef {
    let owner = request.owner.clone();
    let created = now(mock.create(request)).expect("created");
    VmRef {
        id: created.id,
        owner,
    }
}

/// The same VM, asked for on behalf of somebody else.
pub fn for_another(vm: &VmRef) -> VmRef {
    VmRef {
        id: vm.id.clone(),
        owner: Some(owner("somebody-else")),
    }
}

#[track_caller]
pub fn power(mock: &Mock, vm: &VmRef, op: PowerOp) -> Result<Option<TaskId>> {
    now(mock.power(vm, op.into()))
}

#[track_caller]
pub fn seen(mock: &Mock, vm: &VmId) -> VmState {
    now(mock.describe(vm)).expect("described").expect("there")
}
