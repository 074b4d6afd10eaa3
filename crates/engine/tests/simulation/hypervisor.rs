//! The provider as the manager reaches it, and the eyes that watch every change of a VM.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    CreateVm, Created, ImageOrigin, PowerOp, PowerRequest, PrepareImage, PreparedImage, Stage,
    VmRef, VmState,
};
use polyvirt_contract::provider::Result;
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Features, Identity, Provider, ProviderError, TaskId, VmId,
};
use polyvirt_engine::runtime::key::Kind;

use crate::cluster::identity_of;
use crate::effect::{Effect, Fate};
use crate::ledger::Made;
use crate::setting::TakenName;
use crate::world::{Refusal, Sim};

/// The provider as the manager reaches it.
#[derive(Clone)]
pub struct Hypervisor {
    pub sim: Arc<Sim>,
}

#[async_trait]
impl Provider for Hypervisor {
    async fn validate(&self) -> Result<()> {
        self.sim.mock.validate().await
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        self.sim.mock.capabilities().await
    }

    async fn features(&self) -> Result<Features> {
        self.sim.mock.features().await
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        self.sim.mock.watch().await
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        let fate = self.sim.decide(Effect::Create);
        let owner = request.owner.clone();
        self.sim
            .note(|| format!("    Create {} for {owner:?} [{fate:?}]", request.name));
        let this = self.clone();
        let work = async move { this.make(request).await };
        if matches!(fate, Fate::HappensLater | Fate::CrashInFlight) {
            let work = Box::pin(async move {
                let _ = work.await;
            });
            self.sim.put_off(work);
            return self.sim.carry_out(fate, nothing(), refused).await;
        }
        self.sim.carry_out(fate, work, refused).await
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        let work = async {
            self.touch(vm, "delete");
            self.check_deletion(vm);
            self.sim.mock.delete(vm).await
        };
        self.sim
            .perform(Effect::Delete, || vm.id.to_string(), work, refused)
            .await
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        let detail = format!("{} {request:?}", vm.id);
        let work = async {
            self.touch(vm, "power");
            self.note_restart(vm, &request);
            self.sim.mock.power(vm, self.as_on_the_wire(request)).await
        };
        self.sim
            .perform(Effect::Power, || detail, work, refused)
            .await
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        let detail = format!("{} to {} cpu {:?}", vm.id, desired.class.cpu, desired.disks);
        let work = async {
            self.touch(vm, "reconfigure");
            let name = self
                .inner_name(&vm.id)
                .unwrap_or_else(|| desired.name.clone());
            self.sim
                .mock
                .reconfigure(vm, CreateVm { name, ..desired })
                .await
        };
        self.sim
            .perform(Effect::Reconfigure, || detail, work, refused)
            .await
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        let work = async { Ok(self.sim.mock.describe(vm).await?.map(shown)) };
        self.sim
            .perform(Effect::Describe, || vm.to_string(), work, refused)
            .await
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        let work = async {
            self.sim
                .mock
                .task_status(task)
                .await
                .map(|state| self.sim.maybe_lie(state))
        };
        self.sim
            .perform(Effect::TaskStatus, || task.to_string(), work, refused)
            .await
    }

    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        let detail = format!("{:?}", request.origin);
        let work = async { self.prepare(request).await };
        let answer = self
            .sim
            .perform(Effect::ImagePrepare, || detail, work, refused)
            .await;
        if answer.is_err() {
            self.sim.world().ledger.imports_refused += 1;
        }
        answer
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        let work = async {
            Ok(self
                .sim
                .mock
                .list_vms()
                .await?
                .into_iter()
                .map(shown)
                .collect())
        };
        self.sim
            .perform(Effect::ListVms, String::new, work, refused)
            .await
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        let work = async { self.sim.mock.find(identity).await };
        self.sim
            .perform(Effect::Find, || identity.to_string(), work, refused)
            .await
    }
}

async fn nothing() -> Result<Created> {
    Ok(Created::default())
}

impl Hypervisor {
    async fn make(&self, request: CreateVm) -> Result<Created> {
        let identity = request.owner.as_ref().map(|owner| owner.identity.clone());
        let request = CreateVm {
            name: self.free_name(&request.name),
            ..request
        };
        let created = self.sim.mock.create(request).await;
        match &created {
            Ok(created) => self.note_made(&created.id, identity),
            Err(_) => self.note_half(identity),
        }
        created
    }

    /// A create that failed may have left its VM half created.
    fn note_half(&self, identity: Option<Identity>) {
        let owned = |vm: &VmState| vm.owner.as_ref().map(|owner| owner.identity.clone());
        let vms = self.sim.mock.vms().into_iter();
        let half = vms.filter(|vm| vm.stage == Stage::Creating && owned(vm) == identity);
        for vm in half.filter(|_| identity.is_some()) {
            self.note_made(&vm.id, identity.clone());
        }
    }

    /// A provider that makes another VM of the same name does so under one that only we can see.
    fn free_name(&self, name: &str) -> String {
        let setting = &self.sim.setting;
        let vms = self.sim.mock.vms();
        let taken = vms.iter().any(|vm| shown_name(&vm.name) == name);
        if setting.is_basic() && setting.taken_name == TakenName::MakeAnother && taken {
            return format!("{name}~{}", self.sim.world().rng.next());
        }
        name.to_owned()
    }

    fn inner_name(&self, vm: &VmId) -> Option<String> {
        self.sim.mock.vm(vm).map(|vm| vm.name)
    }

