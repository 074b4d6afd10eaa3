//! Where checks work: VMs that nobody else has, patience, and a broom.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polyvirt_contract::model::{CreateVm, Owner, PowerOp, PowerState, VmRef, VmState};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{
    Capabilities, ErrorKind, Features, Provider, ProviderError, Result, TaskId, VmId,
};
use tokio::time::Instant;

use crate::check::{Checked, Failure, ensure};
use crate::profile::{Expect, Profile};

/// What the provider says it offers.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    pub(crate) capabilities: Capabilities,
    pub(crate) features: Features,
}

impl Offered {
    pub(crate) async fn ask(provider: &dyn Provider) -> Checked<Self> {
        Ok(Self {
            capabilities: provider.capabilities().await?,
            features: provider.features().await?,
        })
    }
}

/// The working place of one check.
#[derive(Clone)]
pub(crate) struct Lab(Arc<Inside>);

struct Inside {
    provider: Arc<dyn Provider>,
    profile: Profile,
    offered: Offered,
    run: u64,
    made: AtomicU32,
    to_clean: Mutex<Vec<VmRef>>,
}

impl Lab {
    pub(crate) fn new(provider: Arc<dyn Provider>, profile: Profile, offered: Offered) -> Self {
        // A fresh hash state is the one source of chance in std: no two runs may share names or identities.
        let run = RandomState::new().hash_one(0);
        Self(Arc::new(Inside {
            provider,
            profile,
            offered,
            run,
            made: AtomicU32::new(0),
            to_clean: Mutex::default(),
        }))
    }

    pub(crate) fn provider(&self) -> &dyn Provider {
        self.0.provider.as_ref()
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.0.profile
    }

    pub(crate) fn offered(&self) -> &Offered {
        &self.0.offered
    }

    pub(crate) fn patience(&self) -> Duration {
        self.0.profile.patience
    }

    /// An owner that nobody else is. The identity has the form of a UUID, which some hypervisors demand.
    pub(crate) fn owner(&self) -> Owner {
        let number = self.0.made.fetch_add(1, Ordering::Relaxed);
        let run = self.0.run;
        let (high, low) = (run >> 32, run & 0xffff_ffff);
        let identity = format!(
            "{high:08x}-{:04x}-4{:03x}-8000-{number:012x}",
            low >> 16,
            low & 0xfff
        );
        Owner {
            identity: identity.into(),
            namespace: "conformance".to_owned(),
            name: format!("{}-{:06x}-{number}", self.0.profile.prefix, run & 0xff_ffff),
        }
    }

    /// A VM to ask for, with a name and an owner of its own.
    pub(crate) fn desired(&self) -> CreateVm {
        let owner = self.owner();
        CreateVm {
            name: owner.name.clone(),
            owner: Some(owner),
            class: self.0.profile.class.clone(),
            image: self.0.profile.image.clone(),
            ..CreateVm::default()
        }
    }

    /// A new VM that is off.
    pub(crate) async fn vm(&self) -> Checked<VmRef> {
        self.make(self.desired()).await
    }

    /// Creates what is desired and waits until it is there.
    pub(crate) async fn make(&self, desired: CreateVm) -> Checked<VmRef> {
        let owner = desired.owner.clone();
        let created = self.provider().create(desired).await?;
        let vm = VmRef {
            id: created.id,
            owner,
        };
        self.will_clean(&vm);
        self.done(created.task).await?;
        Ok(vm)
    }

    /// A new VM that runs.
    pub(crate) async fn running(&self) -> Checked<VmRef> {
        let vm = self.vm().await?;
        self.switch(&vm, PowerOp::On).await?;
        Ok(vm)
    }

    /// Changes the power state and waits until it shows.
    pub(crate) async fn switch(&self, vm: &VmRef, op: PowerOp) -> Checked<VmState> {
        let task = self.provider().power(vm, op.into()).await?;
        self.done(task).await?;
        let expected = match op {
            PowerOp::On | PowerOp::Reboot => PowerState::On,
            PowerOp::Off | PowerOp::ShutdownGraceful { .. } => PowerState::Off,
            PowerOp::Pause => PowerState::Suspended,
        };
        self.until(&vm.id, &format!("{op:?} to act"), |state| {
            state.power == expected
        })
        .await
    }

    /// Remembers a VM that must be gone when the check is over.
    pub(crate) fn will_clean(&self, vm: &VmRef) {
        let mut to_clean = self
            .0
            .to_clean
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !to_clean.contains(vm) {
            to_clean.push(vm.clone());
        }
    }

