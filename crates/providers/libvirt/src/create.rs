//! Find or create by identity.
//!
//! The domain is defined first, marked as half made; the mark goes last. A failure removes what was made, and so does the
//! next session of a provider that was cut off in between.

use std::sync::Arc;

use polyvirt_contract::model::{CreateVm, Created, NicSpec, Owner, Stage};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::check::normal_mac;
use polyvirt_provider_kit::tasks::Begun;
use polyvirt_provider_kit::uuid::Uuid;

use crate::clone::{Copy, volume_at};
use crate::core::{Core, Vm};
use crate::desired::{self, Wanted};
use crate::domain::{Marks, build};
use crate::rpc::{Domain, Session, flags};
use crate::seed::{self, Documents};
use crate::storage::{self, Kind, Pool};
use crate::xml::Element;
use crate::{check, errors, image, remove};

/// What the disks of a new VM are made from.
pub(crate) enum Origin {
    /// An image, which may have to be brought first.
    Request(Box<(Wanted, CreateVm)>),
    /// Another VM.
    Clone(Box<Copy>),
}

/// A domain to define, and what is needed to fill it.
pub(crate) struct Plan {
    pub(crate) uuid: Uuid,
    pub(crate) xml: Element,
    pub(crate) marks: Marks,
}

/// What a VM's first disk is called in the names of volumes.
pub(crate) const ROOT: &str = "root";

/// The VM of the request's identity, made now if it is not there.
pub(crate) async fn create(core: &Arc<Core>, request: CreateVm) -> Result<Created> {
    check::request(&request)?;
    core.know_all().await?;
    let admitted = core.admission.lock().await;
    if let Some(found) = already_there(core, request.owner.as_ref(), &request.name).await? {
        drop(admitted);
        return resume(core, &found).await;
    }
    check_macs(core, &request, None)?;
    let session = core.session().await?;
    check_host(core, &session, &request).await?;
    let uuid = new_uuid(request.owner.as_ref())?;
    let wanted = desired::of_new(core, &session, &request, uuid).await?;
    let virt = core.host_facts(&session).await?.virt;
    let plan = Plan {
        uuid,
        xml: wanted.new_domain(virt).with(build::domain)?,
        marks: wanted.marks.clone(),
    };
    let begun = make(
        core,
        &session,
        plan,
        Origin::Request(Box::new((wanted, request))),
    )
    .await;
    drop(admitted);
    answer(uuid, begun?).await
}

pub(crate) fn new_uuid(owner: Option<&Owner>) -> Result<Uuid> {
    match owner {
        Some(owner) => Ok(Uuid::of_identity(&owner.identity)),
        None => Uuid::random().map_err(|e| errors::internal(format!("No random number: {e}"))),
    }
}

pub(crate) async fn answer(uuid: Uuid, begun: Begun) -> Result<Created> {
    Ok(Created {
        id: uuid.vm_id(),
        task: begun.answer().await?,
    })
}

/// The VM that the identity has already, or the reason why the name cannot be had.
pub(crate) async fn already_there(
    core: &Arc<Core>,
    owner: Option<&Owner>,
    name: &str,
) -> Result<Option<Arc<Vm>>> {
    if let Some(owner) = owner {
        if let Some(vm) = core.by_identity(&owner.identity).await? {
            return Ok(Some(vm));
        }
        let vm = core.entry(Uuid::of_identity(&owner.identity));
        if vm.seen() {
            return Err(identity_taken(&vm));
        }
    }
    let Some(domain) = core.session().await?.by_name(name).await? else {
        return Ok(None);
    };
    let vm = core.entry(domain.uuid);
    core.look(&vm).await?;
    let state = vm.state();
    let unfinished = state.owner.is_none() && state.stage == Stage::Creating;
    if owner.is_none() && unfinished {
        return Ok(Some(vm));
    }
    Err(name_taken(&vm, name))
}

fn identity_taken(vm: &Vm) -> ProviderError {
    let message = format!(
        "The domain {} has the UUID of this identity and belongs to somebody else; it is not touched",
        vm.uuid
    );
    ProviderError::new(ErrorKind::IdentityConflict, message)
}

