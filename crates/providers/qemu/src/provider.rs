//! The contract, call by call.

use std::sync::Arc;

use async_trait::async_trait;
use polyvirt_contract::model::{CreateVm, Created, PowerRequest, VmRef, VmState};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{Capabilities, Provider, ProviderError, Result, TaskId, VmId};

use crate::config::QemuConfig;
use crate::uuid::Uuid;

/// A provider that runs its VMs with QEMU on this machine.
#[derive(Debug)]
pub struct Qemu {
    config: QemuConfig,
}

impl Qemu {
    /// Opens the folder of VMs and finds those again that run.
    pub async fn open(config: QemuConfig) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { config }))
    }
}

fn not_yet<T>(what: &str) -> Result<T> {
    Err(ProviderError::unsupported(what))
}

#[async_trait]
impl Provider for Qemu {
    async fn validate(&self) -> Result<()> {
        not_yet("this in this build")
    }
    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities::default())
    }
    async fn create(&self, _request: CreateVm) -> Result<Created> {
        let _ = (&self.config, Uuid::random());
        not_yet("VMs in this build")
    }
    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        Err(ProviderError::not_found(&vm.id))
    }
    async fn power(&self, vm: &VmRef, _request: PowerRequest) -> Result<Option<TaskId>> {
        Err(ProviderError::not_found(&vm.id))
    }
    async fn reconfigure(&self, vm: &VmRef, _desired: CreateVm) -> Result<Option<TaskId>> {
        Err(ProviderError::not_found(&vm.id))
    }
    async fn describe(&self, _vm: &VmId) -> Result<Option<VmState>> {
        Ok(None)
    }
    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        Err(ProviderError::not_found(task))
    }
    async fn list_vms(&self) -> Result<Vec<VmState>> {
        Ok(Vec::new())
    }
}