    /// Deletes what the check made, last first.
    pub(crate) async fn clean(&self) -> Checked {
        let vms = std::mem::take(
            &mut *self
                .0
                .to_clean
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        for vm in vms.iter().rev() {
            let left = |failure: Failure| {
                Failure::new(format!("the VM {} is left behind: {failure}", vm.id))
            };
            self.delete(vm).await.map_err(left)?;
        }
        Ok(())
    }

    /// Deletes a VM and waits until it is gone; one that is not there is gone.
    pub(crate) async fn delete(&self, vm: &VmRef) -> Checked {
        let task = match self.provider().delete(vm).await {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            answer => answer?,
        };
        self.done(task).await?;
        let deadline = Instant::now() + self.patience();
        while self.provider().describe(&vm.id).await?.is_some() {
            ensure!(
                Instant::now() < deadline,
                "it was deleted and is still there"
            );
            tokio::time::sleep(self.0.profile.interval).await;
        }
        Ok(())
    }

    /// Waits for a task to end well. One that the provider has forgotten has ended: the state tells how.
    pub(crate) async fn done(&self, task: Option<TaskId>) -> Checked {
        let Some(task) = task else { return Ok(()) };
        let deadline = Instant::now() + self.patience();
        loop {
            match self.provider().task_status(&task).await {
                Ok(TaskState::Running { .. }) => {}
                Ok(TaskState::Succeeded) => return Ok(()),
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
                Ok(TaskState::Failed(error)) | Err(error) => return Err(error.into()),
            }
            ensure!(
                Instant::now() < deadline,
                "the task {task} has not ended in time"
            );
            tokio::time::sleep(self.0.profile.interval).await;
        }
    }

    /// The VM as it is.
    pub(crate) async fn state(&self, id: &VmId) -> Checked<VmState> {
        let state = self.provider().describe(id).await?;
        state.ok_or_else(|| Failure::new(format!("the VM {id} is not there")))
    }

    /// The VM with all that the provider can say: `provider.v1` tells the size only in the list.
    pub(crate) async fn listed(&self, id: &VmId) -> Checked<VmState> {
        let vms = self.provider().list_vms().await?;
        let found = vms.into_iter().find(|vm| vm.id == *id);
        found.ok_or_else(|| Failure::new(format!("the VM {id} is not in the list")))
    }

    /// Looks until the VM is as expected.
    pub(crate) async fn until(
        &self,
        id: &VmId,
        what: &str,
        expected: impl Fn(&VmState) -> bool,
    ) -> Checked<VmState> {
        let deadline = Instant::now() + self.patience();
        loop {
            let state = self.state(id).await?;
            if expected(&state) {
                return Ok(state);
            }
            ensure!(
                Instant::now() < deadline,
                "waited in vain for {what}; the VM is {state:?}"
            );
            tokio::time::sleep(self.0.profile.interval).await;
        }
    }

    /// Waits until the VM has been left alone for a while: a guest that boots changes it without our doing.
    pub(crate) async fn quiet(&self, id: &VmId) -> Checked<VmState> {
        let deadline = Instant::now() + self.patience();
        let mut last = self.state(id).await?;
        let mut unchanged = 0;
        while unchanged < 5 {
            ensure!(
                Instant::now() < deadline,
                "the VM never comes to rest: {last:?}"
            );
            tokio::time::sleep(self.0.profile.interval).await;
            let state = self.state(id).await?;
            unchanged = if state.revision == last.revision {
                unchanged + 1
            } else {
                0
            };
            last = state;
        }
        Ok(last)
    }

    /// The error, which must be of this kind. A `provider.v1` server has coarser words: it need only refuse.
    pub(crate) fn refused<T>(
        &self,
        answer: Result<T>,
        kind: ErrorKind,
        what: &str,
    ) -> Checked<ProviderError> {
        let Err(error) = answer else {
            return Err(Failure::new(format!(
                "{what} was accepted and must be refused with {kind:?}"
            )));
        };
        let coarse = self.profile().expect == Expect::Basic;
        ensure!(
            coarse || error.kind == kind,
            "{what} must be refused with {kind:?}, not with {:?}: {}",
            error.kind,
            error.message
        );
        Ok(error)
    }
}

/// What a request that was refused must leave as it was.
pub(crate) fn untouched(before: &VmState, after: &VmState) -> Checked {
    let part = |state: &VmState| {
        (
            state.name.clone(),
            state.owner.clone(),
            state.power,
            state.cpu,
            state.memory_mib,
        )
    };
    ensure!(
        part(before) == part(after),
        "the VM changed from {before:?} to {after:?}"
    );
    Ok(())
}