    /// Every VM that a call made belongs to one identity, and each identity has one VM.
    fn note_made(&self, id: &VmId, identity: Option<Identity>) {
        let there: Vec<VmId> = self.sim.mock.vms().into_iter().map(|vm| vm.id).collect();
        let mut world = self.sim.world();
        let ledger = &mut world.ledger;
        if identity.is_none() {
            ledger.violation(format!("The VM {id} was made for nobody"));
        }
        let made = ledger.made.entry(id.clone()).or_insert(Made {
            identity: identity.clone(),
        });
        if made.identity != identity {
            let text = format!("{identity:?} was given the VM {id} of {:?}", made.identity);
            ledger.violation(text);
        }
        let same: Vec<_> = there
            .iter()
            .filter(|vm| ledger.identity(vm) == identity.as_ref())
            .collect();
        // A foreign provider knows no identities: what was retained there under another name is not found again.
        let retained = identity
            .as_ref()
            .is_some_and(|i| ledger.left_behind.contains(i));
        if same.len() > 1 && !(self.sim.setting.is_basic() && retained) {
            ledger.violation(format!("{identity:?} has more than one VM: {same:?}"));
        }
    }

    /// Nothing is ever done to a VM that is not the caller's.
    fn touch(&self, vm: &VmRef, what: &str) {
        let there = self.sim.mock.vm(&vm.id).is_some();
        let mut world = self.sim.world();
        let caller = vm.owner.as_ref().map(|owner| owner.identity.clone());
        let owner = world.ledger.identity(&vm.id).cloned();
        // Without identities, what comes late of an object that went by force is taken for the next one of its name.
        let forced = self.sim.setting.is_basic()
            && (owner.as_ref()).is_some_and(|owner| world.ledger.left_behind.contains(owner));
        if there && (owner.is_none() || owner != caller) && !forced {
            let text = format!("{what} of the VM {} of {owner:?} for {caller:?}", vm.id);
            world.ledger.violation(text);
        }
    }

    /// A VM is deleted only if its object is, and is not to leave it behind.
    fn check_deletion(&self, vm: &VmRef) {
        if self.sim.mock.vm(&vm.id).is_none() {
            // Asked once more, by a manager that has not heard that its object went.
            return;
        }
        let mut world = self.sim.world();
        let Some(identity) = vm.owner.as_ref().map(|owner| &owner.identity) else {
            return;
        };
        let wanted = world.api.list(Kind::VirtualMachine).any(|(_, object)| {
            identity_of(object) == *identity
                && !object["metadata"]["deletionTimestamp"].is_null()
                && object["spec"]["deletionPolicy"] != "Retain"
        });
        if !wanted {
            let text = format!(
                "The VM {} of {identity} is deleted although nobody wants that",
                vm.id
            );
            world.ledger.violation(text);
        }
    }

    /// A foreign provider does not hear which request it is.
    fn as_on_the_wire(&self, request: PowerRequest) -> PowerRequest {
        if self.sim.setting.is_basic() {
            PowerRequest::from(request.op)
        } else {
            request
        }
    }

    fn note_restart(&self, vm: &VmRef, request: &PowerRequest) {
        if let (PowerOp::Reboot, Some(request)) = (request.op, &request.request) {
            let mut world = self.sim.world();
            let sent = world.ledger.restarts_sent.entry(vm.id.clone()).or_default();
            sent.insert(request.clone());
        }
    }

    async fn prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        let source = match &request.origin {
            ImageOrigin::Http { url, .. } => url.clone(),
            other => format!("{other:?}"),
        };
        // What is broken is tried as often as the image says, told or not.
        let broken = request.checksum == "bad";
        let before = self.sim.mock.images_prepared();
        let answer = self.sim.mock.image_prepare(request).await;
        let begun = self.sim.mock.images_prepared() - before;
        let mut world = self.sim.world();
        if !broken {
            *world.ledger.imports.entry(source).or_default() += begun;
        }
        if answer.is_err() {
            world.ledger.import_excuses += 1;
        }
        answer
    }
}

impl Sim {
    /// A task that ended well is sometimes told as one that failed: its work may have been done all the same.
    pub fn maybe_lie(&self, state: TaskState) -> TaskState {
        let mut world = self.world();
        if matches!(state, TaskState::Failed(_)) {
            world.ledger.import_excuses += 1;
        }
        if state != TaskState::Succeeded
            || world.calm
            || world.lies_left == 0
            || !world.rng.percent(15)
        {
            return state;
        }
        world.lies_left -= 1;
        world.ledger.import_excuses += 1;
        world.ledger.imports_refused += 1;
        world.summary.count("lies", "task told as failed");
        TaskState::Failed(ProviderError::new(
            ErrorKind::Internal,
            "The simulation says that it failed",
        ))
    }
}

fn shown_name(name: &str) -> &str {
    name.split_once('~').map_or(name, |(name, _)| name)
}

fn shown(vm: VmState) -> VmState {
    VmState {
        name: shown_name(&vm.name).to_owned(),
        ..vm
    }
}

fn refused<T>(refusal: Refusal) -> Result<T> {
    const NOT_DONE: [ErrorKind; 7] = [
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::Internal,
        ErrorKind::Exhausted,
        ErrorKind::PermissionDenied,
        ErrorKind::Unauthenticated,
        ErrorKind::Cancelled,
    ];
    const PERHAPS_DONE: [ErrorKind; 4] = [
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::Internal,
        ErrorKind::Cancelled,
    ];
    let choose =
        |list: &[ErrorKind], chance: u64| list[usize::try_from(chance).unwrap_or(0) % list.len()];
    let kind = match refusal {
        Refusal::Refused(chance) => choose(&NOT_DONE, chance >> 8),
        Refusal::AnswerLost(chance) => choose(&PERHAPS_DONE, chance >> 8),
        Refusal::TimedOut => ErrorKind::Timeout,
        Refusal::Down => ErrorKind::Unavailable,
    };
    Err(ProviderError::new(kind, "The simulation says so"))
}
