//! Facts about disks, what is in them, and disks that come from elsewhere.

use std::time::Duration;

use bytes::Bytes;
use polyvirt_contract::model::{DiskExported, DiskImported, DiskInfo, ExportDisk, ImportDisk};
use polyvirt_contract::{ProviderError, Result, SnapshotId, TaskId, VmId};

use crate::staging::Staged;
use crate::state::images::ImportedDisk;
use crate::state::tasks::Action;
use crate::state::view::disk_path;
use crate::state::vm::{Hardware, Vm};
use crate::state::{State, sha256};

/// The name of the first disk.
pub(super) const ROOT: &str = "root";
/// The disks of the mock are multiples of this long.
const BLOCK: usize = 4096;

/// What a disk holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Bytes made up from the disk's name.
    Label(Bytes),
    /// The bytes of an import, by their SHA-256.
    Imported(Box<str>),
}

impl State {
    /// Facts about one disk, as it is or as a snapshot has it.
    pub(crate) fn disk_info(
        &self,
        id: &VmId,
        disk: &str,
        snapshot: Option<&SnapshotId>,
    ) -> Result<DiskInfo> {
        let key = self.key(id)?;
        let vm = self.vm(key)?;
        let hardware = match snapshot {
            Some(id) => &self.snapshot(key, id)?.hardware,
            None => &vm.hardware,
        };
        let name = root_if_empty(disk);
        let gib = size_of(hardware, name).ok_or_else(|| no_disk(id, name))?;
        let bytes = i64::from(gib) << 30;
        let backing = vm.backing.filter(|_| name == ROOT);
        Ok(DiskInfo {
            id: name.to_owned(),
            format: "raw".to_owned(),
            virtual_size_bytes: bytes,
            actual_size_bytes: bytes / 10,
            path: disk_path(key, name),
            bootable: name == ROOT,
            snapshots: vm
                .snapshots
                .iter()
                .map(|snapshot| snapshot.id.to_string())
                .collect(),
            backing_file: backing.map_or_else(String::new, |source| disk_path(source, ROOT)),
            metadata: std::collections::BTreeMap::new(),
        })
    }

    /// What the disk that is asked for holds.
    pub(crate) fn content(&self, request: &ExportDisk) -> Result<Content> {
        let info = self.disk_info(&request.vm, &request.disk, request.snapshot.as_ref())?;
        let vm = self.vm(self.key(&request.vm)?)?;
        match &vm.content {
            Some(sha256) if info.bootable => Ok(Content::Imported(sha256.clone())),
            _ => Ok(Content::Label(label(vm, &info.id))),
        }
    }

    /// Tells of an export whose bytes are written.
    pub(crate) fn exported(
        &mut self,
        now: Duration,
        request: &ExportDisk,
        bytes: &Bytes,
    ) -> Result<DiskExported> {
        let checksum = sha256(bytes);
        Ok(DiskExported {
            id: format!("{}-{}", request.vm, &checksum[..16]),
            task: self.tell_later(now)?,
            estimated_size_bytes: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            checksum,
        })
    }

    /// Takes in a disk whose bytes are stored.
    pub(crate) fn imported(
        &mut self,
        now: Duration,
        request: &ImportDisk,
        staged: Staged,
    ) -> Result<DiskImported> {
        let (name, length) = (&request.target_name, staged.raw.len());
        self.know_import(name, sha256(&staged.raw).into(), length);
        Ok(DiskImported {
            id: name.clone(),
            path: import_path(name),
            task: self.tell_later(now)?,
            actual_size_bytes: i64::try_from(length).unwrap_or(i64::MAX),
            checksum: staged.checksum,
        })
    }

    /// Remembers an imported disk, so that a VM can be made from it.
    pub(crate) fn know_import(&mut self, name: &str, sha256: Box<str>, length: usize) {
        let gib = u32::try_from(length.div_ceil(1 << 30)).unwrap_or(u32::MAX);
        let disk = ImportedDisk {
            sha256,
            size_gib: gib.max(1),
        };
        self.images.keep_import(import_path(name), disk);
    }

    fn tell_later(&mut self, now: Duration) -> Result<Option<TaskId>> {
        self.perform(now, Action::Tell, self.times.disk)
    }
}

fn import_path(name: &str) -> String {
    format!("mock:imports/{name}.raw")
}

const fn root_if_empty(disk: &str) -> &str {
    if disk.is_empty() { ROOT } else { disk }
}

fn size_of(hardware: &Hardware, name: &str) -> Option<u32> {
    if name == ROOT {
        return Some(hardware.root_gib);
    }
    hardware.disk(name).map(|disk| disk.size_gib)
}

fn no_disk(id: &VmId, name: &str) -> ProviderError {
    ProviderError::not_found(format!("The disk {name} of the VM {id}"))
}

/// One block that no other disk has.
fn label(vm: &Vm, disk: &str) -> Bytes {
    let owner = vm
        .owner
        .as_ref()
        .map_or("", |owner| owner.identity.as_str());
    let text = format!(
        "polyvirt mock disk\nvm={}\nowner={owner}\ndisk={disk}\nimage={}\n",
        vm.key.id(),
        vm.image
    );
    let mut block = text.into_bytes();
    block.resize(block.len().next_multiple_of(BLOCK), 0);
    Bytes::from(block)
}
