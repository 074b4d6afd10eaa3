//! What all parts share: the link to libvirt, what is known of each VM, tasks, and the stream of changes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use polyvirt_contract::model::{Owner, VmRef, VmState};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Identity, ProviderError, Result, SnapshotId, VmId};
use polyvirt_provider_kit::hub::Hub;
use polyvirt_provider_kit::tasks::Tasks;
use polyvirt_provider_kit::turns::Turns;
use polyvirt_provider_kit::uuid::Uuid;
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::addresses::{Again, Asking};
use crate::config::LibvirtConfig;
use crate::domain::Machine;
use crate::errors;
use crate::frozen::Frozen;
use crate::inventory::Host;
use crate::rpc::{Event, LIFE_EVENT, Link, REBOOT_EVENT, Session};
use crate::sizes::Sizes;

/// The provider without its outer shell.
pub(crate) struct Core {
    pub(crate) config: Arc<LibvirtConfig>,
    pub(crate) link: Arc<Link>,
    pub(crate) hub: Hub,
    pub(crate) tasks: Tasks,
    /// Held while names and addresses are given out.
    pub(crate) admission: tokio::sync::Mutex<()>,
    pub(crate) stop: CancellationToken,
    pub(crate) dirty: Arc<Dirty>,
    pub(crate) host: OnceCell<Host>,
    /// Whoever makes an image or clears one away, by pool and image.
    pub(crate) images: Turns,
    /// Held by whoever asks a guest where it is.
    pub(crate) asks: Semaphore,
    pub(crate) sizes: Sizes,
    told_all: AtomicBool,
    vms: Mutex<BTreeMap<Uuid, Arc<Vm>>>,
    revision: Arc<Revisions>,
}

/// Numbers that only grow: of two states of a VM the one with the higher number is newer, whichever host told it.
pub(crate) struct Revisions(AtomicU64);

impl Revisions {
    /// Higher than any number of an earlier life, unless the clock was set back.
    pub(crate) fn begin() -> Arc<Self> {
        let micros = u64::try_from(since_epoch().as_micros()).unwrap_or(0);
        Arc::new(Self(AtomicU64::new(micros)))
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

/// What is known of a domain, and what orders work on it.
pub(crate) struct Vm {
    pub(crate) uuid: Uuid,
    /// Held by whoever changes the VM.
    pub(crate) change: tokio::sync::Mutex<()>,
    /// Held by whoever looks at it, so that an older look never follows a newer one.
    pub(crate) look: tokio::sync::Mutex<()>,
    /// Told of every look that saw a change.
    pub(crate) changed: Notify,
    /// Whether a look is about to begin, which will see all that happened so far.
    pub(crate) awaits_look: AtomicBool,
    /// Whether it is on its way between two hosts.
    travels: AtomicBool,
    /// Whether its guest was left frozen.
    pub(crate) frozen: Frozen,
    asking: Mutex<Asking>,
    known: Mutex<Known>,
    /// What a person must do before the VM can leave or stay.
    trouble: OnceLock<String>,
}

/// What was seen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) state: VmState,
    /// The machine as it will start; `None` until it was seen.
    pub(crate) config: Option<Machine>,
    /// The machine as it runs.
    pub(crate) live: Option<Machine>,
}

/// Which domains must be looked at.
#[derive(Default)]
pub(crate) struct Dirty {
    inside: Mutex<Marked>,
    pub(crate) woken: Notify,
}

/// What must be looked at.
#[derive(Default)]
pub(crate) struct Marked {
    pub(crate) all: bool,
    /// With the reason to ask the guest again, if there is one.
    pub(crate) some: BTreeMap<Uuid, Option<Again>>,
}

impl Dirty {
    fn lock(&self) -> MutexGuard<'_, Marked> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened to a domain. As many as there are can wait here, and no more.
    pub(crate) fn event(&self, event: &Event) {
        tracing::trace!(message = event.procedure, vm = %event.domain, "libvirt tells");
        let turned = event.procedure == LIFE_EVENT || event.procedure == REBOOT_EVENT;
        self.insert(event.domain, turned.then_some(Again::Happened));
    }

    pub(crate) fn mark(&self, uuid: Uuid) {
        self.insert(uuid, None);
    }

