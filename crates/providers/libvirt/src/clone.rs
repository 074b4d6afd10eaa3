//! Copies of VMs. The copy's domain is the source's, with another name, other addresses and other files.
//!
//! A full copy has disks of its own. A linked one shares what its source has written: the source's first disk becomes a
//! layer that nobody writes any more, and both go on above it.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::model::{ClassSpec, CloneMode, CloneVm, Cloned, NicSpec, Stage};
use polyvirt_contract::rules::{self, CloneSize};
use polyvirt_contract::{ProviderError, Result};
use polyvirt_provider_kit::cards;
use polyvirt_provider_kit::uuid::Uuid;

use crate::core::{Core, Vm};
use crate::create::{self, Origin, Plan, ROOT, must_be_whole};
use crate::domain::disk::Place;
use crate::domain::nic::NicPart;
use crate::domain::{DiskMark, Machine, Marks, NicMark, disk, edit};
use crate::rpc::{Domain, Session, Volume, flags};
use crate::seed::{self, Documents};
use crate::storage::{self, Kind, Pool, Thickness};
use crate::xml::{Element, Node, parse};
use crate::{desired, errors, frozen, layers};

/// The fields of a guest customization that act here.
const CUSTOMIZES: &[&str] = &[
    "hostname",
    "tags[]",
    "networks[].name",
    "networks[].dhcp",
    "networks[].ipAddress",
    "networks[].subnetMask",
    "networks[].gateway",
    "networks[].dns[]",
];
/// How often a copy of a running machine is looked at: first, and at most.
const LOOK: Duration = Duration::from_millis(100);
const SLOWEST_LOOK: Duration = Duration::from_secs(2);

/// All that is needed to make a copy.
pub(crate) struct Copy {
    source: Arc<Vm>,
    mode: CloneMode,
    hostname: String,
    cards: Vec<NicSpec>,
}

/// Copies a VM; like `create` it finds the copy that its owner has already.
pub(crate) async fn clone_vm(core: &Arc<Core>, request: CloneVm) -> Result<Cloned> {
    let admitted = core.admission.lock().await;
    let found = create::already_there(core, request.owner.as_ref(), &request.target_name).await?;
    let created = if let Some(found) = found {
        drop(admitted);
        create::resume(core, &found).await?
    } else {
        let session = core.session().await?;
        let (plan, copy) = plan(core, &session, &request).await?;
        let uuid = plan.uuid;
        let begun = create::make(core, &session, plan, Origin::Clone(Box::new(copy))).await;
        drop(admitted);
        create::answer(uuid, begun?).await?
    };
    Ok(Cloned {
        id: created.id,
        task: created.task,
    })
}

async fn plan(core: &Arc<Core>, session: &Session, request: &CloneVm) -> Result<(Plan, Copy)> {
    let source = core.by_id(&request.source).await?;
    must_be_whole(&source)?;
    let wish = rules::read_clone(request, CUSTOMIZES)?;
    let custom = wish.customization;
    let uuid = create::new_uuid(request.owner.as_ref())?;
    let config = source.config()?;
    let mut marks = marks_of(&config, uuid, request)?;
    desired::name_volumes(session, uuid, &Marks::default(), &mut marks).await?;
    marks.maker.clone_from(&core.config.instance);
    if !custom.tags.is_empty() {
        marks.tags.clone_from(&custom.tags);
    }
    let text = session
        .xml(&Domain::of(source.uuid), flags::INACTIVE | flags::SECURE)
        .await?;
    let mut xml = parse(&text)?.root;
    if let Some(size) = &wish.size {
        marks.root_gib = marks.root_gib.max(size.root_gib);
        edit::size(&mut xml, &class_of(&config, size));
    }
    let pools = Pools::of(session, &marks).await?;
    if request.mode == CloneMode::Linked {
        pools
            .root
            .must_be_files("Disks of linked clones cannot lie")?;
    }
    as_copy(&mut xml, &marks, &pools, (uuid, &request.target_name));
    let cards = cards::of_copy(&shown(&config, &marks), &custom.networks)?;
    let hostname = if custom.hostname.is_empty() {
        request.target_name.clone()
    } else {
        custom.hostname
    };
    let copy = Copy {
        source,
        mode: request.mode,
        hostname,
        cards,
    };
    Ok((Plan { uuid, xml, marks }, copy))
}

/// Where a VM lies.
struct Pools {
    root: Pool,
    files: Pool,
    /// Paths of the disks beyond the first, in the order of the marks.
    disks: Vec<String>,
}

impl Pools {
    async fn of(session: &Session, marks: &Marks) -> Result<Self> {
        let field = "spec.placement.datastore";
        let disks = desired::places(session, marks).await?;
        Ok(Self {
            root: Pool::open(session, &marks.pool, field).await?,
            files: Pool::open_files(session, marks.files(), field).await?,
            disks: disks.iter().map(|disk| disk.path().to_owned()).collect(),
        })
    }
}

