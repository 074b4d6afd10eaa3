//! Providers whose answers cannot be right: they are reported, and never acted on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use polyvirt_api::infra::{Provider as ProviderObject, VirtualMachine};
use polyvirt_contract::model::{CreateVm, Created, PowerRequest, PowerState, VmRef, VmState};
use polyvirt_contract::provider::Result;
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Extension, Features, Provider, ProviderError, TaskId, VmId,
};
use polyvirt_plan::Reason;
use polyvirt_provider_mock::MockConfig;
use serde_json::json;

use crate::support::fleet::Route;
use crate::support::look::{condition, ready};
use crate::support::world::Manifest;
use crate::support::{World, message, provider, reason, vm};

/// What a [`Parrot`] answers to each create.
enum Answer {
    Id(String),
    Error(&'static str),
}

/// Answers every create alike, and shows one VM.
struct Parrot {
    answer: Answer,
    deleted: AtomicUsize,
    streams: bool,
}

impl Parrot {
    fn new(answer: Answer) -> Arc<Self> {
        Arc::new(Self {
            answer,
            deleted: AtomicUsize::new(0),
            streams: false,
        })
    }

    fn only_vm(&self) -> Option<VmState> {
        let Answer::Id(id) = &self.answer else {
            return None;
        };
        Some(VmState {
            id: VmId::from(id.as_str()),
            name: "parrot".to_owned(),
            power: PowerState::On,
            ..VmState::default()
        })
    }
}

#[async_trait]
impl Provider for Parrot {
    async fn validate(&self) -> Result<()> {
        Ok(())
    }
    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities::default())
    }
    async fn create(&self, _: CreateVm) -> Result<Created> {
        match &self.answer {
            Answer::Id(id) => Ok(Created {
                id: VmId::from(id.as_str()),
                task: None,
            }),
            Answer::Error(text) => Err(ProviderError::new(ErrorKind::Internal, *text)),
        }
    }
    async fn delete(&self, _: &VmRef) -> Result<Option<TaskId>> {
        self.deleted.fetch_add(1, Ordering::SeqCst);
        Ok(None)
    }
    async fn power(&self, _: &VmRef, _: PowerRequest) -> Result<Option<TaskId>> {
        Ok(None)
    }
    async fn reconfigure(&self, _: &VmRef, _: CreateVm) -> Result<Option<TaskId>> {
        Ok(None)
    }
    async fn describe(&self, id: &VmId) -> Result<Option<VmState>> {
        Ok(self.only_vm().filter(|vm| vm.id == *id))
    }
    async fn task_status(&self, _: &TaskId) -> Result<TaskState> {
        Ok(TaskState::Succeeded)
    }
    async fn list_vms(&self) -> Result<Vec<VmState>> {
        Ok(self.only_vm().into_iter().collect())
    }
    async fn features(&self) -> Result<Features> {
        let extensions = [Extension::Watch, Extension::Identity];
        let extensions = extensions.into_iter().filter(|_| self.streams).collect();
        Ok(Features {
            extensions,
            ..Features::default()
        })
    }
    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        // All is told, and the stream is cut.
        Ok(stream::iter([Ok(VmEvent::Synced)]).boxed())
    }
}

async fn with(topic: &str, parrot: &Arc<Parrot>) -> World {
    let (world, _mock) = World::furnished(topic, MockConfig::default()).await;
    world.fleet.put("parrot", Route::Direct(parrot.clone()));
    world.create(provider("parrot")).await;
    world
}

fn on_parrot(name: &str) -> Manifest<VirtualMachine> {
    vm(name).spec(json!({"providerRef": {"name": "parrot"}}))
}

fn in_conflict(vm: &VirtualMachine) -> bool {
    reason(vm) == Reason::IdentityConflict.as_str()
}

fn id_of(vm: &VirtualMachine) -> Option<String> {
    vm.status.as_ref().and_then(|s| s.id.clone())
}

/// P3: three creates, one id.
#[tokio::test]
async fn two_objects_never_own_one_vm() {
    let parrot = Parrot::new(Answer::Id("vm-1".to_owned()));
    let world = with("parrot", &parrot).await;
    let names = ["a", "b", "c"];
    for name in names {
        world.create(on_parrot(name)).await;
    }
    let mut owners = Vec::new();
    for name in names {
        let decided = |vm: &VirtualMachine| ready(vm) || in_conflict(vm);
        let vm = world.vm(name, "is decided", decided).await;
        if in_conflict(&vm) {
            assert_eq!(id_of(&vm), None);
            assert!(message(&vm).contains("vm-1"), "{}", message(&vm));
            world.delete::<VirtualMachine>(name).await;
            world.gone::<VirtualMachine>(name).await;
        } else {
            assert_eq!(id_of(&vm).as_deref(), Some("vm-1"));
            owners.push(name);
        }
    }
    assert_eq!(owners.len(), 1, "{owners:?}");
    assert_eq!(parrot.deleted.load(Ordering::SeqCst), 0);
}

/// P5: an id that no status can hold.
#[tokio::test]
async fn an_id_that_cannot_be_kept_is_reported_and_does_not_keep_the_object() {
    let parrot = Parrot::new(Answer::Id("x".repeat(3 << 20)));
    let world = with("long-id", &parrot).await;
    world.create(on_parrot("web")).await;
    let vm = world.vm("web", "is told", in_conflict).await;
    assert!(message(&vm).contains("3145728 bytes"), "{}", message(&vm));
    assert_eq!(id_of(&vm), None);
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
}

/// P4: the error is what people can act on, so it stays in the condition while the VM is looked for.
#[tokio::test]
async fn the_error_of_a_create_stays_in_the_condition_in_plain_text() {
    let parrot = Parrot::new(Answer::Error("The datastore\u{1b}[31m is\nread-only"));
    let world = with("internal", &parrot).await;
    world.create(on_parrot("web")).await;
    let waits = |vm: &VirtualMachine| message(vm).contains("before retrying");
    let vm = world.vm("web", "waits for what may come", waits).await;
    assert_eq!(reason(&vm), Reason::ProviderError.as_str());
    assert!(
        message(&vm).contains("The datastore [31m is read-only"),
        "{}",
        message(&vm)
    );
}

/// P17: a stream that is cut each time it was opened.
#[tokio::test]
async fn a_stream_that_is_cut_again_and_again_is_reported() {
    let parrot = Arc::new(Parrot {
        answer: Answer::Error("No"),
        deleted: AtomicUsize::new(0),
        streams: true,
    });
    let (world, _mock) = World::furnished("cut", MockConfig::default()).await;
    world.fleet.put("parrot", Route::Direct(parrot));
    // A stream that does not last for one interval is short.
    let check =
        json!({"healthCheck": {"interval": "60s", "timeout": "10s", "failureThreshold": 3}});
    world.create(provider("parrot").spec(check)).await;
    let told = |p: &ProviderObject| {
        condition(p, "Ready").is_some_and(|c| c.status == "False" && c.message.contains("in a row"))
    };
    world.until("parrot", "is reported", told).await;
}
