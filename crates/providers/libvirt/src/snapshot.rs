//! Moments to go back to, all inside the qcow2 files.
//!
//! libvirt takes them of a machine that is off, and of one that runs together with its memory. The disks alone of a machine
//! that runs are taken by QEMU itself, all at the same moment and without stopping it for long, and libvirt is told of them
//! afterwards.

use std::sync::Arc;
use std::time::SystemTime;

use polyvirt_contract::model::{
    GuestDisks, Quiesce, SnapshotContents, SnapshotCreated, SnapshotRequest, SnapshotState, VmState,
};
use polyvirt_contract::{ProviderError, Result, SnapshotId, TaskId};
use polyvirt_provider_kit::uuid::hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::core::{Core, Vm};
use crate::create::must_be_whole;
use crate::domain::Machine;
use crate::rpc::{Domain, Session, Snapshot, flags};
use crate::xml::{Element, parse};
use crate::{errors, frozen, held};

/// Marks a description whose guest had been made quiet.
pub(crate) const QUIET: &str = "quiet";
const LONGEST_NAME: usize = 60;

/// The snapshots of a VM in the words of the contract. One that was described before does not change while its parent is there.
pub(crate) async fn describe(
    session: &Session,
    known: &VmState,
    list: Vec<Snapshot>,
) -> Result<Vec<SnapshotState>> {
    let known = known.snapshots.clone().unwrap_or_default();
    let is_listed = |id: &SnapshotId| list.iter().any(|listed| listed.name == id.as_str());
    let mut described = Vec::new();
    for snapshot in &list {
        let before = known
            .iter()
            .find(|before| before.id.as_str() == snapshot.name)
            .filter(|before| before.parent.as_ref().is_none_or(is_listed));
        described.push(match before {
            Some(before) => before.clone(),
            None => state(&parse(&session.snapshot_xml(snapshot, 0).await?)?.root),
        });
    }
    described.sort_by(|a, b| (a.taken, &a.id).cmp(&(b.taken, &b.id)));
    Ok(described)
}

fn state(xml: &Element) -> SnapshotState {
    let name = xml.text_at("name");
    let memory = xml.attr_at("memory", "snapshot");
    let quiet = xml
        .at("domain/metadata/polyvirt:vm")
        .and_then(|marks| marks.get(QUIET));
    SnapshotState {
        id: SnapshotId::from(name.as_str()),
        name,
        description: xml.text_at("description"),
        taken: xml.text_at("creationTime").parse().unwrap_or(0),
        size_bytes: held::read(xml),
        contents: if memory == "internal" || memory == "external" {
            SnapshotContents::DisksAndMemory
        } else {
            SnapshotContents::Disks
        },
        guest: if quiet.as_deref() == Some("yes") {
            GuestDisks::Quiet
        } else {
            GuestDisks::AsTheyWere
        },
        parent: SnapshotId::non_empty(xml.text_at("parent/name")),
    }
}

/// The name that a hint becomes: itself if QEMU and libvirt can keep it, else one that is always made from it.
fn name_of(hint: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let numeric = hint.bytes().all(|byte| byte.is_ascii_digit());
    if !hint.is_empty() && hint.len() <= LONGEST_NAME && hint.chars().all(fits) && !numeric {
        return hint.to_owned();
    }
    if hint.is_empty() {
        return format!("snapshot-{}", unix_seconds());
    }
    format!("snapshot-{}", hex(&Sha256::digest(hint)[..8]))
}

fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// Takes a snapshot. One of that name that is there is it.
pub(crate) async fn create(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    request: SnapshotRequest,
) -> Result<SnapshotCreated> {
    must_be_whole(&vm)?;
    let name = name_of(&request.name_hint);
    let id = SnapshotId::from(name.as_str());
    if find(&vm, &id).is_ok() {
        return Ok(SnapshotCreated { id, task: None });
    }
    let key = format!("snapshot {} {name}", vm.uuid);
    let core_of_task = core.clone();
    let begun = core.tasks.begin(&key, move |_| async move {
        let core = core_of_task;
        let _alone = vm.change.lock().await;
        core.look(&vm).await?;
        must_be_whole(&vm)?;
        if find(&vm, &SnapshotId::from(name.as_str())).is_err() {
            let taken = take(&core, &vm, &name, &request).await;
            frozen::mend(&core, &vm);
            taken?;
        }
        core.look(&vm).await.map(drop)
    });
    let task = begun.answer().await?;
    Ok(SnapshotCreated { id, task })
}

