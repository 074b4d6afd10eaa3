//! What a snapshot holds, counted when it is taken and written down in what libvirt keeps of it.

use polyvirt_contract::{Result, SnapshotId};
use polyvirt_provider_kit::held::{self, DiskFile};
use serde_json::{Value, json};

use crate::core::Vm;
use crate::domain::Machine;
use crate::rpc::{Domain, Session, Snapshot, flags};
use crate::snapshot::ask_qemu;
use crate::storage;
use crate::xml::{Element, parse};

/// Where our marks are in the description of a snapshot.
const MARKS: &str = "domain/metadata/polyvirt:vm";
pub(crate) const BYTES: &str = "heldBytes";

/// What was written down; 0 if nothing was.
pub(crate) fn read(snapshot: &Element) -> u64 {
    let marks = snapshot.at(MARKS);
    let bytes = marks.and_then(|marks| marks.get(BYTES));
    bytes.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Writes it into the marks of a domain, or of a domain in a snapshot.
pub(crate) fn write(marks: &mut Element, bytes: u64) {
    if bytes > 0 {
        marks.set(BYTES, bytes);
    }
}

/// Counts by what QEMU tells of its disks.
pub(crate) fn of_running(blocks: &Value, machine: &Machine, name: &str) -> u64 {
    let is_ours = |image: &Value| {
        let file = image["filename"].as_str().unwrap_or_default();
        inside(machine).any(|path| path == file)
    };
    let blocks = blocks.as_array().into_iter().flatten();
    let images = blocks.map(|block| &block["inserted"]["image"]);
    let files: Vec<DiskFile> = images
        .filter(|image| is_ours(image))
        .filter_map(|image| serde_json::from_value(image.clone()).ok())
        .collect();
    held::bytes(&files, name)
}

/// Counts by what libvirt tells of the volumes of a machine that is off.
async fn of_resting(session: &Session, machine: &Machine) -> Result<u64> {
    let mut files = Vec::new();
    for path in inside(machine) {
        if let Some(volume) = session.volume_at(path).await? {
            let facts = storage::facts(session, &volume).await?;
            files.push(DiskFile::of(facts.allocation));
        }
    }
    Ok(held::bytes(&files, ""))
}

/// Files that have snapshots inside.
fn inside(machine: &Machine) -> impl Iterator<Item = &str> {
    let disks = machine.disks.iter().filter(|disk| disk.keeps_snapshots());
    disks.map(|disk| disk.path.as_str())
}

/// Writes down how much a snapshot holds that libvirt has taken. It is whole without that.
pub(crate) async fn count(session: &Session, vm: &Vm, machine: &Machine, name: &str) {
    let domain = Domain::of(vm.uuid);
    let snapshot = Snapshot {
        name: name.to_owned(),
        domain: domain.clone(),
    };
    let counted = async {
        let bytes = if vm.live().is_some() {
            let blocks = ask_qemu(session, &domain, "query-block", json!({})).await?;
            of_running(&blocks, machine, name)
        } else {
            of_resting(session, machine).await?
        };
        note(session, &snapshot, bytes).await
    };
    if let Err(error) = counted.await {
        tracing::debug!(vm = %vm.uuid, name, %error, "What a snapshot holds is not known");
    }
    vm.forget_snapshot(&SnapshotId::from(name));
}

/// Adds it to a snapshot that libvirt has taken. A machine without our marks has no place for it.
async fn note(session: &Session, snapshot: &Snapshot, bytes: u64) -> Result<()> {
    let text = session.snapshot_xml(snapshot, flags::SECURE).await?;
    let mut document = parse(&text)?;
    let Some(marks) = document.root.at_mut(MARKS) else {
        return Ok(());
    };
    write(marks, bytes);
    let flags = flags::REDEFINE | flags::CURRENT;
    let xml = document.to_string();
    Ok(session.snapshot(&snapshot.domain, &xml, flags).await?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn disks_of_the_machine_are_counted_and_no_others() {
        let machine = Machine::read(
            "<domain><devices><disk device='disk'><driver type='qcow2'/><source file='/a'/><target dev='vda'/></disk>
             <disk device='disk'><driver type='raw'/><source file='/seed'/><target dev='vdz'/><readonly/></disk></devices></domain>",
        )
        .expect("sound");
        let block = |file: &str, bytes: u64| {
            let kept =
                json!([{"name": "s", "vm-state-size": 70}, {"name": "r", "vm-state-size": 20}]);
            json!({"inserted": {"image": {"filename": file, "actual-size": bytes, "snapshots": kept}}})
        };
        let blocks = json!([block("/a", 100), block("/seed", 9), {"device": "empty"}]);
        assert_eq!(of_running(&blocks, &machine, "s"), 80);
    }

    #[test]
    fn what_is_written_down_is_read_again() {
        let text = "<domainsnapshot><domain><metadata><polyvirt:vm xmlns:polyvirt='x'/></metadata></domain></domainsnapshot>";
        let mut document = parse(text).expect("sound");
        assert_eq!(read(&document.root), 0);
        write(document.root.at_mut(MARKS).expect("marks"), 4096);
        assert_eq!(read(&document.root), 4096);
    }
}
