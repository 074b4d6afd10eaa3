//! Find or create.
//!
//! ```text
//!   1 find by identity          there, whole: that is it         there, being made: go on at 4
//!   2 look at the name          free: go on                      taken: adopt it if that was asked for, else refuse
//!   3 apply the VirtualMachine, halted, marked as being made     the name is ours from here on
//!   4 apply Secret, claims, volumes, networks                    each once, owned by the VirtualMachine
//!   5 apply the VirtualMachine without the mark                  whole
//!   6 as a task: wait until the images are there                 nothing depends on it
//! ```
//!
//! Whoever dies between two lines, or loses a reply, sends the request again and goes on where it was. Two at once write the
//! same, and the one that comes late sees that the mark is gone. Before line 3 there is nothing but perhaps a namespace; after it the VM is found by its identity.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;
use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_contract::model::{CreateVm, Created};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::{Value, json};

use crate::access::{self, Reader};
use crate::cluster::Others;
use crate::errors;
use crate::kinds::{CREATING, Kind, MANAGED_BY, MANAGER, VmKey, annotation, owner, text};
use crate::map::cards::{Card, cards};
use crate::map::cloud_init::Seed;
use crate::map::layout::{Disk, Layout, Source};
use crate::map::objects::{self, Anchor, Marks};
use crate::map::seat::Seat;
use crate::map::to_kubevirt::{Hot, Making, Run, Wish};
use crate::map::unplug::Leaving;
use crate::vm::{Core, adopt, look};
use crate::{check, proof, storage};

/// Where VMs without an owner go, if nothing says where.
const NOBODYS: &str = "default";

/// Phases of a DataVolume in which nothing happens before the VM starts.
const AT_REST: &[&str] = &[
    "Succeeded",
    "Failed",
    "WaitForFirstConsumer",
    "PendingPopulation",
    "Paused",
];
/// How often the mark is taken away against somebody who changes the VM at the same time.
const ATTEMPTS: usize = 10;
const PRINTABLE: &str = "/status/printableStatus";
/// How long images may take.
const FETCHED: Duration = Duration::from_mins(100);
/// How long KubeVirt may take to look at a new VM.
const SEEN: Duration = Duration::from_secs(5);

/// A request that was read and checked.
pub(crate) struct Plan {
    pub(crate) key: VmKey,
    pub(crate) request: CreateVm,
    pub(crate) options: KubevirtOptions,
    pub(crate) layout: Layout,
    pub(crate) cards: Vec<Card>,
    pub(crate) seed: Option<Seed>,
    cluster: String,
}

impl Plan {
    /// Reads a request for a VM that is to be at `key`, or where the request says.
    pub(crate) async fn read(core: &Core, request: CreateVm, key: Option<VmKey>) -> Result<Self> {
        check::request(&request)?;
        let options = check::options(&request)?;
        let key = match key {
            Some(key) => key,
            None => place(core, &request, &options)?,
        };
        let layout = Layout::of(&request, &options, &key)?;
        check::layout(&layout)?;
        let owner = request.owner.as_ref();
        let identity = owner.map_or_else(|| key.to_string(), |owner| owner.identity.to_string());
        let cards = cards(&request.networks, &options, &identity)?;
        let seed = Seed::of(&request, &cards, options.cloud_init.unwrap_or_default());
        let cluster = match options.owner {
            Some(_) => core.cluster.uid().await?,
            None => String::new(),
        };
        Ok(Self {
            key,
            request,
            options,
            layout,
            cards,
            seed,
            cluster,
        })
    }

    pub(crate) fn virtual_machine(
        &self,
        run: Run,
        making: Making,
        live: Option<&DynamicObject>,
        hot: Hot,
        leaving: &[Leaving],
    ) -> Result<Value> {
        let wish = Wish {
            key: &self.key,
            request: &self.request,
            options: &self.options,
            layout: &self.layout,
            cards: &self.cards,
            seed: self.seed.as_ref(),
            run,
            making,
            live: live.map(|live| &live.data),
            seat: Seat::of(&self.request, &self.options, live),
            hot,
            leaving,
            cluster: &self.cluster,
        };
        wish.virtual_machine()
    }

    /// What claims and Secrets are made under.
    pub(crate) fn anchor<'a>(&'a self, uid: &'a str) -> Anchor<'a> {
        Anchor {
            key: &self.key,
            uid,
            marks: Marks {
                owner: self.request.owner.as_ref(),
                labels: &self.options.labels,
            },
        }
    }

    /// In whose name the source of a disk is read: that of the VM, or of the VMImage that its first disk is made from.
    fn reader(&self, core: &Core, disk: &Disk) -> Reader {
        let (image, owner) = (&self.request.image.reader, self.request.owner.as_ref());
        let of_image = disk.volume == self.layout.root.volume && !image.is_empty();
        let own = owner.map_or(&self.key.namespace, |owner| &owner.namespace);
        let namespace = if of_image { image } else { own };
        Reader::new(namespace, core.cluster.namespace.as_deref())
    }