    fn insert(&self, uuid: Uuid, again: Option<Again>) {
        let mut marked = self.lock();
        let why = marked.some.entry(uuid).or_default();
        *why = (*why).max(again);
        drop(marked);
        self.woken.notify_one();
    }

    /// Anything may have happened.
    pub(crate) fn all(&self) {
        self.lock().all = true;
        self.woken.notify_one();
    }

    pub(crate) fn take(&self) -> Marked {
        std::mem::take(&mut *self.lock())
    }
}

/// A VM on its way between two hosts, for as long as this is held. Nobody looks at it meanwhile because of what libvirt tells: whoever
/// moves it looks at the end, and while its guest stands still libvirt has better things to do than to answer.
pub(crate) struct Travel<'a>(&'a Vm);

impl Drop for Travel<'_> {
    fn drop(&mut self) {
        self.0.travels.store(false, Ordering::Relaxed);
    }
}

impl Vm {
    pub(crate) fn travel(&self) -> Travel<'_> {
        self.travels.store(true, Ordering::Relaxed);
        Travel(self)
    }

    pub(crate) fn travels(&self) -> bool {
        self.travels.load(Ordering::Relaxed)
    }

    fn new(uuid: Uuid) -> Self {
        Self {
            uuid,
            change: tokio::sync::Mutex::default(),
            look: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            awaits_look: AtomicBool::new(false),
            travels: AtomicBool::new(false),
            frozen: Frozen::default(),
            asking: Mutex::default(),
            known: Mutex::default(),
            trouble: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen last.
    pub(crate) fn known(&self) -> Known {
        self.lock().clone()
    }

    pub(crate) fn state(&self) -> VmState {
        self.lock().state.clone()
    }

    /// Has the next look read what libvirt keeps of a snapshot anew.
    pub(crate) fn forget_snapshot(&self, id: &SnapshotId) {
        let mut known = self.lock();
        if let Some(list) = &mut known.state.snapshots {
            list.retain(|snapshot| snapshot.id != *id);
        }
    }

    /// Whether it was ever seen.
    pub(crate) fn seen(&self) -> bool {
        self.lock().config.is_some()
    }

    /// Whether it leaves this host, or has left it.
    pub(crate) fn leaves(&self) -> bool {
        let known = self.lock();
        let marks = known.config.as_ref().and_then(|c| c.marks.as_ref());
        marks.is_some_and(|marks| marks.leaves_as().is_some())
    }

    /// Tells of trouble on its way to another host, in this life and as long as it is on its way.
    pub(crate) fn is_in_trouble(&self, why: String) {
        let _ = self.trouble.set(why);
    }

    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.get().map(String::as_str)
    }

    /// The machine as it will start.
    pub(crate) fn config(&self) -> Result<Machine> {
        self.lock()
            .config
            .clone()
            .ok_or_else(|| errors::no_vm(self.uuid))
    }

    /// The machine as it runs; `None` if it does not.
    pub(crate) fn live(&self) -> Option<Machine> {
        self.lock().live.clone()
    }

    /// What its guest has told, and who is asking it. Not to be held across an await.
    pub(crate) fn asking(&self) -> MutexGuard<'_, Asking> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells tasks of this provider from those of another, and from those of an earlier life.
fn life(now: Duration) -> String {
    static PROVIDERS: AtomicU64 = AtomicU64::new(0);
    let number = PROVIDERS.fetch_add(1, Ordering::Relaxed);
    format!("task-{:x}-{number}", now.as_millis())
}

impl Core {
    pub(crate) fn open(config: LibvirtConfig, revision: Arc<Revisions>) -> Arc<Self> {
        let config = Arc::new(config);
        let dirty = Arc::new(Dirty::default());
        let (on_event, on_open) = (dirty.clone(), dirty.clone());
        let link = Link::start(
            config.clone(),
            Arc::new(move |event| on_event.event(&event)),
            move || on_open.all(),
        );
        let hub = Hub::new();
        Arc::new(Self {
            config,
            link: Arc::new(link),
            tasks: Tasks::new(hub.clone(), life(since_epoch())),
            hub,
            admission: tokio::sync::Mutex::default(),
            stop: CancellationToken::new(),
            dirty,
            host: OnceCell::new(),
            images: Turns::default(),
            asks: Semaphore::new(1),
            sizes: Sizes::default(),
            told_all: AtomicBool::new(false),
            vms: Mutex::default(),
            revision,
        })
    }

    /// The session with libvirt.
    pub(crate) async fn session(&self) -> Result<Session> {
        Ok(self.link.session().await?)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<Vm>>> {
        self.vms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all domains were seen once since this provider began.
    pub(crate) fn has_told_all(&self) -> bool {
        self.told_all.load(Ordering::Relaxed)
    }

    pub(crate) fn set_told_all(&self) {
        self.told_all.store(true, Ordering::Relaxed);
    }

    /// All that were seen.
    pub(crate) fn all(&self) -> Vec<Arc<Vm>> {
        let all: Vec<_> = self.lock().values().cloned().collect();
        all.into_iter().filter(|vm| vm.seen()).collect()
    }

    pub(crate) fn states(&self) -> Vec<VmState> {
        self.all().iter().map(|vm| vm.state()).collect()
    }

    /// One that was seen.
    pub(crate) fn seen(&self, id: &VmId) -> Option<Arc<Vm>> {
        let uuid = Uuid::parse(id.as_str())?;
        let found = self.lock().get(&uuid).cloned();
        found.filter(|vm| vm.seen())
    }

    /// The entry of a domain, whether it is there or not.
    pub(crate) fn entry(&self, uuid: Uuid) -> Arc<Vm> {
        let mut vms = self.lock();
        vms.entry(uuid)
            .or_insert_with(|| Arc::new(Vm::new(uuid)))
            .clone()
    }

    /// Takes in what was seen, and tells if that is news. The caller holds [`Vm::look`].
    pub(crate) fn keep(&self, vm: &Vm, mut seen: Known) -> VmState {
        let mut known = vm.lock();
        seen.state.revision = known.state.revision;
        let news = known.config.is_none() || known.state != seen.state;
        if news {
            seen.state.revision = self.revision.next();
        }
        *known = seen;
        let state = known.state.clone();
        if news {
            // Under the lock, so that readers hear of changes in their order.
            self.hub.publish(VmEvent::State(state.clone()));
        }
        drop(known);
        if news {
            vm.changed.notify_waiters();
        }
        state
    }

    /// Forgets a domain that is not there, and tells if it was. The caller holds [`Vm::look`].
    pub(crate) fn forget(&self, vm: &Vm) {
        let known = std::mem::take(&mut *vm.lock());
        // Whoever changes it, or waits to, keeps the entry that orders the changes.
        let mut vms = self.lock();
        if vms
            .get(&vm.uuid)
            .is_some_and(|entry| Arc::strong_count(entry) <= 2)
        {
            vms.remove(&vm.uuid);
        }
        drop(vms);
        if known.config.is_some() {
            self.hub.publish(VmEvent::Gone {
                id: vm.uuid.vm_id(),
                identity: known.state.owner.map(|owner| owner.identity),
                revision: self.revision.next(),
            });
        }
        vm.changed.notify_waiters();
    }

    /// The VM, looked at just now.
    pub(crate) async fn by_id(self: &Arc<Self>, id: &VmId) -> Result<Arc<Vm>> {
        let absent = || ProviderError::not_found(format!("The VM {id}"));
        let uuid = Uuid::parse(id.as_str()).ok_or_else(absent)?;
        let vm = self.entry(uuid);
        self.look(&vm).await?.ok_or_else(absent)?;
        Ok(vm)
    }

    /// The VM that carries the identity: the one of that UUID, or one that was taken over.
    pub(crate) async fn by_identity(
        self: &Arc<Self>,
        identity: &Identity,
    ) -> Result<Option<Arc<Vm>>> {
        let carries = |owner: Option<&Owner>| owner.is_some_and(|o| o.identity == *identity);
        let vm = self.entry(Uuid::of_identity(identity));
        if let Some(state) = self.look(&vm).await?
            && carries(state.owner.as_ref())
        {
            return Ok(Some(vm));
        }
        let taken_over = self.all().into_iter();
        Ok(taken_over
            .into_iter()
            .find(|vm| carries(vm.state().owner.as_ref())))
    }

    /// The VM, if whoever asks may touch it.
    pub(crate) async fn allowed(self: &Arc<Self>, vm: &VmRef) -> Result<Arc<Vm>> {
        let found = self.by_id(&vm.id).await?;
        let (Some(asks), Some(holds)) = (&vm.owner, found.state().owner) else {
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
}
