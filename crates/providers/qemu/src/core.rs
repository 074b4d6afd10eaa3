//! What all parts share: the folder, the VMs, the tasks, the stream of changes.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use polyvirt_contract::model::{VmRef, VmState};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Identity, ProviderError, Result, VmId};
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::accel::{self, Emulator};
use crate::config::QemuConfig;
use crate::hub::Hub;
use crate::img::Img;
use crate::run_as::RunAs;
use crate::state::StateDir;
use crate::tasks::Tasks;
use crate::uuid::Uuid;
use crate::vm::Vm;

/// How long to wait for an earlier life of the provider to let go of the folder.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// The provider without its outer shell.
pub(crate) struct Core {
    pub(crate) config: QemuConfig,
    pub(crate) state: StateDir,
    pub(crate) user: RunAs,
    pub(crate) img: Img,
    pub(crate) hub: Hub,
    pub(crate) tasks: Tasks,
    /// Bounds the VMs that start at the same time.
    pub(crate) starts: Arc<Semaphore>,
    /// Held while names and addresses are given out.
    pub(crate) admission: tokio::sync::Mutex<()>,
    /// Cancelled when the provider goes away; VMs stay.
    pub(crate) stop: CancellationToken,
    /// This machine's name.
    pub(crate) host: String,
    vms: Mutex<BTreeMap<Uuid, Arc<Vm>>>,
    revision: AtomicU64,
    emulator: OnceCell<Emulator>,
    _lock: File,
}

impl Core {
    pub(crate) async fn open(config: QemuConfig) -> Result<Arc<Self>> {
        let user = RunAs::choose(config.user.as_deref())?;
        let state = StateDir::open(&config.state_dir)?;
        let lock = lock(&state).await?;
        let hub = Hub::new();
        let now = since_epoch();
        let life = format!("task-{:x}", now.as_millis());
        Ok(Arc::new(Self {
            img: Img::new(&config, &user),
            tasks: Tasks::new(hub.clone(), life),
            starts: Arc::new(Semaphore::new(config.max_starts)),
            admission: tokio::sync::Mutex::default(),
            stop: CancellationToken::new(),
            host: config.host.clone().unwrap_or_else(host_name),
            vms: Mutex::default(),
            // Higher than any number of an earlier life, unless the clock was set back; records mend that.
            revision: AtomicU64::new(u64::try_from(now.as_micros()).unwrap_or(0)),
            emulator: OnceCell::new(),
            _lock: lock,
            config,
            state,
            user,
            hub,
        }))
    }

    /// What guests run with, found out when it is first needed.
    pub(crate) async fn emulator(&self) -> Result<&Emulator> {
        self.emulator
            .get_or_try_init(|| accel::find_out(&self.config, &self.state, &self.user))
            .await
    }

    /// What guests run with, if that is known already.
    pub(crate) fn known_emulator(&self) -> Option<&Emulator> {
        self.emulator.get()
    }

    /// A number that is higher than all before.
    pub(crate) fn next_revision(&self) -> u64 {
        self.revision.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Numbers go on from here at least.
    pub(crate) fn count_from(&self, revision: u64) {
        self.revision.fetch_max(revision, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<Vm>>> {
        self.vms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Vm>> {
        self.lock().values().cloned().collect()
    }

    pub(crate) fn get(&self, uuid: Uuid) -> Option<Arc<Vm>> {
        self.lock().get(&uuid).cloned()
    }

    pub(crate) fn insert(&self, vm: Arc<Vm>) {
        self.lock().insert(vm.uuid(), vm);
    }

    /// Forgets a VM and tells that it is gone, which is the last that is told of it.
    pub(crate) fn remove(&self, vm: &Vm) {
        vm.record(|record| {
            self.lock().remove(&vm.uuid());
            if record.comes() {
                return;
            }
            self.hub.publish(VmEvent::Gone {
                id: vm.uuid().vm_id(),
                identity: record.owner.as_ref().map(|owner| owner.identity.clone()),
                revision: self.next_revision(),
            });
        });
    }

    /// Those that are told of: one that comes from another host is told of by that one.
    fn shown(&self) -> impl Iterator<Item = Arc<Vm>> {
        let all = self.all().into_iter();
        all.filter(|vm| !vm.record(crate::state::Record::comes))
    }

    pub(crate) fn by_id(&self, id: &VmId) -> Result<Arc<Vm>> {
        Uuid::parse(id.as_str())
            .and_then(|uuid| self.get(uuid))
            .filter(|vm| !vm.record(crate::state::Record::comes))
            .ok_or_else(|| ProviderError::not_found(format!("The VM {id}")))
    }

    pub(crate) fn by_identity(&self, identity: &Identity) -> Option<Arc<Vm>> {
        let has = |vm: &Arc<Vm>| {
            vm.record(|r| {
                r.owner
                    .as_ref()
                    .is_some_and(|owner| owner.identity == *identity)
            })
        };
        self.shown().find(has)
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Vm>> {
        self.all()
            .into_iter()
            .find(|vm| vm.record(|record| record.name == name))
    }

    /// The VM, if whoever asks may touch it.
    pub(crate) fn allowed(&self, vm: &VmRef) -> Result<Arc<Vm>> {
        let found = self.by_id(&vm.id)?;
        let holds = found.record(|record| record.owner.clone());
        let (Some(asks), Some(holds)) = (&vm.owner, holds) else {
            return Ok(found);
        };
        if asks.identity == holds.identity {
            return Ok(found);
        }
        let message = format!(
            "The VM {} belongs to {}/{} and is not touched for {}/{}",
            vm.id, holds.namespace, holds.name, asks.namespace, asks.name
        );
        Err(ProviderError::new(ErrorKind::IdentityConflict, message))
    }

    /// The same, if it can be changed now.
    pub(crate) fn changeable(&self, vm: &VmRef) -> Result<Arc<Vm>> {
        let found = self.allowed(vm)?;
        found.must_stay()?;
        Ok(found)
    }

    pub(crate) fn states(&self) -> Vec<VmState> {
        self.shown().map(|vm| vm.state()).collect()
    }
}

async fn lock(state: &StateDir) -> Result<File> {
    let deadline = tokio::time::Instant::now() + LOCK_PATIENCE;
    loop {
        match state.lock() {
            Err(error) if tokio::time::Instant::now() < deadline => {
                tracing::debug!(%error, "Waiting for the state folder");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            locked => return locked,
        }
    }
}

fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost" } else { name }.to_owned()
}
