//! Towards what is desired: at once where KubeVirt can, else at the next start.
//!
//! Claims of new disks come first, then the VirtualMachine that names them, then growth, and last the claims that nobody
//! names any more. Each line is safe to do again; a disk that was to go and did not is found by the next request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;
use polyvirt_contract::model::{CreateVm, VmRef};
use polyvirt_contract::rules::{DiskSizes, only_grows};
use polyvirt_contract::{ErrorKind, ProviderError, Result, TaskId};
use serde_json::Value;

use crate::cluster::Others;
use crate::errors;
use crate::facts::{Fact, claim_bytes, has_condition};
use crate::kinds::{IDENTITY, Kind, VmKey, items, label, owner, text};
use crate::map::layout::Disk;
use crate::map::to_kubevirt::{Making, Run, claim_of};
use crate::map::unplug::is_unplugging;
use crate::vm::create::Plan;
use crate::vm::plug::Way;
use crate::vm::{Core, delete, look, mark_claims, plug};
use crate::{quantity, storage};

/// How long KubeVirt may take to say whether a change waits for a restart.
const VERDICT: Duration = Duration::from_secs(5);
/// How long a change may take to reach a machine that runs: KubeVirt moves it to another node for that, if it is told to.
const ARRIVAL: Duration = Duration::from_mins(3);

/// How long a new claim may take to be bound, unless it waits for the VM's start.
const BINDING: Duration = Duration::from_secs(5);

/// How often a change is tried against somebody who changes the VM at the same time.
const ATTEMPTS: usize = 5;

/// The claims of a VM by their names.
type Claims = BTreeMap<String, DynamicObject>;

/// Brings size, disks, cards and tags to what is desired.
pub(crate) async fn reconfigure(
    core: &Arc<Core>,
    vm: &VmRef,
    desired: CreateVm,
) -> Result<Option<TaskId>> {
    let (key, live) = core.allowed(vm).await?;
    check_mark(core, &key, &desired).await?;
    let plan = Plan::read(core, desired, Some(key)).await?;
    let claims = claims(core, &plan.key.namespace, &live).await?;
    check_growth(&plan, &live, &claims)?;
    let uid = live.metadata.uid.clone().unwrap_or_default();
    let there = live_claims(&live).into_keys().collect();
    plan.provide(core, &uid, &there).await?;
    let way = plug::way(core, &plan, &live).await?;
    let bare = label(&live, IDENTITY).map(str::to_owned);
    let applied = apply(core, vm, &plan, live.clone(), way).await?;
    if label(&applied, IDENTITY) != bare.as_deref() {
        // An unmarked VM has got the mark of whoever asks, and so do its claims.
        let marks = plan.anchor(&uid).marks;
        mark_claims(core, &plan.key, &applied, &marks).await?;
    }
    for disk in plan.layout.all() {
        grow(core, &applied, disk, &claims).await?;
    }
    if way != Way::Off {
        plug::plug(core, &applied, &plan.key).await?;
    }
    take_away(core, &applied, &claims).await?;
    if way == Way::Off {
        delete::left_networks(core, &plan.key, &live).await?;
        return Ok(None);
    }
    let generation = applied.metadata.generation.unwrap_or(0);
    let name = format!("reconfigure {} {generation}", plan.key);
    let core_of_task = core.clone();
    let work = async move {
        arrive(&core_of_task, &plan.key, &applied).await?;
        struck(&core_of_task, &plan.key).await?;
        delete::left_networks(&core_of_task, &plan.key, &live).await
    };
    core.begin(&name, |_| work).answer().await
}

/// One identity is on one VM at most.
async fn check_mark(core: &Core, key: &VmKey, desired: &CreateVm) -> Result<()> {
    let Some(owner) = &desired.owner else {
        return Ok(());
    };
    match look::key_of(core, &owner.identity).await? {
        Some(other) if other != *key => Err(ProviderError::new(
            ErrorKind::IdentityConflict,
            format!("The VM {other} carries this identity already"),
        )),
        _ => Ok(()),
    }
}

async fn claims(core: &Core, namespace: &str, live: &DynamicObject) -> Result<Claims> {
    let Some(identity) = label(live, IDENTITY) else {
        return Ok(Claims::new());
    };
    let owned = storage::owned(&core.cluster, Kind::Claim, namespace, identity).await?;
    let named = owned
        .into_iter()
        .filter_map(|claim| Some((claim.metadata.name.clone()?, claim)));
    Ok(named.collect())
}