    /// Refuses a source that the VM may not have, before anything of it is made.
    async fn may_be_made(&self, core: &Core) -> Result<()> {
        for disk in self.layout.all() {
            let reader = self.reader(core, disk);
            let granted = access::granted(core, &reader, &disk.source).await;
            granted.map_err(|error| error.at("spec.image"))?;
        }
        Ok(())
    }

    /// Makes what belongs to the VM and is not there; volumes that have their claims keep them.
    pub(crate) async fn provide(
        &self,
        core: &Core,
        uid: &str,
        there: &BTreeSet<String>,
    ) -> Result<()> {
        let anchor = self.anchor(uid);
        if let Some(data) = self.seed.as_ref().and_then(Seed::secret) {
            storage::provide_secret(&core.cluster, &anchor, &data).await?;
        }
        for disk in self
            .layout
            .all()
            .filter(|disk| !there.contains(&disk.volume))
        {
            storage::provide(core, &anchor, disk, &self.reader(core, disk)).await?;
        }
        self.provide_networks(core).await
    }

    async fn provide_networks(&self, core: &Core) -> Result<()> {
        let wanted = self.request.networks.iter();
        let options = wanted.filter_map(|nic| self.options.networks.get(&nic.name));
        for attachment in options.filter_map(|option| option.attachment.as_ref()) {
            let Some(config) = &attachment.config else {
                continue;
            };
            let object = objects::attachment(&self.key.namespace, attachment, config);
            let applied = core
                .cluster
                .apply(Kind::Nad, &object, Others::Respect)
                .await;
            match applied {
                // Somebody else's definition of that name is used as it is.
                Err(error) if error.kind == ErrorKind::Precondition => {}
                answer => drop(answer?),
            }
        }
        Ok(())
    }
}

/// Where the request wants the VM. Its object is in a namespace, and whoever may write there may not reach into another one.
fn place(core: &Core, request: &CreateVm, options: &KubevirtOptions) -> Result<VmKey> {
    let owners = request.owner.as_ref().map(|owner| owner.namespace.as_str());
    let only = core.cluster.namespace.as_deref();
    let (wanted, may) = (options.namespace.as_deref(), only.or(owners));
    if let (Some(wanted), Some(may)) = (wanted, may)
        && wanted != may
    {
        let message = format!("This VM may be in the namespace {may} only, and asks for {wanted}");
        return Err(ProviderError::invalid("class.extraConfig", message));
    }
    let namespace = may.or(wanted).unwrap_or(NOBODYS);
    let name = options
        .vm_name
        .clone()
        .unwrap_or_else(|| request.name.clone());
    Ok(VmKey::new(namespace, name))
}

/// Finds the VM of this identity, or makes it.
pub(crate) async fn create(core: &Arc<Core>, mut request: CreateVm) -> Result<Created> {
    let identity = request.owner.as_ref().map(|owner| owner.identity.clone());
    let there = match &identity {
        Some(identity) => look::key_of(core, identity).await?,
        None => None,
    };
    let known = there.is_some();
    proof::settle(&mut request.image, core.images.hosts).await?;
    let plan = Plan::read(core, request, there).await?;
    if !known && let Some(adopted) = adopt::adopt(core, &plan).await? {
        return Ok(adopted);
    }
    let live = core.cluster.get(Kind::Vm, &plan.key).await?;
    if let Some(live) = &live {
        may_go_on(&plan, live)?;
        if annotation(live, CREATING).is_none() {
            return Ok(created(&plan));
        }
    }
    storage::classes_exist(&core.cluster, &plan.layout).await?;
    if live.is_none() {
        plan.may_be_made(core).await?;
    }
    make(core, &plan, live.as_ref()).await?;
    let id = plan.key.id();
    let (name, core_of_task) = (format!("create {id}"), core.clone());
    let work = async move { settled(&core_of_task, &plan).await };
    let task = core.begin(&name, |_| work).answer().await?;
    Ok(Created { id, task })
}

fn created(plan: &Plan) -> Created {
    Created {
        id: plan.key.id(),
        task: None,
    }
}

/// Waits for images to be fetched, or to wait for the first start, and then a moment for KubeVirt to have seen it. A failure
/// is not the end of the VM: its state tells, and CDI tries again.
async fn settled(core: &Core, plan: &Plan) -> Result<()> {
    let filled = plan
        .layout
        .all()
        .filter(|disk| disk.source != Source::Empty);
    for disk in filled {
        let volume = VmKey::new(&plan.key.namespace, disk.claim.name());
        let at_rest = |volume: Option<&DynamicObject>| {
            volume.is_none_or(|volume| AT_REST.contains(&text(&volume.data, "/status/phase")))
        };
        core.until(Kind::DataVolume, &volume, FETCHED, at_rest)
            .await?;
    }
    let seen = |vm: Option<&DynamicObject>| {
        vm.is_none_or(|vm| !matches!(text(&vm.data, PRINTABLE), "" | "Provisioning"))
    };
    match core.until(Kind::Vm, &plan.key, SEEN, seen).await {
        Err(error) if error.kind == ErrorKind::Timeout => Ok(()),
        answer => answer,
    }
}