pub(crate) fn find(vm: &Vm, id: &SnapshotId) -> Result<Snapshot> {
    let known = vm.state().snapshots.unwrap_or_default();
    let found = known.iter().any(|snapshot| snapshot.id == *id);
    let absent = || ProviderError::not_found(format!("The snapshot {id} of the VM {}", vm.uuid));
    found
        .then(|| Snapshot {
            name: id.as_str().to_owned(),
            domain: Domain::of(vm.uuid),
        })
        .ok_or_else(absent)
}

async fn take(core: &Core, vm: &Vm, name: &str, request: &SnapshotRequest) -> Result<()> {
    let session = core.session().await?;
    let live = vm.live();
    keeps_all(live.as_ref().unwrap_or(&vm.config()?))?;
    let memory = request.contents == SnapshotContents::DisksAndMemory;
    match live {
        Some(live) if !memory => disks_of_running(core, vm, &live, name, request).await,
        live => {
            let config = vm.config()?;
            if let Some(live) = &live {
                clear_inside(&session, &Domain::of(vm.uuid), live, name).await?;
            }
            let memory = if live.is_some() { "internal" } else { "no" };
            let machine = live.as_ref().unwrap_or(&config);
            let xml = described(name, request, memory, machine).to_string();
            session.snapshot(&Domain::of(vm.uuid), &xml, 0).await?;
            held::count(&session, vm, machine, name).await;
            Ok(())
        }
    }
}

/// A snapshot that leaves out what the guest writes is none.
fn keeps_all(machine: &Machine) -> Result<()> {
    let Some(disk) = machine.disks.iter().find(|disk| disk.defies_snapshots()) else {
        return Ok(());
    };
    Err(errors::precondition(format!(
        "The disk {} ({}) is raw, and snapshots lie inside qcow2 files; keep the VM's disks in a storage pool of the kind dir, fs or netfs, or have its storage take them",
        disk.target, disk.path
    )))
}

/// Disks that can be written are in it, inside their files; all others are not.
fn described(name: &str, request: &SnapshotRequest, memory: &str, machine: &Machine) -> Element {
    let disks = machine.disks.iter().map(|disk| {
        let how = if disk.keeps_snapshots() {
            "internal"
        } else {
            "no"
        };
        Element::new("disk")
            .with("name", &disk.target)
            .with("snapshot", how)
    });
    Element::new("domainsnapshot")
        .holding(Element::new("name").saying(name))
        .holding(Element::new("description").saying(&request.description))
        .holding(Element::new("memory").with("snapshot", memory))
        .holding(Element::new("disks").holding_all(disks))
}

/// All disks at the same moment. The guest's file systems may have been made quiet for that, and go on afterwards.
async fn disks_of_running(
    core: &Core,
    vm: &Vm,
    live: &Machine,
    name: &str,
    request: &SnapshotRequest,
) -> Result<()> {
    let session = &core.session().await?;
    let domain = Domain::of(vm.uuid);
    let nodes = clear_inside(session, &domain, live, name).await?;
    let quiet = request.quiesce != Quiesce::No && frozen::freeze(core, session, vm).await;
    let actions: Vec<_> = nodes
        .iter()
        .map(|node| {
            let data = json!({"device": node, "name": name});
            json!({"type": "blockdev-snapshot-internal-sync", "data": data})
        })
        .collect();
    let taken = ask_qemu(session, &domain, "transaction", json!({"actions": actions})).await;
    if quiet {
        frozen::thaw(core, session, vm).await;
    }
    taken?;
    let told = tell(session, vm, live, (name, request), quiet).await;
    if told.is_err() {
        delete_inside(session, &domain, &nodes, name).await;
    }
    told
}