/// The size that was asked for, with the room to grow that the source has.
fn class_of(config: &Machine, size: &CloneSize) -> ClassSpec {
    let (cpu_hot_add, memory_hot_add) = config.has_room();
    ClassSpec {
        cpu: size.cpu,
        memory_mib: size.memory_mib,
        performance: Some(polyvirt_contract::model::PerformanceProfile {
            cpu_hot_add,
            memory_hot_add,
            ..Default::default()
        }),
        ..ClassSpec::default()
    }
}

/// A copy is unmarked by its source, and has cards and files of its own.
fn marks_of(source: &Machine, uuid: Uuid, request: &CloneVm) -> Result<Marks> {
    let marks = source.marks.clone().filter(|marks| !marks.pool.is_empty());
    let marks = marks.ok_or_else(|| {
        errors::precondition("The source was not made by this provider, which does not know what its disks share; copy it with virt-clone")
    })?;
    let disk = |old: &DiskMark| DiskMark {
        // Its pool gives it another, once it is asked.
        volume: storage::name(uuid, &old.target),
        ..old.clone()
    };
    let nic = |old: &NicMark| NicMark {
        mac: uuid.mac(&old.mac),
        name: old.name.clone(),
    };
    Ok(Marks {
        owner: request.owner.clone(),
        stage: Stage::Creating,
        request: None,
        bases: Vec::new(),
        fresh: String::new(),
        moving: None,
        disks: marks.disks.iter().map(disk).collect(),
        nics: marks.nics.iter().map(nic).collect(),
        ..marks
    })
}

/// Makes the source's XML the copy's.
fn as_copy(xml: &mut Element, marks: &Marks, pools: &Pools, (uuid, name): (Uuid, &str)) {
    let (root, files) = (&pools.root, &pools.files);
    xml.edit("name", |element| element.set_text(name));
    xml.edit("uuid", |element| element.set_text(uuid));
    // The variables of the firmware are made anew, from the same template.
    xml.edit("os", |os| os.remove(|e| e.name == "nvram"));
    marks.put(xml);
    edit::move_disk(xml, disk::ROOT, &root.path(&root.disk_name(uuid, ROOT)));
    edit::move_disk(xml, disk::SEED, &files.path(&seed::seed_volume(uuid)));
    if xml.at("sysinfo/entry").is_some() {
        let path = files.path(&seed::ignition_volume(uuid));
        xml.edit("sysinfo", |info| {
            info.edit("entry", |entry| entry.set("file", path));
        });
    }
    xml.edit("devices", |devices| {
        // A device of the host belongs to one VM.
        devices.remove(|e| e.name == "hostdev");
        for node in &mut devices.children {
            if let Node::Element(e) = node
                && e.name == "interface"
            {
                let mac = uuid.mac(&NicPart::of(e).mac);
                e.edit("mac", |element| element.set("address", mac));
            }
        }
    });
    for (mark, path) in marks.disks.iter().zip(&pools.disks) {
        edit::move_disk(xml, &mark.target, path);
    }
}

/// The cards that somebody asked for, as the copy's guest is told of them.
fn shown(source: &Machine, marks: &Marks) -> Vec<NicSpec> {
    let shown = marks
        .nics
        .iter()
        .zip(&source.nics)
        .filter(|(nic, _)| !nic.name.is_empty());
    shown
        .map(|(nic, part)| NicSpec {
            name: nic.name.clone(),
            mac: nic.mac.clone(),
            mtu: part.mtu,
            ..NicSpec::default()
        })
        .collect()
}

/// A disk to copy: the file of the source, and the copy's volume.
pub(crate) struct Pair {
    target: String,
    pub(crate) from: String,
    pub(crate) pool: Pool,
    pub(crate) volume: String,
    /// How large the copy is at least.
    bytes: u64,
}

impl Pair {
    /// What QEMU copies the disk of a running machine to: its kind, its format and where it is.
    fn target_of_backup(&self) -> Result<(&'static str, &'static str, Element)> {
        let target = Element::new("target");
        match self.pool.place_of(&self.volume) {
            Place::File(path) => Ok(("file", "qcow2", target.with("file", path))),
            Place::Block(path) => Ok(("block", "raw", target.with("dev", path))),
            Place::Rbd { .. } => Err(errors::precondition(
                "libvirt does not copy the disks of a running VM into Ceph; stop the VM to clone it",
            )),
        }
    }
}

