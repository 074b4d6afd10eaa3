//! What every pass works with.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use polyvirt_api::infra::{
    Provider, VMClass, VMImage, VMMigration, VMNetworkAttachment, VMPlacementPolicy, VMSnapshot,
    VirtualMachine,
};
use polyvirt_contract::ProviderError;
use polyvirt_contract::model::{CreateVm, VmState};
use polyvirt_plan::virtual_machine::{Drift, Intent, Record, Sent};
use tokio::sync::OnceCell;

use crate::calls::{Caller, Policy, Range};
use crate::cluster::{Cluster, ClusterError};
use crate::link::Links;
use crate::placement::{Placements, Unplaced};
use crate::runtime::by_vm::ByVm;
use crate::runtime::key::{Kind, ObjectKey};
use crate::runtime::namespaces::Namespaces;
use crate::runtime::secret_names::SecretNames;
use crate::runtime::store::Store;
use crate::runtime::vm_index::VmIndex;
use crate::snapshot::refusals::Refusals;
use crate::virtual_machine::errands::Errands;

/// The caches, one a kind.
#[derive(Default)]
pub struct Stores {
    /// VMs.
    pub vms: Store<VirtualMachine>,
    /// Who refers to what.
    pub index: VmIndex,
    /// Hypervisors.
    pub providers: Store<Provider>,
    /// Sizes.
    pub classes: Store<VMClass>,
    /// Images.
    pub images: Store<VMImage>,
    /// Networks.
    pub networks: Store<VMNetworkAttachment>,
    /// Snapshots.
    pub snapshots: Store<VMSnapshot>,
    /// Which snapshots are of which VM.
    pub snapshot_index: ByVm,
    /// Moves of VMs.
    pub migrations: Store<VMMigration>,
    /// Which moves are of which VM.
    pub migration_index: ByVm,
    /// Where VMs may run.
    pub policies: Store<VMPlacementPolicy>,
    /// VMs that wait for a host.
    pub unplaced: Unplaced,
    /// Which Secrets there are.
    pub secrets: SecretNames,
    /// The labels of namespaces.
    pub namespaces: Namespaces,
}

impl Stores {
    /// How many objects of a kind there are; `None` for kinds of dialects, which have their own caches.
    pub fn count(&self, kind: Kind) -> Option<usize> {
        Some(match kind {
            Kind::VirtualMachine => self.vms.len(),
            Kind::Provider => self.providers.len(),
            Kind::VMClass => self.classes.len(),
            Kind::VMImage => self.images.len(),
            Kind::VMNetworkAttachment => self.networks.len(),
            Kind::VMSnapshot => self.snapshots.len(),
            Kind::VMPlacementPolicy => self.policies.len(),
            Kind::VMMigration => self.migrations.len(),
            Kind::Machine
            | Kind::KubevirtConfig
            | Kind::NovacronVirtualMachine
            | Kind::VMClone
            | Kind::VMSet => return None,
        })
    }
}

/// What the process remembers of one VM between passes. Losing it costs a question to the provider, never correctness.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    /// The last change that was sent, and the VM as it was then.
    pub sent: Option<(Sent, Option<Arc<VmState>>)>,
    /// The last request that the provider refused for what it says, and why.
    pub refused: Option<Arc<(CreateVm, ProviderError)>>,
    /// What could not be written down. The next pass knows it all the same.
    pub unwritten: Option<Box<Unwritten>>,
    /// The UID of the object that we let go. The watch may still show it for a while.
    pub released: Option<String>,
    /// Hosts that had no room after all. They are tried again when no other is left.
    pub full_hosts: BTreeSet<String>,
    /// Drift that was corrected last. If the VM still shows it, the provider did not do what it accepted.
    pub corrected: Vec<Drift>,
    /// What the provider contradicts itself in, as it was reported.
    pub contradiction: Option<String>,
}

/// What a pass knew when the API server did not take its status.
#[derive(Clone, Debug)]
pub struct Unwritten {
    /// The object that it is about.
    pub uid: Option<String>,
    /// What was to be written.
    pub record: Record,
    /// Whether a create may have been sent.
    pub intent: Intent,
}

impl Memo {
    fn is_empty(&self) -> bool {
        self.sent.is_none()
            && self.refused.is_none()
            && self.unwritten.is_none()
            && self.released.is_none()
            && self.full_hosts.is_empty()
            && self.corrected.is_empty()
            && self.contradiction.is_none()
    }
}

/// Tells the time; the simulation has its own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Told what the answers to our writes changed, so that it wakes whoever they concern.
pub trait Observer: Send + Sync {
    /// A VirtualMachine changed.
    fn vm(&self, change: crate::runtime::store::Change<VirtualMachine>);
    /// An image changed.
    fn image(&self, change: crate::runtime::store::Change<VMImage>);
    /// A snapshot changed.
    fn snapshot(&self, change: crate::runtime::store::Change<VMSnapshot>);
    /// A move of a VM changed.
    fn migration(&self, change: crate::runtime::store::Change<VMMigration>);
    /// A Provider changed.
    fn provider(&self, change: crate::runtime::store::Change<Provider>);
    /// A hook of a VirtualMachine is over.
    fn hook_over(&self, vm: &ObjectKey);
}

/// What every pass works with.
pub struct Context {
    /// The caches.
    pub stores: Arc<Stores>,
    /// Kubernetes.
    pub cluster: Arc<dyn Cluster>,
    /// The providers.
    pub links: Arc<Links>,
    /// The time.
    pub clock: Clock,
    /// Told of our own writes.
    pub observer: Arc<dyn Observer>,
    /// Snapshots that providers refused.
    pub refusals: Refusals,
    /// Where VMs were put, and what providers have.
    pub placements: Placements,
    /// Hooks at work.
    pub(crate) errands: Errands,
    may_call: Policy,
    caller: OnceCell<Caller>,
    memos: Mutex<HashMap<ObjectKey, Memo>>,
}

impl Context {
    /// A context with nothing remembered, as after a start.
    pub fn new(
        stores: Arc<Stores>,
        cluster: Arc<dyn Cluster>,
        links: Arc<Links>,
        clock: Clock,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            stores,
            cluster,
            links,
            clock,
            observer,
            refusals: Refusals::default(),
            placements: Placements::default(),
            errands: Errands::default(),
            may_call: Policy::default(),
            caller: OnceCell::new(),
            memos: Mutex::default(),
        }
    }

    /// The same, with what the operator says of the servers that hooks may call.
    #[must_use]
    pub fn calling(mut self, policy: Policy) -> Self {
        self.may_call = policy;
        self
    }

    /// Calls web servers for users, but none that is a Service of the cluster: which those are is asked once.
    pub async fn caller(&self) -> Result<&Caller, ClusterError> {
        let made = self.caller.get_or_try_init(|| async {
            let services = self.cluster.service_ranges().await?;
            let services: Vec<Range> = services.iter().filter_map(|r| r.parse().ok()).collect();
            Ok(Caller::new(self.may_call.clone().but(services)))
        });
        made.await
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// What is remembered of a VM.
    pub fn memo(&self, key: &ObjectKey) -> Memo {
        self.memos
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
            .unwrap_or_default()
    }

    /// Remembers something of a VM; nothing is kept for a VM of which there is nothing to remember.
    pub fn remember(&self, key: &ObjectKey, memo: Memo) {
        let mut memos = self.memos.lock().unwrap_or_else(PoisonError::into_inner);
        if memo.is_empty() {
            memos.remove(key);
        } else {
            memos.insert(key.clone(), memo);
        }
    }
}