/// The claim of a volume as the VM has it now.
fn live_claims(live: &DynamicObject) -> BTreeMap<String, String> {
    match Fact::read(Kind::Vm, live) {
        Some(Fact::Vm(facts)) => facts.disks.into_iter().collect(),
        _ => BTreeMap::new(),
    }
}

fn check_growth(plan: &Plan, live: &DynamicObject, claims: &Claims) -> Result<()> {
    let volumes = live_claims(live);
    let has = |disk: &Disk| {
        let claim = claims.get(volumes.get(&disk.volume)?)?;
        Some(quantity::gib(claim_bytes(&claim.data)))
    };
    let wants = |disk: &Disk| disk.bytes.map_or(0, quantity::gib);
    let root = &plan.layout.root;
    // A first disk of which nobody says how big it is stays as it is.
    let root_has = has(root).filter(|_| root_says(plan)).unwrap_or(0);
    let others = &plan.layout.others;
    let is = DiskSizes {
        root: root_has,
        disks: others
            .iter()
            .filter_map(|disk| Some((disk.volume.as_str(), has(disk)?)))
            .collect(),
    };
    let becomes = DiskSizes {
        root: wants(root),
        disks: others
            .iter()
            .map(|disk| (disk.volume.as_str(), wants(disk)))
            .collect(),
    };
    only_grows(&is, &becomes)
}

/// Whether somebody said how big the first disk is to be.
fn root_says(plan: &Plan) -> bool {
    let option = plan.options.root_disk.as_ref();
    let class = plan.request.class.disk_defaults.as_ref();
    option.is_some_and(|disk| disk.size_bytes.is_some()) || class.is_some_and(|d| d.size_gib > 0)
}

/// Who changes the VM at the same moment makes the server refuse, and us look again.
async fn apply(
    core: &Core,
    vm: &VmRef,
    plan: &Plan,
    live: DynamicObject,
    way: Way,
) -> Result<DynamicObject> {
    let mut live = live;
    for _ in 0..ATTEMPTS {
        match apply_once(core, plan, &live, way).await {
            Err(error) if error.kind == ErrorKind::Precondition => {
                (_, live) = core.allowed(vm).await?;
            }
            answer => return answer,
        }
    }
    apply_once(core, plan, &live, way).await
}

async fn apply_once(
    core: &Core,
    plan: &Plan,
    live: &DynamicObject,
    way: Way,
) -> Result<DynamicObject> {
    let (run, hot) = (Run::of(&live.data), way.hot());
    let leaving = match way {
        Way::Off => Vec::new(),
        _ => plug::leaving(core, plan, live).await?,
    };
    let mut wanted = plan.virtual_machine(run, Making::Done, Some(live), hot, &leaving)?;
    wanted["metadata"]["resourceVersion"] = Value::from(live.metadata.resource_version.clone());
    core.cluster
        .apply(Kind::Vm, &wanted, Others::Override)
        .await
}

async fn grow(core: &Core, vm: &DynamicObject, disk: &Disk, claims: &Claims) -> Result<()> {
    let volumes = live_claims(vm);
    let claim = volumes.get(&disk.volume).and_then(|name| claims.get(name));
    match (claim, disk.bytes) {
        (Some(claim), Some(bytes)) => grow_claim(core, claim, bytes)
            .await
            .map_err(|error| error.at(disk.field.clone())),
        _ => Ok(()),
    }
}

/// A claim that was made a moment ago is about to be bound, and cannot grow before that.
async fn grow_claim(core: &Core, claim: &DynamicObject, bytes: u64) -> Result<()> {
    let unbound = match storage::grow(&core.cluster, claim, bytes).await {
        Err(error) if error.kind == ErrorKind::Precondition => error,
        answer => return answer,
    };
    let metadata = &claim.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let key = VmKey::new(metadata.namespace.clone().unwrap_or_default(), name);
    let bound = |claim: Option<&DynamicObject>| {
        claim.is_none_or(|claim| text(&claim.data, "/status/phase") == "Bound")
    };
    if core.until(Kind::Claim, &key, BINDING, bound).await.is_err() {
        return Err(unbound);
    }
    storage::grow(&core.cluster, claim, bytes).await
}

