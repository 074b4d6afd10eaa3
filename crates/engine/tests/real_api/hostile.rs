//! Providers that mean harm: what they say costs nobody but themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use polyvirt_api::infra::{Provider as ProviderObject, VirtualMachine};
use polyvirt_contract::model::{
    CreateVm, Created, Owner, PowerRequest, PowerState, VmRef, VmState,
};
use polyvirt_contract::provider::Result;
use polyvirt_contract::watch::{MOST_VMS, TaskState, VmEvent};
use polyvirt_contract::{Capabilities, Extension, Features, Provider, ProviderError, TaskId, VmId};
use polyvirt_plan::Reason;
use polyvirt_provider_mock::MockConfig;
use serde_json::json;

use crate::support::fleet::Route;
use crate::support::look::{condition, reason, runs};
use crate::support::{World, provider, vm};

/// Tells of ever more VMs, and answers nothing else.
struct Flood;

fn never<T>() -> Result<T> {
    Err(ProviderError::unsupported("being useful"))
}

#[async_trait]
impl Provider for Flood {
    async fn validate(&self) -> Result<()> {
        Ok(())
    }
    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities::default())
    }
    async fn create(&self, _: CreateVm) -> Result<Created> {
        never()
    }
    async fn delete(&self, _: &VmRef) -> Result<Option<TaskId>> {
        never()
    }
    async fn power(&self, _: &VmRef, _: PowerRequest) -> Result<Option<TaskId>> {
        never()
    }
    async fn reconfigure(&self, _: &VmRef, _: CreateVm) -> Result<Option<TaskId>> {
        never()
    }
    async fn describe(&self, _: &VmId) -> Result<Option<VmState>> {
        never()
    }
    async fn task_status(&self, _: &TaskId) -> Result<TaskState> {
        never()
    }
    async fn list_vms(&self) -> Result<Vec<VmState>> {
        never()
    }
    async fn features(&self) -> Result<Features> {
        Ok(Features {
            extensions: [Extension::Watch, Extension::Identity].into(),
            ..Features::default()
        })
    }
    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        let vm = |n: u64| VmState {
            id: VmId::from(format!("vm-{n}").as_str()),
            ..VmState::default()
        };
        let endless = stream::iter(0..).map(move |n| Ok(VmEvent::State(vm(n))));
        // As slow as a network would make it.
        Ok(endless
            .chunks(1000)
            .then(slowly)
            .flat_map(stream::iter)
            .boxed())
    }
}

async fn slowly<T>(part: T) -> T {
    tokio::time::sleep(Duration::from_millis(1)).await;
    part
}

/// Says that it made what is somebody else's, and that a VM of the object's name is another one each time it is asked.
#[derive(Default)]
struct Liar {
    changed: AtomicUsize,
}

const VICTIM: &str = "../vm-of-somebody-else";

fn victim() -> VmState {
    let owner = Owner {
        identity: "of-somebody-else".into(),
        namespace: "elsewhere".to_owned(),
        name: "database".to_owned(),
    };
    VmState {
        id: VmId::from(VICTIM),
        name: "web".to_owned(),
        owner: Some(owner),
        power: PowerState::On,
        ..VmState::default()
    }
}

impl Liar {
    fn change<T>(&self) -> Result<Option<T>> {
        self.changed.fetch_add(1, Ordering::SeqCst);
        Ok(None)
    }
}

#[async_trait]
impl Provider for Liar {
    async fn validate(&self) -> Result<()> {
        Ok(())
    }
    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities::default())
    }
    async fn create(&self, _: CreateVm) -> Result<Created> {
        Ok(Created {
            id: VmId::from(VICTIM),
            task: None,
        })
    }
    async fn delete(&self, _: &VmRef) -> Result<Option<TaskId>> {
        self.change()
    }
    async fn power(&self, _: &VmRef, _: PowerRequest) -> Result<Option<TaskId>> {
        self.change()
    }
    async fn reconfigure(&self, _: &VmRef, _: CreateVm) -> Result<Option<TaskId>> {
        self.change()
    }
    async fn describe(&self, _: &VmId) -> Result<Option<VmState>> {
        Ok(Some(victim()))
    }
    async fn task_status(&self, _: &TaskId) -> Result<TaskState> {
        never()
    }
    async fn list_vms(&self) -> Result<Vec<VmState>> {
        Ok(vec![victim()])
    }
    async fn features(&self) -> Result<Features> {
        Ok(Features {
            extensions: [Extension::Watch, Extension::Identity].into(),
            ..Features::default()
        })
    }
    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        let told = stream::iter([Ok(VmEvent::Synced)]);
        Ok(told.chain(stream::pending()).boxed())
    }
}

#[tokio::test]
async fn the_id_of_somebody_elses_vm_gives_no_power_over_it() {
    let (world, _mock) = World::furnished("liar", MockConfig::default()).await;
    let liar = Arc::new(Liar::default());
    world.fleet.put("liar", Route::Direct(liar.clone()));
    world.create(provider("liar")).await;
    let lied_to = vm("web").spec(json!({"providerRef": {"name": "liar"}, "powerState": "Off"}));
    world.create(lied_to).await;
    let conflict = |vm: &VirtualMachine| reason(vm) == Reason::IdentityConflict.as_str();
    world.vm("web", "is told whose VM that is", conflict).await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert_eq!(
        liar.changed.load(Ordering::SeqCst),
        0,
        "neither switched off nor deleted"
    );
}

#[tokio::test]
async fn an_endless_stream_of_vms_ends_its_own_link_and_hurts_nobody() {
    let (world, _mock) = World::furnished("flood", MockConfig::default()).await;
    world.fleet.put("flood", Route::Direct(Arc::new(Flood)));
    world.create(provider("flood")).await;
    world.create(vm("web")).await;
    world.vm("web", "runs beside the flood", runs).await;
    let refused = |p: &ProviderObject| {
        condition(p, "Ready").is_some_and(|c| c.message.contains(&MOST_VMS.to_string()))
    };
    world.until("flood", "is not believed", refused).await;
    let object: ProviderObject = world.get("flood").await;
    assert!(condition(&object, "Ready").is_some_and(|c| c.status == "False"));
}