/// A VM of that name must be ours, and not on its way out.
fn may_go_on(plan: &Plan, live: &DynamicObject) -> Result<()> {
    let is = owner(live).map(|owner| owner.identity);
    let wanted = plan.request.owner.as_ref().map(|o| o.identity.clone());
    if is != wanted || is.is_none() {
        return Err(name_conflict(&plan.key));
    }
    if live.metadata.deletion_timestamp.is_some() {
        let message = format!(
            "The VM {} is still being deleted; it is tried again",
            plan.key
        );
        return Err(errors::precondition(message));
    }
    Ok(())
}

fn name_conflict(key: &VmKey) -> ProviderError {
    let message = format!(
        "There is a VirtualMachine {key} that is not ours; rename the VM, or delete the other one"
    );
    ProviderError::new(ErrorKind::NameConflict, message)
}

async fn make(core: &Core, plan: &Plan, live: Option<&DynamicObject>) -> Result<()> {
    ensure_namespace(core, &plan.key.namespace).await?;
    let vm = match live {
        Some(live) => live.clone(),
        None => match begin(core, plan).await? {
            Some(vm) => vm,
            None => return Ok(()),
        },
    };
    let uid = vm.metadata.uid.clone().unwrap_or_default();
    plan.provide(core, &uid, &BTreeSet::new()).await?;
    finish(core, plan, &vm).await
}

/// Takes the name. `None` if the same request was quicker elsewhere and has made the VM whole.
async fn begin(core: &Core, plan: &Plan) -> Result<Option<DynamicObject>> {
    let begun = plan.virtual_machine(Run::Halted, Making::Begun, None, Hot::Stopped, &[])?;
    match core.cluster.apply(Kind::Vm, &begun, Others::Respect).await {
        // Fields of somebody else are in the way: somebody was quicker with this name, or with this VM.
        Err(error) if error.kind == ErrorKind::Precondition => {
            let live = core.cluster.get(Kind::Vm, &plan.key).await?.ok_or(error)?;
            may_go_on(plan, &live)?;
            Ok(Some(live).filter(|live| annotation(live, CREATING).is_some()))
        }
        applied => applied.map(Some),
    }
}

/// Takes the mark away. Who has changed the VM since then, such as by starting it, is not overruled.
async fn finish(core: &Core, plan: &Plan, vm: &DynamicObject) -> Result<()> {
    let mut seen = vm.clone();
    for _ in 0..ATTEMPTS {
        if annotation(&seen, CREATING).is_none() {
            return Ok(());
        }
        let run = Run::of(&seen.data);
        let mut whole = plan.virtual_machine(run, Making::Done, Some(&seen), Hot::Stopped, &[])?;
        whole["metadata"]["resourceVersion"] = json!(seen.metadata.resource_version);
        match core.cluster.apply(Kind::Vm, &whole, Others::Override).await {
            Ok(made) => return unmark(core, &made).await,
            Err(error) if error.kind == ErrorKind::Precondition => {
                seen = core.cluster.get(Kind::Vm, &plan.key).await?.ok_or(error)?;
                may_go_on(plan, &seen)?;
            }
            Err(error) => return Err(error),
        }
    }
    let message = format!(
        "The VM {} changes all the time; it is tried again",
        plan.key
    );
    Err(errors::precondition(message))
}

/// Somebody else may hold the mark too, such as a backup that was put back.
async fn unmark(core: &Core, made: &DynamicObject) -> Result<()> {
    if annotation(made, CREATING).is_none() {
        return Ok(());
    }
    let unmark = json!({"metadata": {"annotations": {CREATING: null}}});
    core.cluster.patch(Kind::Vm, made, unmark).await.map(drop)
}

/// The namespace is made if it is not there, and never taken away.
pub(crate) async fn ensure_namespace(core: &Core, name: &str) -> Result<()> {
    match core.cluster.get_global(Kind::Namespace, name).await {
        Ok(Some(_)) => return Ok(()),
        // Who may not see namespaces may still use one.
        Err(error) if error.kind == ErrorKind::PermissionDenied => return Ok(()),
        answer => drop(answer?),
    }
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {MANAGED_BY: MANAGER}},
    });
    core.cluster
        .apply(Kind::Namespace, &namespace, Others::Respect)
        .await
        .map(drop)
}
