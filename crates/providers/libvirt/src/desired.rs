//! From a request to what a domain should be. What a VM has keeps its place: targets, volumes and addresses do not move.

use polyvirt_contract::Result;
use polyvirt_contract::model::{ClassSpec, CreateVm, DiskSpec, DiskType, NicSpec, Stage};
use polyvirt_provider_kit::check::normal_mac;
use polyvirt_provider_kit::devices::DeviceAddress;
use polyvirt_provider_kit::uuid::Uuid;

use crate::core::Core;
use crate::create::ROOT;
use crate::domain::build::{New, Virt};
use crate::domain::disk::Place;
use crate::domain::nic::{Common, NicPart};
use crate::domain::{DiskMark, Marks, NicMark, disk, tuning};
use crate::lend;
use crate::rpc::Session;
use crate::seed::{Documents, ignition_volume, seed_volume};
use crate::storage::{self, Kind, Pool, Thickness};

/// The card of a VM for which nobody asked for one.
const IMPLICIT: &str = "default";

/// A domain that is wanted.
pub(crate) struct Wanted {
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) class: ClassSpec,
    pub(crate) pool: Pool,
    /// Where its small files lie, and images before they are copied.
    pub(crate) files: Pool,
    pub(crate) marks: Marks,
    pub(crate) nics: Vec<NicPart>,
    /// Where the disks are, in the order of the marks.
    pub(crate) places: Vec<Place>,
    thick: Vec<String>,
    ignition: bool,
    /// Devices of the host.
    devices: Vec<DeviceAddress>,
}

impl Wanted {
    /// The volume of its first disk.
    pub(crate) fn root(&self) -> String {
        self.pool.disk_name(self.uuid, ROOT)
    }

    pub(crate) fn thickness(&self, disk: &str) -> Thickness {
        if self.thick.iter().any(|name| name == disk) {
            Thickness::Thick
        } else {
            Thickness::Thin
        }
    }

    /// What the XML is built from.
    pub(crate) fn new_domain(&self, virt: Virt) -> NewParts<'_> {
        NewParts { wanted: self, virt }
    }

    /// The cards of the request with the MAC addresses that they really have.
    pub(crate) fn cards(&self, request: &CreateVm) -> Vec<NicSpec> {
        let real = |card: &NicSpec| {
            let found = self.marks.nics.iter().find(|nic| nic.name == card.name);
            found.map_or_else(|| card.mac.clone(), |nic| nic.mac.clone())
        };
        let with_mac = |card: &NicSpec| NicSpec {
            mac: real(card),
            ..card.clone()
        };
        request.networks.iter().map(with_mac).collect()
    }
}

/// A wanted domain and what it runs with.
pub(crate) struct NewParts<'a> {
    wanted: &'a Wanted,
    virt: Virt,
}

impl<'a> NewParts<'a> {
    /// As the builder takes it. The paths live as long as what they are borrowed for.
    pub(crate) fn with<T>(&self, build: impl FnOnce(&New<'_>) -> T) -> T {
        let wanted: &'a Wanted = self.wanted;
        let root = wanted.pool.place_of(&wanted.root());
        let targets = wanted.marks.disks.iter().map(|disk| disk.target.clone());
        let file = |volume: String| wanted.files.path(&volume);
        build(&New {
            uuid: wanted.uuid,
            name: &wanted.name,
            class: &wanted.class,
            virt: self.virt,
            marks: &wanted.marks,
            root: &root,
            disks: targets.zip(wanted.places.iter().cloned()).collect(),
            nics: wanted.nics.clone(),
            seed: (!wanted.ignition).then(|| file(seed_volume(wanted.uuid))),
            ignition: wanted.ignition.then(|| file(ignition_volume(wanted.uuid))),
            devices: &wanted.devices,
        })
    }
}

/// The domain that a request asks for.
pub(crate) async fn of_new(
    core: &Core,
    session: &Session,
    request: &CreateVm,
    uuid: Uuid,
) -> Result<Wanted> {
    let asked = request
        .placement
        .as_ref()
        .map_or("", |place| &place.datastore);
    let pool = if asked.is_empty() {
        &core.config.pool
    } else {
        asked
    };
    let pool = Pool::open(session, pool, "spec.placement.datastore").await?;
    let files = beside(core, session, &pool).await?;
    let blank = Marks {
        owner: request.owner.clone(),
        stage: Stage::Creating,
        maker: core.config.instance.clone(),
        pool: pool.name().to_owned(),
        files: if files.name() == pool.name() {
            String::new()
        } else {
            files.name().to_owned()
        },
        ..Marks::default()
    };
    let (mut marks, nics) = desired(core, request, uuid, &blank, &[])?;
    name_volumes(session, uuid, &blank, &mut marks).await?;
    let places = places(session, &marks).await?;
    Ok(Wanted {
        uuid,
        name: request.name.clone(),
        class: request.class.clone(),
        pool,
        files,
        marks,
        nics,
        places,
        thick: thick(request),
        ignition: Documents::of(request).is_ignition(),
        devices: lend::devices(core, request)?,
    })
}

/// Names of disks that are to be allocated at once.
pub(crate) fn thick(request: &CreateVm) -> Vec<String> {
    let is_thick =
        |disk: &&DiskSpec| matches!(disk.disk_type, DiskType::Thick | DiskType::EagerZeroedThick);
    let disks = request.disks.iter().filter(is_thick);
    disks.map(|disk| disk.name.clone()).collect()
}

/// The pool for small files of a VM whose disks are in this one.
async fn beside(core: &Core, session: &Session, pool: &Pool) -> Result<Pool> {
    if pool.kind == Kind::Files {
        return Ok(pool.clone());
    }
    let name = core.config.files.as_ref().unwrap_or(&core.config.pool);
    let found = Pool::open_files(session, name, "spec.placement.datastore").await;
    found.map_err(|mut error| {
        let why = "name one that keeps files in the Provider's endpoint (files=)";
        error.message = format!("{}; {why}", error.message);
        error
    })
}

/// Gives disks that are new the names that their pools give them.
pub(crate) async fn name_volumes(
    session: &Session,
    uuid: Uuid,
    has: &Marks,
    marks: &mut Marks,
) -> Result<()> {
    for (place, disk) in marks.disks.iter_mut().enumerate() {
        if has.disk(&disk.name).is_none() {
            let pool = Pool::open(session, &disk.pool, &asked_at(place)).await?;
            disk.volume = pool.disk_name(uuid, &disk.target);
        }
    }
    Ok(())
}

/// Where a disk names its pool.
pub(crate) fn asked_at(place: usize) -> String {
    format!("spec.disks[{place}].storageClass")
}

/// Where the disks are, in the order of the marks.
pub(crate) async fn places(session: &Session, marks: &Marks) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for (place, disk) in marks.disks.iter().enumerate() {
        let pool = Pool::open(session, &disk.pool, &asked_at(place)).await?;
        places.push(pool.place_of(&disk.volume));
    }
    Ok(places)
}