fn name_taken(vm: &Vm, name: &str) -> ProviderError {
    let holder = vm.state().owner.map_or_else(
        || "nobody has marked as theirs".to_owned(),
        |owner| format!("belongs to {}/{}", owner.namespace, owner.name),
    );
    let message = format!(
        "The name {name} is taken by the domain {}, which {holder}; rename one of the two, or delete that one",
        vm.uuid
    );
    ProviderError::new(ErrorKind::NameConflict, message).at("metadata.name")
}

/// The answer for a VM that is there: itself, or the work on it that is under way.
pub(crate) async fn resume(core: &Arc<Core>, vm: &Vm) -> Result<Created> {
    let id = vm.uuid.vm_id();
    let task = match vm.state().stage {
        Stage::Whole => None,
        Stage::Deleting => return Err(not_now(vm, "is being deleted; wait until it is gone")),
        Stage::Creating => {
            if made_by_another(core, vm) {
                let why = "is being made by another provider of this libvirt; wait for that, or delete the domain by hand";
                return Err(not_now(vm, why));
            }
            let Some(begun) = core.tasks.find(&key(vm.uuid)) else {
                // Left behind by an earlier life: it goes, and then it is made anew.
                core.dirty.all();
                let why = "was left half made and is being removed; try again";
                return Err(not_now(vm, why));
            };
            begun.answer().await?
        }
    };
    Ok(Created { id, task })
}

fn not_now(vm: &Vm, why: &str) -> ProviderError {
    errors::precondition(format!("The VM {} {why}", vm.uuid))
}

/// Refuses a VM that is half made or half gone.
pub(crate) fn must_be_whole(vm: &Vm) -> Result<()> {
    match vm.state().stage {
        Stage::Whole => Ok(()),
        Stage::Creating => Err(not_now(vm, "is still being made; wait for that")),
        Stage::Deleting => Err(not_now(vm, "is being deleted; wait until it is gone")),
    }
}

fn key(uuid: Uuid) -> String {
    format!("create {uuid}")
}

/// Refuses a MAC address that another VM has.
pub(crate) fn check_macs(core: &Core, request: &CreateVm, itself: Option<Uuid>) -> Result<()> {
    for vm in core.all() {
        let Ok(config) = vm.config() else { continue };
        let has = |mac: &str| config.nics.iter().any(|nic| nic.mac == mac);
        let taken = |nic: &NicSpec| !nic.mac.is_empty() && has(&normal_mac(&nic.mac));
        let place = request.networks.iter().position(taken);
        if let Some(place) = place.filter(|_| Some(vm.uuid) != itself) {
            let field = format!("spec.networks[{place}].macAddress");
            let message = format!(
                "The MAC address {} is on the VM {} ({}) already; give this card another one",
                request.networks[place].mac, config.name, vm.uuid
            );
            return Err(ProviderError::invalid(field, message));
        }
    }
    Ok(())
}

async fn check_host(core: &Core, session: &Session, request: &CreateVm) -> Result<()> {
    let host = &core.host_facts(session).await?.name;
    let asked = request.placement.as_ref().map_or("", |place| &place.host);
    if asked.is_empty() || asked == host {
        return Ok(());
    }
    let message = format!("This provider has the host {host} only");
    Err(ProviderError::invalid("spec.placement.host", message))
}

/// Defines the domain as half made, and begins the work on it.
pub(crate) async fn make(
    core: &Arc<Core>,
    session: &Session,
    plan: Plan,
    origin: Origin,
) -> Result<Begun> {
    let uuid = plan.uuid;
    let vm = core.entry(uuid);
    let defined = session.define(&plan.xml.to_string()).await;
    defined.map_err(|error| refused(error.into()))?;
    core.look(&vm).await?;
    let core_of_task = core.clone();
    Ok(core.tasks.begin(&key(uuid), move |_| async move {
        let core = core_of_task;
        let _alone = vm.change.lock().await;
        let made = fill(&core, &vm, plan.marks, origin).await;
        if made.is_err()
            && let Err(error) = remove::everything(&core, &vm).await
        {
            tracing::warn!(vm = %uuid, %error, "Half a VM is left for the next session to remove");
        }
        made
    }))
}

/// A name that came in between is libvirt's to notice.
fn refused(error: ProviderError) -> ProviderError {
    if error.message.contains("already exists with uuid") {
        return ProviderError::new(ErrorKind::NameConflict, error.message).at("metadata.name");
    }
    error
}

