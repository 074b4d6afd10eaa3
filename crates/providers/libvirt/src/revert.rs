//! Back to a moment.
//!
//! libvirt brings the definition of then, with what was marked then. Before that, what is of now is written into the marks of
//! the snapshot: whose the VM is, what was asked of it last, and the disks that came later. So they are known from the moment
//! on at which the machine is that of then, and whoever dies in between finds them in the marks and gives them back.

use std::sync::Arc;

use polyvirt_contract::{ProviderError, Result, SnapshotId, TaskId};

use crate::core::{Core, Vm};
use crate::create::{must_be_whole, set_marks};
use crate::domain::tuning::DiskTuning;
use crate::domain::{DiskMark, Marks, disk};
use crate::rpc::{Domain, Session, Snapshot, flags};
use crate::snapshot::{QUIET, find};
use crate::storage::Pool;
use crate::xml::{Element, parse};
use crate::{errors, held};

/// Where a snapshot keeps machines: the one that ran, or would have run, and the one that would have started next.
const MACHINES: [&str; 2] = ["domain", "inactiveDomain"];

/// Takes the VM back: off as it was, or running on from that moment if its memory was kept.
pub(crate) async fn revert(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    id: SnapshotId,
) -> Result<Option<TaskId>> {
    find(&vm, &id)?;
    let core_of_task = core.clone();
    let key = format!("snapshot-revert {} {id}", vm.uuid);
    let begun = core.tasks.begin(&key, move |_| async move {
        let core = core_of_task;
        let _alone = vm.change.lock().await;
        core.look(&vm).await?;
        must_be_whole(&vm)?;
        go_back(&core, &vm, &find(&vm, &id)?).await
    });
    begun.answer().await
}

async fn go_back(core: &Arc<Core>, vm: &Arc<Vm>, snapshot: &Snapshot) -> Result<()> {
    let session = core.session().await?;
    let Some(now) = vm.config()?.marks else {
        session.revert(snapshot, flags::REVERT_FORCE).await?;
        return core.look(vm).await.map(drop);
    };
    let later = Later::of(&session, vm, &now).await?;
    write_down(&session, snapshot, &now).await?;
    session.revert(snapshot, flags::REVERT_FORCE).await?;
    core.look(vm).await?;
    later.give_back(&session, vm).await?;
    if let Some(then) = vm.config()?.marks {
        // Without what is only said of a snapshot.
        set_marks(core, vm.uuid, &then, flags::CONFIG).await?;
    }
    core.look(vm).await.map(drop)
}

/// Writes what is of now into the marks of the snapshot.
async fn write_down(session: &Session, snapshot: &Snapshot, now: &Marks) -> Result<()> {
    let text = session.snapshot_xml(snapshot, flags::SECURE).await?;
    let mut document = parse(&text)?;
    for machine in MACHINES {
        if let Some(domain) = document.root.at_mut(machine) {
            mark(domain, now)?;
        }
    }
    let xml = document.to_string();
    if xml != text {
        session
            .snapshot(&snapshot.domain, &xml, flags::REDEFINE)
            .await?;
    }
    Ok(())
}

/// The machine is that of then; whose it is, what was asked of it last, and which disks came later, is of now.
fn mark(domain: &mut Element, now: &Marks) -> Result<()> {
    let Some(then) = Marks::of_domain(domain) else {
        return Ok(());
    };
    let marks = Marks {
        owner: now.owner.clone(),
        tags: now.tags.clone(),
        request: now.request.clone(),
        bases: now.bases.clone(),
        disks: joined(domain, &then, now)?,
        ..then
    };
    let said = domain.at(Marks::PATH).cloned();
    marks.put(domain);
    if let (Some(said), Some(element)) = (said, domain.at_mut(Marks::PATH)) {
        for name in [QUIET, held::BYTES] {
            said.get(name)
                .into_iter()
                .for_each(|word| element.set(name, word));
        }
    }
    Ok(())
}

/// The disks of then as they were, and those of now that the machine of then does not have.
fn joined(domain: &Element, then: &Marks, now: &Marks) -> Result<Vec<DiskMark>> {
    let devices = domain.at("devices").into_iter();
    let targets: Vec<_> = devices
        .flat_map(|devices| devices.all("disk"))
        .map(|disk| disk.attr_at("target", "dev"))
        .collect();
    let has = |mark: &&DiskMark| targets.contains(&mark.target);
    let mut disks: Vec<_> = then.disks.iter().filter(has).cloned().collect();
    for mark in &now.disks {
        let volume = |other: &DiskMark| (other.pool.clone(), other.volume.clone());
        if disks.iter().any(|old| volume(old) == volume(mark)) {
            continue;
        }
        let name = disks.iter().any(|old| old.name == mark.name);
        if name || targets.contains(&mark.target) {
            return Err(another_disk(&mark.name));
        }
        disks.push(mark.clone());
    }
    Ok(disks)
}

fn another_disk(name: &str) -> ProviderError {
    errors::precondition(format!(
        "The disk {name} is in the place of another one of the snapshot, and a VM cannot have both; give it another name, then go back"
    ))
}