/// What is asked for, beside what the VM has. `taken` are places of disks that are on their way out.
pub(crate) fn desired(
    core: &Core,
    request: &CreateVm,
    uuid: Uuid,
    has: &Marks,
    taken: &[String],
) -> Result<(Marks, Vec<NicPart>)> {
    let mut marks = Marks {
        tags: request.tags.clone(),
        owner: has.owner.clone().or_else(|| request.owner.clone()),
        disks: Vec::new(),
        nics: Vec::new(),
        ..has.clone()
    };
    let root = request
        .class
        .disk_defaults
        .as_ref()
        .map_or(0, |disk| disk.size_gib);
    if root != 0 {
        marks.root_gib = root;
    }
    let mut taken = taken.to_vec();
    taken.extend(has.disks.iter().map(|disk| disk.target.clone()));
    for disk in &request.disks {
        let mark = data_disk(disk, uuid, (has, &core.config.pool), &mut taken)?;
        marks.disks.push(mark);
    }
    let common = Common {
        network: core.config.network.as_deref(),
        ovs: tuning::extra(&request.class)?.ovs,
    };
    let nics = cards(request, uuid, common);
    marks.nics = nics.iter().map(|(mark, _)| mark.clone()).collect();
    Ok((marks, nics.into_iter().map(|(_, part)| part).collect()))
}

fn data_disk(
    disk: &DiskSpec,
    uuid: Uuid,
    (has, usual_pool): (&Marks, &String),
    taken: &mut Vec<String>,
) -> Result<DiskMark> {
    if let Some(old) = has.disk(&disk.name) {
        return Ok(DiskMark {
            size_gib: disk.size_gib,
            ..old.clone()
        });
    }
    let target = disk::free_target(taken)?;
    taken.push(target.clone());
    let pools = [&disk.storage_class, &has.pool, usual_pool];
    let pool = pools
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or(usual_pool);
    Ok(DiskMark {
        name: disk.name.clone(),
        size_gib: disk.size_gib,
        pool: pool.clone(),
        // Its pool gives it another, once it is asked.
        volume: storage::name(uuid, &target),
        target,
    })
}

fn cards(request: &CreateVm, uuid: Uuid, common: Common<'_>) -> Vec<(NicMark, NicPart)> {
    let card = |spec: &NicSpec, name: &str| {
        let mac = if spec.mac.is_empty() {
            uuid.mac(&spec.name)
        } else {
            normal_mac(&spec.mac)
        };
        let mark = NicMark {
            mac: mac.clone(),
            name: name.to_owned(),
        };
        (mark, NicPart::wanted(spec, mac, common))
    };
    if request.networks.is_empty() {
        let implicit = NicSpec {
            name: IMPLICIT.to_owned(),
            ..NicSpec::default()
        };
        return vec![card(&implicit, "")];
    }
    request
        .networks
        .iter()
        .map(|spec| card(spec, &spec.name))
        .collect()
}
