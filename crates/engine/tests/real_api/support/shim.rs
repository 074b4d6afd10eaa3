//! A provider in front of a mock that answers late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    CreateVm, Created, Inventory, PowerRequest, PrepareImage, PreparedImage, VmRef, VmState,
};
use polyvirt_contract::provider::Result;
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{Capabilities, Features, Identity, Provider, TaskId, VmId};
use polyvirt_provider_mock::Mock;

/// A mock whose answers come after the work was done, so that whoever dies meanwhile never hears them.
pub struct Shim {
    mock: Arc<Mock>,
    answer_after: Duration,
    calls: AtomicU64,
}

impl Shim {
    /// Changes are answered up to this time after they were made.
    pub fn new(mock: Arc<Mock>, answer_after: Duration) -> Arc<Self> {
        Arc::new(Self {
            mock,
            answer_after,
            calls: AtomicU64::new(0),
        })
    }

    /// Spread over eight steps, so that answers overtake each other.
    async fn late<T>(&self, answer: Result<T>) -> Result<T> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let step = u32::try_from(call * 5 % 8).unwrap_or(0);
        tokio::time::sleep(self.answer_after * step / 8).await;
        answer
    }
}

#[async_trait]
impl Provider for Shim {
    async fn validate(&self) -> Result<()> {
        self.mock.validate().await
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        self.mock.capabilities().await
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        let answer = self.mock.create(request).await;
        self.late(answer).await
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        let answer = self.mock.delete(vm).await;
        self.late(answer).await
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        let answer = self.mock.power(vm, request).await;
        self.late(answer).await
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        let answer = self.mock.reconfigure(vm, desired).await;
        self.late(answer).await
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        self.mock.describe(vm).await
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        self.mock.task_status(task).await
    }

    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        let answer = self.mock.image_prepare(request).await;
        self.late(answer).await
    }

    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        self.mock.image_delete(image).await
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        self.mock.list_vms().await
    }

    async fn features(&self) -> Result<Features> {
        self.mock.features().await
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        self.mock.find(identity).await
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        self.mock.watch().await
    }

    async fn inventory(&self) -> Result<Inventory> {
        self.mock.inventory().await
    }
}
