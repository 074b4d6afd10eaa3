//! Facts about a disk.

use std::collections::BTreeMap;

use polyvirt_contract::model::DiskInfo;
use polyvirt_contract::{ProviderError, Result, SnapshotId};

use crate::core::Core;
use crate::state::{Hardware, Record};
use crate::vm::Vm;

/// The name of the first disk.
const ROOT: &str = "root";

/// Facts about one disk, as it is or as a snapshot has it; an empty name is the first disk.
pub(crate) async fn disk_info(
    core: &Core,
    vm: &Vm,
    disk: &str,
    snapshot: Option<&SnapshotId>,
) -> Result<DiskInfo> {
    vm.must_be_whole()?;
    let record = vm.copy();
    let hardware = match snapshot {
        None => &record.hardware,
        Some(id) => {
            let found = record.snapshots.iter().find(|snapshot| snapshot.id == *id);
            let absent = || ProviderError::not_found(format!("The snapshot {id}"));
            &found.ok_or_else(absent)?.hardware
        }
    };
    let name = if disk.is_empty() { ROOT } else { disk };
    let file = file_of(hardware, name).ok_or_else(|| {
        ProviderError::not_found(format!("The disk {name} of the VM {}", vm.uuid()))
    })?;
    let info = core.img.info(&vm.dir.open_run()?, &file).await?;
    let bytes = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Ok(DiskInfo {
        id: name.to_owned(),
        format: info.format,
        virtual_size_bytes: bytes(info.virtual_size),
        actual_size_bytes: bytes(info.actual_size),
        path: vm.dir.file(&file).display().to_string(),
        bootable: name == ROOT,
        snapshots: info.snapshots.into_iter().map(|tag| tag.name).collect(),
        backing_file: info.backing_filename,
        metadata: BTreeMap::new(),
    })
}

fn file_of(hardware: &Hardware, name: &str) -> Option<String> {
    if name == ROOT {
        return Some(Record::ROOT.to_owned());
    }
    hardware.disk(name).map(|disk| disk.file.clone())
}