/// Makes the disks and the seed of a copy. The source is held while it is read.
pub(crate) async fn fill(
    core: &Arc<Core>,
    uuid: Uuid,
    marks: &mut Marks,
    copy: &Copy,
) -> Result<()> {
    let source = &copy.source;
    let held = source.change.lock().await;
    core.look(source)
        .await?
        .ok_or_else(|| errors::no_vm(source.uuid))?;
    must_be_whole(source)?;
    let session = core.session().await?;
    let mut pairs = pairs(&session, uuid, marks, source).await?;
    match (copy.mode, source.live()) {
        (CloneMode::Full, None) => copy_files(&session, &pairs).await?,
        (CloneMode::Full, Some(_)) => {
            let copied = copy_running(core, source, &pairs).await;
            frozen::mend(core, source);
            copied?;
        }
        (CloneMode::Linked, None) => {
            let root = pairs.remove(0);
            layers::link(core, &session, source, marks, &root).await?;
            copy_files(&session, &pairs).await?;
        }
        (CloneMode::Linked, Some(_)) => {
            let message = "The source runs; stop it to link a clone to it, or ask for a full clone";
            return Err(errors::precondition(message));
        }
    }
    drop(held);
    let Pools { root, files, .. } = Pools::of(&session, marks).await?;
    if let Some(volume) = root.find(&session, &root.disk_name(uuid, ROOT)).await? {
        storage::grow(&session, &volume, u64::from(marks.root_gib) << 30).await?;
    }
    let documents = Documents::load(&session, &files, source.uuid)
        .await?
        .for_copy();
    let guest = seed::For {
        uuid,
        hostname: &copy.hostname,
        cards: copy.cards.clone(),
    };
    documents.write(&session, &files, &guest).await
}

/// All disks, the first one first.
async fn pairs(session: &Session, uuid: Uuid, marks: &Marks, source: &Vm) -> Result<Vec<Pair>> {
    let config = source.config()?;
    let first = Pool::open(session, &marks.pool, "spec.placement.datastore").await?;
    let root = DiskMark {
        target: disk::ROOT.to_owned(),
        pool: marks.pool.clone(),
        size_gib: marks.root_gib,
        volume: first.disk_name(uuid, ROOT),
        ..DiskMark::default()
    };
    let mut pairs = Vec::new();
    for mark in std::iter::once(&root).chain(&marks.disks) {
        let part = config.disk(&mark.target);
        let lost = || errors::precondition(format!("The source has lost its disk {}", mark.target));
        pairs.push(Pair {
            target: mark.target.clone(),
            from: part.ok_or_else(lost)?.path.clone(),
            pool: Pool::open(session, &mark.pool, "spec.placement.datastore").await?,
            volume: mark.volume.clone(),
            bytes: u64::from(mark.size_gib) << 30,
        });
    }
    Ok(pairs)
}

pub(crate) async fn volume_at(session: &Session, path: &str) -> Result<Volume> {
    let found = session.volume_at(path).await?;
    found.ok_or_else(|| ProviderError::not_found(format!("The volume {path}")))
}

async fn copy_files(session: &Session, pairs: &[Pair]) -> Result<()> {
    for pair in pairs {
        let from = volume_at(session, &pair.from).await?;
        // A file is made larger afterwards; a volume of a group never is.
        let least = match pair.pool.kind {
            Kind::Files => 0,
            Kind::Logical | Kind::Rbd => pair.bytes,
        };
        let copied = pair.pool.copy_into(session, &pair.volume, &from, least);
        copied.await?;
    }
    Ok(())
}

/// All disks of a running machine at the same moment, copied by its own QEMU.
async fn copy_running(core: &Core, source: &Vm, pairs: &[Pair]) -> Result<()> {
    let session = &core.session().await?;
    let domain = Domain::of(source.uuid);
    let live = source.live().map(|live| live.disks).unwrap_or_default();
    for pair in pairs {
        pair.target_of_backup()?;
        let from = volume_at(session, &pair.from).await?;
        let bytes = storage::facts(session, &from).await?.capacity;
        pair.pool
            .blank(session, &pair.volume, bytes, Thickness::Thin)
            .await?;
    }
    let disks = live.iter().map(|part| {
        let element = Element::new("disk").with("name", &part.target);
        match pairs.iter().find(|pair| pair.target == part.target) {
            None => Ok(element.with("backup", "no")),
            Some(pair) => {
                let (kind, format, target) = pair.target_of_backup()?;
                let element = element.with("backup", "yes").with("type", kind);
                let driver = Element::new("driver").with("type", format);
                Ok(element.holding(driver).holding(target))
            }
        }
    });
    let disks = disks.collect::<Result<Vec<_>>>()?;
    let xml = Element::new("domainbackup").holding(Element::new("disks").holding_all(disks));
    let quiet = frozen::freeze(core, session, source).await;
    let begun = session.backup(&domain, &xml.to_string()).await;
    if quiet {
        frozen::thaw(core, session, source).await;
    }
    begun?;
    finished(session, &domain).await
}

/// Waits for the end of the copy.
async fn finished(session: &Session, domain: &Domain) -> Result<()> {
    /// Of jobs: how the last one ended.
    const COMPLETED: u32 = 1;
    let mut pause = LOOK;
    while session.job(domain, 0).await?.0 != 0 {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SLOWEST_LOOK);
    }
    let (_, ended) = session.job(domain, COMPLETED).await?;
    if ended.succeeded() == Some(false) {
        return Err(errors::internal(format!(
            "The copy of the running VM failed: {}",
            ended.why()
        )));
    }
    Ok(())
}
