//! What goes along with a guest beside its memory: its disks, and the small files that it was made with.
//!
//! A pool that both hosts have is left as it is. Of any other the volumes are made anew in a pool of the target: the small ones
//! are copied here, the disks are made empty, and QEMU fills them while the guest moves. Everything begins with the VM's UUID, so
//! that whatever is left of a move that failed can be found and removed.

use std::collections::BTreeMap;

use polyvirt_contract::Result;
use polyvirt_provider_kit::uuid::{Uuid, hex};

use super::description::Places;
use super::wish::{Disks, Shared};
use crate::domain::disk::DiskPart;
use crate::domain::{Copied, DiskMark, Machine, Marks};
use crate::rpc::Session;
use crate::seed::{documents_volume, ignition_volume, seed_volume};
use crate::storage::{self, Kind, Pool, Thickness};
use crate::{core::Core, errors};

/// Both sides of a pool.
struct Twin {
    here: Pool,
    there: Pool,
    shared: bool,
}

/// A disk to be filled at the target.
struct Blank {
    pool: String,
    volume: String,
    bytes: u64,
    format: String,
}

/// What goes along.
pub(super) struct Luggage {
    twins: BTreeMap<String, Twin>,
    blanks: Vec<Blank>,
    /// Where the guest sees the disks that are copied.
    pub(super) copied_disks: Vec<String>,
    pub(super) places: Places,
}

/// The sessions with both hosts.
pub(super) struct Both {
    pub(super) here: Session,
    pub(super) there: Session,
}

impl Luggage {
    /// Looks at what there is. Changes nothing but a small file that tells whether the other host sees it.
    pub(super) async fn of(both: &Both, target: &Core, machine: &Machine) -> Result<Self> {
        let marks = ours(machine)?;
        let mut luggage = Self {
            twins: BTreeMap::new(),
            blanks: Vec::new(),
            copied_disks: Vec::new(),
            places: Places::default(),
        };
        for name in pools(&marks) {
            let twin = Twin::of(both, target, &name, machine.uuid).await?;
            luggage.twins.insert(name, twin);
        }
        luggage.refuse_layers(&marks)?;
        for disk in &machine.disks {
            luggage.add(both, machine.uuid, disk).await?;
        }
        luggage.add_ignition(machine.uuid, &marks);
        Ok(luggage)
    }

    async fn add(&mut self, both: &Both, uuid: Uuid, disk: &DiskPart) -> Result<()> {
        if disk.path.is_empty() {
            return Ok(());
        }
        let volume = both.here.volume_at(&disk.path).await?;
        let twin = volume.as_ref().and_then(|v| self.twins.get(&v.pool));
        let (Some(volume), Some(twin)) = (&volume, twin) else {
            return Err(errors::precondition(format!(
                "The disk {} ({}) lies outside of the storage pools of the VM, so it is not known whether the other host has it; detach it, or move the VM by hand",
                disk.target, disk.path
            )));
        };
        if twin.shared {
            return Ok(());
        }
        let place = twin.there.path(&volume.name);
        self.places.add(disk.path.clone(), place);
        if volume.name != seed_volume(uuid) {
            let facts = storage::facts(&both.here, volume).await?;
            self.copied_disks.push(disk.target.clone());
            self.blanks.push(Blank {
                pool: volume.pool.clone(),
                volume: volume.name.clone(),
                bytes: facts.capacity,
                format: disk.format.clone(),
            });
        }
        Ok(())
    }

    fn add_ignition(&mut self, uuid: Uuid, marks: &Marks) {
        let Some(twin) = self.twins.get(marks.files()).filter(|twin| !twin.shared) else {
            return;
        };
        let volume = ignition_volume(uuid);
        let (from, to) = (twin.here.path(&volume), twin.there.path(&volume));
        self.places.add(from, to);
    }

    /// Layers that several VMs share are counted on each host for itself.
    fn refuse_layers(&self, marks: &Marks) -> Result<()> {
        let shared = self.twins.get(&marks.pool).is_some_and(|twin| twin.shared);
        if shared && !marks.bases.is_empty() {
            return Err(errors::precondition(
                "The VM shares layers of its disk with a linked clone, which must stay on one host; move them with full clones instead",
            ));
        }
        Ok(())
    }

    /// Pools whose volumes are copied.
    pub(super) fn copied(&self) -> Vec<Copied> {
        let apart = self.twins.iter().filter(|(_, twin)| !twin.shared);
        apart
            .map(|(name, twin)| Copied {
                from: name.clone(),
                to: twin.there.name().to_owned(),
            })
            .collect()
    }

    pub(super) const fn disks(&self) -> Disks {
        if self.copied_disks.is_empty() {
            Disks::Shared
        } else {
            Disks::Copied
        }
    }

    pub(super) fn shared(&self) -> Shared {
        if self.twins.values().any(|twin| twin.shared) {
            Shared::Some
        } else {
            Shared::None
        }
    }