/// The disks of now, as the definition has them.
struct Later {
    disks: Vec<(String, Element)>,
}

impl Later {
    async fn of(session: &Session, vm: &Vm, now: &Marks) -> Result<Self> {
        let stored = flags::INACTIVE | flags::SECURE;
        let domain = parse(&session.xml(&Domain::of(vm.uuid), stored).await?)?.root;
        let mut disks = Vec::new();
        for mark in &now.disks {
            let element = match defined(&domain, &mark.target) {
                Some(element) => element,
                // Somebody died before it was given back.
                None => made_anew(session, mark).await?,
            };
            disks.push((mark.target.clone(), element));
        }
        Ok(Self { disks })
    }

    /// Gives them to the machine of then, which may run by now. One that cannot be plugged in waits for the next start.
    async fn give_back(&self, session: &Session, vm: &Vm) -> Result<()> {
        let domain = Domain::of(vm.uuid);
        let stored = flags::INACTIVE | flags::SECURE;
        let mut document = parse(&session.xml(&domain, stored).await?)?;
        let missing: Vec<_> = self
            .disks
            .iter()
            .filter(|(target, _)| defined(&document.root, target).is_none())
            .map(|(_, element)| element)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        document.root.edit("devices", |devices| {
            for element in &missing {
                devices.push((*element).clone());
            }
        });
        session.define(&document.to_string()).await?;
        if vm.live().is_some() {
            for element in missing {
                plug(session, vm, element).await;
            }
        }
        Ok(())
    }
}

async fn plug(session: &Session, vm: &Vm, element: &Element) {
    let (domain, device) = (Domain::of(vm.uuid), element.to_string());
    let plugged = session.attach(&domain, &device, flags::LIVE).await;
    if let Err(error) = plugged {
        tracing::warn!(vm = %vm.uuid, %error, "A disk that came after the snapshot waits for the next start");
    }
}

/// The disk in that place, to be put wherever there is room on the machine's buses.
fn defined(domain: &Element, target: &str) -> Option<Element> {
    let mut disks = domain.at("devices")?.all("disk");
    let mut found = disks
        .find(|disk| disk.attr_at("target", "dev") == target)?
        .clone();
    found.remove(|part| part.name == "address");
    Some(found)
}

async fn made_anew(session: &Session, mark: &DiskMark) -> Result<Element> {
    let pool = Pool::open(session, &mark.pool, "spec.disks").await?;
    let place = pool.place_of(&mark.volume);
    Ok(disk::element(&mark.target, &place, &DiskTuning::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, target: &str) -> DiskMark {
        DiskMark {
            name: name.to_owned(),
            target: target.to_owned(),
            size_gib: 1,
            pool: "default".to_owned(),
            volume: format!("x.{name}-{target}"),
        }
    }

    fn marks(request: &str, disks: &[DiskMark]) -> Marks {
        Marks {
            request: Some(request.into()),
            pool: "default".to_owned(),
            disks: disks.to_vec(),
            ..Marks::default()
        }
    }

    /// A machine whose disks are in these places.
    fn domain(marks: &Marks, targets: &[&str]) -> Element {
        let disk = |target: &&str| {
            Element::new("disk").holding(Element::new("target").with("dev", target))
        };
        let devices = Element::new("devices").holding_all(targets.iter().map(disk));
        let mut domain = Element::new("domain").holding(devices);
        marks.put(&mut domain);
        domain
    }

    #[test]
    fn what_came_later_is_marked_in_the_machine_of_then() {
        let (a, b) = (disk("a", "vdb"), disk("b", "vdc"));
        let mut then = domain(&marks("old", std::slice::from_ref(&a)), &["vda", "vdb"]);
        let said = then.at_mut(Marks::PATH).expect("marks");
        said.set(QUIET, "yes");
        let grown = DiskMark {
            size_gib: 2,
            ..a.clone()
        };
        let now = marks("new", &[grown, b.clone()]);
        for _ in 0..2 {
            mark(&mut then, &now).expect("fits");
            let read = Marks::of_domain(&then).expect("marks");
            assert_eq!(read, marks("new", &[a.clone(), b.clone()]));
            let element = then.at(Marks::PATH).expect("marks");
            assert_eq!(element.get(QUIET).as_deref(), Some("yes"));
        }
    }

    #[test]
    fn what_went_again_since_it_was_marked_is_forgotten() {
        let mut then = domain(&marks("old", &[disk("b", "vdc")]), &["vda"]);
        mark(&mut then, &marks("new", &[])).expect("fits");
        assert_eq!(Marks::of_domain(&then), Some(marks("new", &[])));
    }

    #[test]
    fn two_disks_of_one_name_or_place_are_refused() {
        let then = marks("old", &[disk("a", "vdb")]);
        for other in [disk("a", "vdc"), disk("b", "vdb")] {
            let mut machine = domain(&then, &["vda", "vdb"]);
            let error = mark(&mut machine, &marks("new", &[other])).expect_err("refused");
            assert_eq!(error.kind, polyvirt_contract::ErrorKind::Precondition);
        }
    }
}
