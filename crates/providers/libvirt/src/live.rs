//! Changes of a machine that runs. Each step can be done again; what cannot be done now waits for the next start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::Result;
use polyvirt_contract::model::{CreateVm, DiskSpec, ExpandPolicy};

use crate::core::{Core, Vm};
use crate::create::set_marks;
use crate::domain::disk::DiskPart;
use crate::domain::nic::NicPart;
use crate::domain::tuning::FileSystems;
use crate::domain::{Machine, Marks, disk, edit, tuning};
use crate::grow::{self, Growth};
use crate::reconfigure::Target;
use crate::rpc::{Domain, Session, code, flags};
use crate::storage::{self, Pool};
use crate::xml::{Element, parse};

/// How long a guest may take to let go of a device.
const LET_GO: Duration = Duration::from_secs(15);
/// Guests take memory in blocks of this size.
const MEMORY_BLOCK_MIB: u64 = 128;

/// Gives the running machine all of the target that it can have now.
pub(crate) async fn approach(
    core: &Arc<Core>,
    vm: &Arc<Vm>,
    machine: &Machine,
    wanted: &CreateVm,
    target: &Target,
) -> Result<()> {
    let session = core.session().await?;
    let work = Work {
        core,
        vm,
        session: &session,
        domain: Domain::of(vm.uuid),
    };
    work.take_cards(machine, target).await?;
    work.take_disks(machine, target).await?;
    work.add_disks(machine, wanted, target).await?;
    let grown = work.grow_disks(machine, wanted, target).await?;
    work.add_cards(target).await?;
    work.add_cpus(machine, wanted.class.cpu).await?;
    work.add_memory(machine, wanted.class.memory_mib).await?;
    let growths = work.grow_file_systems(machine, wanted, &grown).await?;
    work.mark(machine, wanted, target, growths).await
}

/// The name under which the first disk is told of.
const ROOT_NAME: &str = "root";

/// A disk that has grown.
struct Grown {
    name: String,
    target: String,
    bytes: u64,
}

struct Work<'a> {
    core: &'a Arc<Core>,
    vm: &'a Arc<Vm>,
    session: &'a Session,
    domain: Domain,
}