    /// The marks of the VM on its new host.
    pub(super) fn marks(&self, marks: &Marks) -> Marks {
        let twin = |pool: &str| self.twins.get(pool);
        let there = |pool: &str| twin(pool).map_or(pool, |twin| twin.there.name()).to_owned();
        let disk = |disk: &DiskMark| DiskMark {
            pool: there(&disk.pool),
            ..disk.clone()
        };
        let apart = twin(&marks.pool).is_some_and(|twin| !twin.shared);
        Marks {
            pool: there(&marks.pool),
            files: there(&marks.files),
            disks: marks.disks.iter().map(disk).collect(),
            // A copy of the first disk stands alone: neither image nor layers are below it.
            image: if apart {
                String::new()
            } else {
                marks.image.clone()
            },
            bases: if apart {
                Vec::new()
            } else {
                marks.bases.clone()
            },
            ..marks.clone()
        }
    }

    /// Makes place for the disks, and copies what is small.
    pub(super) async fn pack(&self, both: &Both, uuid: Uuid) -> Result<()> {
        for twin in self.twins.values().filter(|twin| !twin.shared) {
            for volume in [
                seed_volume(uuid),
                ignition_volume(uuid),
                documents_volume(uuid),
            ] {
                copy_small(both, twin, &volume).await?;
            }
        }
        for blank in &self.blanks {
            let Some(twin) = self.twins.get(&blank.pool) else {
                continue;
            };
            blank.make(&both.there, &twin.there).await?;
        }
        Ok(())
    }
}

impl Blank {
    async fn make(&self, session: &Session, pool: &Pool) -> Result<()> {
        if self.format == "qcow2" {
            let thin = Thickness::Thin;
            return pool.blank(session, &self.volume, self.bytes, thin).await;
        }
        let made = pool.place(session, &self.volume, self.bytes, &self.format);
        made.await.map(drop)
    }
}

impl Twin {
    async fn of(both: &Both, target: &Core, name: &str, uuid: Uuid) -> Result<Self> {
        let field = "targetHost";
        let here = Pool::open(&both.here, name, field).await?;
        let there = match Pool::open(&both.there, name, field).await {
            Ok(pool) => pool,
            Err(_) => Pool::open(&both.there, &target.config.pool, field).await?,
        };
        let shared = match here.kind {
            Kind::Files => {
                there.must_be_files("Files of the VM cannot be copied: its disks would lie")?;
                sees(both, &here, &there, uuid).await?
            }
            Kind::Rbd => is_same_ceph(&here, &there)?,
            Kind::Logical => {
                here.must_be_files("The VM cannot be moved: its disks lie")?;
                false
            }
        };
        if shared && here.path("") != there.path("") {
            return Err(errors::precondition(format!(
                "Both hosts have the files of the storage pool {name}, but not at the same path, and disks know their layers by path; mount it at the same path on both"
            )));
        }
        Ok(Self {
            here,
            there,
            shared,
        })
    }
}

/// Both hosts have what is in Ceph, if they mean the same pool of it.
fn is_same_ceph(here: &Pool, there: &Pool) -> Result<bool> {
    if here.place_of("") == there.place_of("") {
        return Ok(true);
    }
    Err(errors::precondition(format!(
        "The other host has no storage pool {} of the same Ceph; define it there too",
        here.name()
    )))
}

/// Whether a file that is written here is seen there.
async fn sees(both: &Both, here: &Pool, there: &Pool, uuid: Uuid) -> Result<bool> {
    let chance = Uuid::random().map_err(|e| errors::internal(format!("No random number: {e}")))?;
    let probe = storage::name(uuid, &format!("probe-{}", hex(&chance.bytes()[..6])));
    here.write(&both.here, &probe, b"?").await?;
    let seen = async {
        there.refresh(&both.there).await?;
        there.find(&both.there, &probe).await
    };
    let seen = seen.await;
    here.remove(&both.here, &probe).await?;
    let seen = seen?.is_some();
    if seen {
        // It is gone from there too, which libvirt would not notice by itself.
        there.refresh(&both.there).await?;
    }
    Ok(seen)
}

async fn copy_small(both: &Both, twin: &Twin, volume: &str) -> Result<()> {
    let Some(found) = twin.here.find(&both.here, volume).await? else {
        return Ok(());
    };
    let bytes = storage::read(&both.here, &found).await?;
    twin.there.write(&both.there, volume, &bytes).await
}

fn ours(machine: &Machine) -> Result<Marks> {
    let marks = machine.marks.clone();
    let ours = marks.filter(|marks| !marks.pool.is_empty());
    ours.ok_or_else(|| {
        errors::precondition(
            "The VM was not made by this provider, which does not know what its disks share; move it with virsh migrate",
        )
    })
}

/// The pools of a VM.
fn pools(marks: &Marks) -> Vec<String> {
    let mut names: Vec<String> = marks.disks.iter().map(|disk| disk.pool.clone()).collect();
    names.push(marks.pool.clone());
    names.push(marks.files.clone());
    names.sort();
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

/// Removes what a move has made on one of its sides: volumes of the VM in these pools.
pub(super) async fn unpack(
    core: &Core,
    session: &Session,
    uuid: Uuid,
    pools: impl Iterator<Item = &str>,
) -> Result<()> {
    let needed = crate::remove::bases_of_others(core, uuid);
    for name in pools {
        let pool = Pool::open(session, name, "targetHost").await?;
        pool.refresh(session).await?;
        for volume in pool.list(session).await? {
            let ours = storage::owner_of(&volume.name) == Some(uuid);
            if ours && !needed.contains(&volume.name) {
                session.delete_volume(&volume).await?;
            }
        }
    }
    Ok(())
}
