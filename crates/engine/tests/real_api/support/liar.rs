//! A provider whose `Describe` and `ListVMs` do not say the same of a VM.

use std::sync::Arc;

use async_trait::async_trait;
use polyvirt_contract::model::{
    CreateVm, Created, PowerRequest, PrepareImage, PreparedImage, VmRef, VmState,
};
use polyvirt_contract::provider::Result;
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{Capabilities, Features, Provider, TaskId, VmId};
use polyvirt_provider_mock::Mock;

/// What `Describe` tells of sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Describes {
    /// What is the case.
    Truth,
    /// Nothing.
    Nothing,
}

/// A mock whose list shows VMs with one CPU, whatever they have.
pub struct Liar {
    mock: Arc<Mock>,
    describes: Describes,
}

impl Liar {
    /// In front of this mock.
    pub fn new(mock: Arc<Mock>, describes: Describes) -> Arc<Self> {
        Arc::new(Self { mock, describes })
    }
}

/// As a server of the basic contract tells it.
fn basic(mut vm: VmState) -> VmState {
    vm.owner = None;
    vm.revision = 0;
    vm
}

#[async_trait]
impl Provider for Liar {
    async fn validate(&self) -> Result<()> {
        self.mock.validate().await
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        self.mock.capabilities().await
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        self.mock.create(request).await
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        self.mock.delete(vm).await
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        self.mock.power(vm, request).await
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        self.mock.reconfigure(vm, desired).await
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        let mut found = self.mock.describe(vm).await?.map(basic);
        if let (Some(vm), Describes::Nothing) = (&mut found, self.describes) {
            (vm.cpu, vm.memory_mib) = (0, 0);
        }
        Ok(found)
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        self.mock.task_status(task).await
    }

    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        self.mock.image_prepare(request).await
    }

    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        self.mock.image_delete(image).await
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        let list = self.mock.list_vms().await?.into_iter();
        let lie = |vm: VmState| VmState {
            cpu: 1,
            ..basic(vm)
        };
        Ok(list.map(lie).collect())
    }

    async fn features(&self) -> Result<Features> {
        self.mock.features().await
    }
}