impl Work<'_> {
    async fn take_cards(&self, machine: &Machine, target: &Target) -> Result<()> {
        for nic in machine.nics.iter().filter(|nic| !target.nics.contains(nic)) {
            let meant = |e: &Element| e.name == "interface" && NicPart::of(e).mac == nic.mac;
            self.take(meant).await?;
        }
        Ok(())
    }

    async fn take_disks(&self, machine: &Machine, target: &Target) -> Result<()> {
        let marks = machine.marks.clone().unwrap_or_default();
        for old in marks
            .disks
            .iter()
            .filter(|old| target.marks.disk(&old.name).is_none())
        {
            let meant = |e: &Element| e.name == "disk" && DiskPart::of(e).target == old.target;
            self.take(meant).await?;
        }
        Ok(())
    }

    /// Asks the guest to let go of a device, and waits a while until it has.
    async fn take(&self, meant: impl Fn(&Element) -> bool) -> Result<()> {
        let deadline = tokio::time::Instant::now() + LET_GO;
        let Some(device) = self.find(&meant).await? else {
            return Ok(());
        };
        match self
            .session
            .detach(&self.domain, &device, flags::LIVE)
            .await
        {
            // It went by itself, or is on its way.
            Err(error) if error.is(code::DEVICE_MISSING) || error.is(code::OPERATION_INVALID) => {}
            other => other?,
        }
        loop {
            let changed = self.vm.changed.notified();
            if self.find(&meant).await?.is_none() {
                return Ok(());
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn find(&self, meant: impl Fn(&Element) -> bool) -> Result<Option<String>> {
        let text = self.session.xml(&self.domain, 0).await?;
        Ok(edit::find_device(&parse(&text)?.root, meant))
    }

    async fn add_disks(&self, machine: &Machine, wanted: &CreateVm, target: &Target) -> Result<()> {
        let tuning = tuning::extra(&wanted.class)?.disks;
        let config = self.vm.config()?;
        for mark in &target.marks.disks {
            let is_stored = config.disk(&mark.target).is_some();
            if !is_stored || machine.disk(&mark.target).is_some() {
                continue;
            }
            let pool = Pool::open(self.session, &mark.pool, "spec.disks").await?;
            let place = pool.place_of(&mark.volume);
            let device = disk::element(&mark.target, &place, &tuning).to_string();
            self.session
                .attach(&self.domain, &device, flags::LIVE)
                .await?;
        }
        Ok(())
    }

    /// Disks grow while the machine runs if their policy says so; the first one always does.
    async fn grow_disks(
        &self,
        machine: &Machine,
        wanted: &CreateVm,
        target: &Target,
    ) -> Result<Vec<Grown>> {
        let has = machine.marks.clone().unwrap_or_default();
        let mut grown = Vec::new();
        let root = target.marks.root_gib;
        if root > has.root_gib {
            grown.push(self.grow(ROOT_NAME, disk::ROOT, root).await?);
        }
        for mark in &target.marks.disks {
            let old = has
                .disk(&mark.name)
                .map_or(mark.size_gib, |old| old.size_gib);
            if mark.size_gib > old && grows_online(wanted, &mark.name) {
                grown.push(self.grow(&mark.name, &mark.target, mark.size_gib).await?);
            }
        }
        Ok(grown)
    }

    async fn grow(&self, name: &str, target: &str, gib: u32) -> Result<Grown> {
        let bytes = u64::from(gib) << 30;
        let live = self.vm.live();
        let part = live.as_ref().and_then(|live| live.disk(target));
        if let Some(part) = part.filter(|part| part.path.starts_with("/dev/")) {
            storage::must_have(self.session, &part.path, bytes).await?;
        }
        let resized = self.session.block_resize(&self.domain, target, bytes);
        resized.await?;
        Ok(Grown {
            name: name.to_owned(),
            target: target.to_owned(),
            bytes,
        })
    }

    /// What becomes of the file systems on these disks, after what became of others before.
    async fn grow_file_systems(
        &self,
        machine: &Machine,
        wanted: &CreateVm,
        grown: &[Grown],
    ) -> Result<BTreeMap<String, String>> {
        let before = machine.marks.as_ref().map(|marks| marks.growths.clone());
        let mut growths = before.unwrap_or_default();
        for disk in grown {
            let growth = match tuning::extra(&wanted.class)?.file_systems {
                FileSystems::Grow => {
                    grow::file_system(self.core, self.vm, &disk.target, disk.bytes).await
                }
                FileSystems::Leave => Growth::Left("the class says so".to_owned()),
            };
            tracing::info!(vm = %self.vm.uuid, disk = disk.name, %growth, "A disk has grown");
            growths.insert(disk.name.clone(), growth.to_string());
        }
        Ok(growths)
    }

    async fn add_cards(&self, target: &Target) -> Result<()> {
        let now = Machine::read(&self.session.xml(&self.domain, 0).await?)?;
        for nic in &target.nics {
            // One that its guest does not let go of stays until the next start.
            if now.nics.iter().any(|other| other.mac == nic.mac) {
                continue;
            }
            let device = nic.element().to_string();
            self.session
                .attach(&self.domain, &device, flags::LIVE)
                .await?;
        }
        Ok(())
    }

    async fn add_cpus(&self, machine: &Machine, cpu: u32) -> Result<()> {
        if cpu > machine.cpu && cpu <= machine.most_cpus {
            self.session
                .set_vcpus(&self.domain, cpu, flags::LIVE)
                .await?;
        }
        Ok(())
    }

    async fn add_memory(&self, machine: &Machine, mib: u64) -> Result<()> {
        let more = mib.saturating_sub(machine.memory_mib);
        let free = machine.dimms.len() < edit::DIMM_SLOTS as usize;
        let fits =
            more > 0 && more.is_multiple_of(MEMORY_BLOCK_MIB) && mib <= machine.most_memory_mib;
        if !fits || !free {
            return Ok(());
        }
        let size = Element::new("size").with("unit", "MiB").saying(more);
        let target = Element::new("target")
            .holding(size)
            .holding(Element::new("node").saying(0));
        let device = Element::new("memory").with("model", "dimm").holding(target);
        Ok(self
            .session
            .attach(&self.domain, &device.to_string(), flags::LIVE)
            .await?)
    }

    /// Writes down with the running machine what it has now.
    async fn mark(
        &self,
        before: &Machine,
        wanted: &CreateVm,
        target: &Target,
        growths: BTreeMap<String, String>,
    ) -> Result<()> {
        let now = Machine::read(&self.session.xml(&self.domain, 0).await?)?;
        let marks = Marks {
            growths,
            frozen_by: now.marks.as_ref().and_then(|marks| marks.frozen_by.clone()),
            ..marks_of(before, &now, wanted, target)
        };
        if now.marks.as_ref() != Some(&marks) {
            set_marks(self.core, self.vm.uuid, &marks, flags::LIVE).await?;
        }
        Ok(())
    }
}

fn grows_online(wanted: &CreateVm, name: &str) -> bool {
    let online = |disk: &DiskSpec| disk.name == name && disk.expand_policy == ExpandPolicy::Online;
    wanted.disks.iter().any(online)
}

/// What the machine has now, under the names of now and of before.
fn marks_of(before: &Machine, now: &Machine, wanted: &CreateVm, target: &Target) -> Marks {
    let had = before.marks.clone().unwrap_or_default();
    let named = target.marks.disks.iter().chain(
        had.disks
            .iter()
            .filter(|old| target.marks.disk(&old.name).is_none()),
    );
    let there = named.filter(|mark| now.disk(&mark.target).is_some());
    let sized = there.map(|mark| {
        let mut mark = mark.clone();
        if let Some(old) = had.disk(&mark.name)
            && !grows_online(wanted, &mark.name)
        {
            mark.size_gib = old.size_gib;
        }
        mark
    });
    let mut nics = target.marks.nics.clone();
    nics.extend(
        had.nics
            .iter()
            .filter(|old| target.marks.nic_name(&old.mac).is_none())
            .cloned(),
    );
    nics.retain(|mark| now.nics.iter().any(|nic| nic.mac == mark.mac));
    Marks {
        disks: sized.collect(),
        nics,
        ..target.marks.clone()
    }
}