/// Claims that carry the VM's identity and that the VM does not name any more; the volume first, for CDI would make its claim
/// again.
async fn take_away(core: &Core, vm: &DynamicObject, claims: &Claims) -> Result<()> {
    let named = volumes_of(vm);
    let left: Vec<(&String, &DynamicObject)> = claims
        .iter()
        .filter(|(name, claim)| !named.contains(*name) && owner(claim).is_some())
        .filter(|(_, claim)| claim.metadata.deletion_timestamp.is_none())
        .collect();
    let (Some(identity), false) = (label(vm, IDENTITY), left.is_empty()) else {
        return Ok(());
    };
    let namespace = vm.metadata.namespace.clone().unwrap_or_default();
    let volumes = storage::owned(&core.cluster, Kind::DataVolume, &namespace, identity).await?;
    for (name, claim) in left {
        tracing::info!(claim = %name, "a disk was taken from its VM and is deleted");
        let same = |volume: &&DynamicObject| volume.metadata.name.as_ref() == Some(name);
        for volume in volumes.iter().filter(same) {
            core.cluster.delete(Kind::DataVolume, volume).await?;
        }
        core.cluster.delete(Kind::Claim, claim).await?;
    }
    Ok(())
}

fn volumes_of(vm: &DynamicObject) -> BTreeSet<String> {
    let volumes = items(&vm.data, "/spec/template/spec/volumes").iter();
    volumes.filter_map(claim_of).map(str::to_owned).collect()
}

/// Waits until the machine that runs has what the VM says, or KubeVirt has said that it waits for a restart, which it may say
/// after it has told that it knows of the change. It may be slow, or do neither: then whoever looks later sees it.
async fn arrive(core: &Core, key: &VmKey, applied: &DynamicObject) -> Result<()> {
    verdict(core, key, applied).await?;
    let there = |instance: Option<&DynamicObject>| instance.is_none_or(|i| has_all(i, applied));
    let waits =
        |vm: Option<&DynamicObject>| vm.is_none_or(|vm| has_condition(&vm.data, "RestartRequired"));
    let answer = tokio::select! {
        answer = core.until(Kind::Vmi, key, ARRIVAL, there) => answer,
        answer = core.until(Kind::Vm, key, ARRIVAL, waits) => answer,
    };
    give_up(answer)?;
    plugged(core, key).await
}

/// A disk that KubeVirt was told to plug in, and that is not in the machine by now, is not there: who looks for it in the guest
/// must know why.
async fn plugged(core: &Core, key: &VmKey) -> Result<()> {
    let Some(instance) = core.cluster.get(Kind::Vmi, key).await? else {
        return Ok(());
    };
    let Some(Fact::Instance(facts)) = Fact::read(Kind::Vmi, &instance) else {
        return Ok(());
    };
    match facts.coming.first() {
        Some((disk, said)) if facts.is_up() => Err(errors::not_plugged(key, disk, said)),
        _ => Ok(()),
    }
}

/// Waits until KubeVirt has struck the cards that it was told to unplug, which it does after they are out: until then their
/// networks count as used. Cards that wait for a restart are waited for by nobody.
async fn struck(core: &Core, key: &VmKey) -> Result<()> {
    let clean = |object: Option<&DynamicObject>| {
        object.is_none_or(|o| !is_unplugging(&o.data) || has_condition(&o.data, "RestartRequired"))
    };
    give_up(core.until(Kind::Vm, key, ARRIVAL, clean).await)?;
    give_up(core.until(Kind::Vmi, key, ARRIVAL, clean).await)
}

/// Whether the machine has the size, disks and cards that the VM says.
fn has_all(instance: &DynamicObject, vm: &DynamicObject) -> bool {
    let facts = (Fact::read(Kind::Vm, vm), Fact::read(Kind::Vmi, instance));
    match facts {
        (Some(Fact::Vm(vm)), Some(Fact::Instance(instance))) => instance.has_all(&vm),
        _ => true,
    }
}

fn give_up(answer: Result<()>) -> Result<()> {
    match answer {
        Err(error) if error.kind == ErrorKind::Timeout => Ok(()),
        answer => answer,
    }
}

async fn verdict(core: &Core, key: &VmKey, applied: &DynamicObject) -> Result<()> {
    let generation = applied.metadata.generation.unwrap_or(0);
    let judged = |vm: Option<&DynamicObject>| {
        let seen = vm.and_then(|vm| vm.data.pointer("/status/desiredGeneration")?.as_i64());
        vm.is_none() || seen.is_some_and(|seen| seen >= generation)
    };
    give_up(core.until(Kind::Vm, key, VERDICT, judged).await)
}