async fn fill(core: &Arc<Core>, vm: &Arc<Vm>, mut marks: Marks, origin: Origin) -> Result<()> {
    match origin {
        Origin::Request(asked) => from_image(core, &asked.0, &mut marks, &asked.1).await?,
        Origin::Clone(copy) => crate::clone::fill(core, vm.uuid, &mut marks, &copy).await?,
    }
    marks.stage = Stage::Whole;
    marks.maker.clear();
    set_marks(core, vm.uuid, &marks, flags::CONFIG).await?;
    core.look(vm).await.map(drop)
}

/// Writes the marks where it is said: with the machine that runs, or as it will start.
pub(crate) async fn set_marks(core: &Core, uuid: Uuid, marks: &Marks, flags: u32) -> Result<()> {
    use crate::domain::marks::{PREFIX, URI};
    let session = core.session().await?;
    let text = marks.for_libvirt();
    let element = (text.as_str(), PREFIX, URI);
    Ok(session
        .set_metadata(&Domain::of(uuid), element, flags)
        .await?)
}

async fn from_image(
    core: &Arc<Core>,
    wanted: &Wanted,
    marks: &mut Marks,
    request: &CreateVm,
) -> Result<()> {
    match wanted.pool.kind {
        Kind::Files => above_image(core, wanted, marks, request).await?,
        Kind::Logical | Kind::Rbd => copy_of_image(core, wanted, marks, request).await?,
    }
    let session = core.session().await?;
    make_disks(&session, wanted).await?;
    let owner = request.owner.as_ref().map(|owner| owner.name.as_str());
    let guest = seed::For {
        uuid: wanted.uuid,
        hostname: owner.unwrap_or(&request.name),
        cards: wanted.cards(request),
    };
    let documents = Documents::of(request);
    documents.write(&session, &wanted.files, &guest).await
}

/// The first disk as a layer above its image.
async fn above_image(
    core: &Arc<Core>,
    wanted: &Wanted,
    marks: &mut Marks,
    request: &CreateVm,
) -> Result<()> {
    let image = image::for_vm(core, request, &wanted.pool).await?;
    let session = core.session().await?;
    marks.image.clone_from(&image.id);
    let bytes = (u64::from(marks.root_gib) << 30).max(image.bytes);
    let (pool, root) = (&wanted.pool, wanted.root());
    pool.overlay(&session, &root, &image.path, bytes).await
}

/// The first disk as a copy, which needs its image no more.
async fn copy_of_image(
    core: &Arc<Core>,
    wanted: &Wanted,
    marks: &Marks,
    request: &CreateVm,
) -> Result<()> {
    let from = match wanted.pool.kind {
        Kind::Rbd => image::within(&core.session().await?, &request.image, &wanted.pool).await?,
        Kind::Files | Kind::Logical => {
            let image = image::for_vm(core, request, &wanted.files).await?;
            volume_at(&core.session().await?, &image.path).await?
        }
    };
    let session = core.session().await?;
    let least = u64::from(marks.root_gib) << 30;
    let (pool, root) = (&wanted.pool, wanted.root());
    pool.copy_into(&session, &root, &from, least).await?;
    // A clone of Ceph is as large as what it was made from.
    match pool.find(&session, &root).await? {
        Some(made) => storage::grow(&session, &made, least).await,
        None => Ok(()),
    }
}

/// The disks beyond the first, empty.
async fn make_disks(session: &Session, wanted: &Wanted) -> Result<()> {
    for disk in &wanted.marks.disks {
        let pool = Pool::open(session, &disk.pool, "spec.disks").await?;
        let bytes = u64::from(disk.size_gib) << 30;
        let thickness = wanted.thickness(&disk.name);
        pool.blank(session, &disk.volume, bytes, thickness).await?;
    }
    Ok(())
}

fn made_by_another(core: &Core, vm: &Vm) -> bool {
    let marks = vm.config().ok().and_then(|config| config.marks);
    marks.is_some_and(|marks| marks.is_made_by_another(&core.config.instance))
}

/// Removes a VM that an earlier session left half made, unless somebody is at work on it.
pub(crate) fn give_up(core: &Arc<Core>, vm: &Arc<Vm>) {
    if core.tasks.find(&key(vm.uuid)).is_none() && !made_by_another(core, vm) {
        tracing::info!(vm = %vm.uuid, "Removing a VM that was left half made");
        remove::go_on(core, vm);
    }
}