/// Tells libvirt of a snapshot that is there: to go back to it is to switch the machine off.
async fn tell(
    session: &Session,
    vm: &Vm,
    live: &Machine,
    (name, request): (&str, &SnapshotRequest),
    quiet: bool,
) -> Result<()> {
    let domain = Domain::of(vm.uuid);
    let stored = session
        .xml(&domain, flags::INACTIVE | flags::SECURE)
        .await?;
    let mut machine = parse(&stored)?.root;
    let blocks = ask_qemu(session, &domain, "query-block", json!({})).await?;
    if let Some(marks) = machine.at_mut("metadata/polyvirt:vm") {
        held::write(marks, held::of_running(&blocks, live, name));
        if quiet {
            marks.set(QUIET, "yes");
        }
    }
    let parent = session.current_snapshot(&domain).await?;
    let parent =
        parent.map(|p| Element::new("parent").holding(Element::new("name").saying(p.name)));
    let xml = described(name, request, "no", live)
        .holding_all(parent)
        .holding(Element::new("state").saying("shutoff"))
        .holding(Element::new("creationTime").saying(unix_seconds()))
        .holding(machine);
    let flags = flags::REDEFINE | flags::CURRENT;
    Ok(session.snapshot(&domain, &xml.to_string(), flags).await?)
}

pub(crate) async fn ask_qemu(
    session: &Session,
    domain: &Domain,
    command: &str,
    arguments: Value,
) -> Result<Value> {
    let line = json!({"execute": command, "arguments": arguments}).to_string();
    let answer = session.monitor(domain, &line).await?;
    let mut answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    match answer["error"]["desc"].as_str() {
        Some(reason) => Err(errors::internal(format!(
            "QEMU refused {command}: {reason}"
        ))),
        None => Ok(answer["return"].take()),
    }
}

/// QEMU's names of the disks that can be written.
async fn nodes(session: &Session, domain: &Domain, live: &Machine) -> Result<Vec<String>> {
    let blocks = ask_qemu(session, domain, "query-block", json!({})).await?;
    let files: Vec<_> = live
        .disks
        .iter()
        .filter(|disk| disk.format == "qcow2")
        .collect();
    let node = |path: &str| {
        let list = blocks.as_array().into_iter().flatten();
        let mut found = list.filter(|block| block["inserted"]["image"]["filename"] == path);
        let name = found.next()?["inserted"]["node-name"].as_str()?;
        Some(name.to_owned())
    };
    let all: Option<Vec<_>> = files.iter().map(|disk| node(&disk.path)).collect();
    all.ok_or_else(|| errors::internal("QEMU does not know a disk of the VM by its file"))
}

/// A name that is there without libvirt's knowing was taken by somebody who was cut short. Gives QEMU's names of the disks.
async fn clear_inside(
    session: &Session,
    domain: &Domain,
    live: &Machine,
    name: &str,
) -> Result<Vec<String>> {
    let nodes = nodes(session, domain, live).await?;
    delete_inside(session, domain, &nodes, name).await;
    Ok(nodes)
}

async fn delete_inside(session: &Session, domain: &Domain, nodes: &[String], name: &str) {
    for node in nodes {
        let arguments = json!({"device": node, "name": name});
        let command = "blockdev-snapshot-delete-internal-sync";
        // It is there only if somebody was cut short.
        let _ = ask_qemu(session, domain, command, arguments).await;
    }
}

/// Deletes a snapshot.
pub(crate) async fn delete(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    id: SnapshotId,
) -> Result<Option<TaskId>> {
    find(&vm, &id)?;
    let core_of_task = core.clone();
    let key = format!("snapshot-delete {} {id}", vm.uuid);
    let begun = core.tasks.begin(&key, move |_| async move {
        let core = core_of_task;
        let _alone = vm.change.lock().await;
        core.look(&vm).await?;
        must_be_whole(&vm)?;
        let snapshot = find(&vm, &id)?;
        core.session().await?.delete_snapshot(&snapshot).await?;
        core.look(&vm).await.map(drop)
    });
    begun.answer().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_or_always_become_the_same() {
        assert_eq!(name_of("before-upgrade"), "before-upgrade");
        assert_eq!(name_of("a/b"), name_of("a/b"));
        assert_ne!(name_of("a/b"), name_of("a/c"));
        assert!(
            name_of("17").starts_with("snapshot-"),
            "QEMU would take it for a number"
        );
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_taken() {
        let text = "<domainsnapshot><name>s</name><description>d</description><creationTime>7</creationTime>
            <parent><name>r</name></parent><memory snapshot='no'/><domain><metadata><polyvirt:vm xmlns:polyvirt='x' quiet='yes'/></metadata></domain></domainsnapshot>";
        let read = state(&parse(text).expect("sound").root);
        assert_eq!((read.taken, read.guest), (7, GuestDisks::Quiet));
        assert_eq!(read.contents, SnapshotContents::Disks);
        assert_eq!(read.parent, Some("r".into()));
    }
}
