//! Facts about a disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use polyvirt_contract::model::DiskInfo;
use polyvirt_contract::{ProviderError, Result, SnapshotId};

use crate::core::{Core, Vm};
use crate::create::{ROOT, must_be_whole};
use crate::domain::disk;
use crate::storage;

/// Facts about one disk; an empty name is the first disk. What a snapshot has lies in the same file.
pub(crate) async fn disk_info(
    core: &Arc<Core>,
    vm: &Vm,
    name: &str,
    snapshot: Option<&SnapshotId>,
) -> Result<DiskInfo> {
    must_be_whole(vm)?;
    let known = vm.state().snapshots.unwrap_or_default();
    let snapshots: Vec<String> = known.iter().map(|taken| taken.id.to_string()).collect();
    if let Some(id) = snapshot.filter(|id| !snapshots.iter().any(|taken| taken == id.as_str())) {
        return Err(ProviderError::not_found(format!("The snapshot {id}")));
    }
    let config = vm.config()?;
    let name = if name.is_empty() { ROOT } else { name };
    let marks = config.marks.clone().unwrap_or_default();
    let target = match name {
        ROOT => Some(disk::ROOT.to_owned()),
        other => marks.disk(other).map(|mark| mark.target.clone()),
    };
    let part = target.and_then(|target| config.disk(&target).cloned());
    let absent = || ProviderError::not_found(format!("The disk {name} of the VM {}", vm.uuid));
    let part = part.ok_or_else(absent)?;
    let session = core.session().await?;
    let volume = session.volume_at(&part.path).await?.ok_or_else(absent)?;
    let facts = storage::facts(&session, &volume).await?;
    let bytes = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Ok(DiskInfo {
        id: name.to_owned(),
        format: facts.format,
        virtual_size_bytes: bytes(facts.capacity),
        actual_size_bytes: bytes(facts.allocation),
        path: part.path,
        bootable: name == ROOT,
        snapshots,
        backing_file: facts.backing,
        metadata: BTreeMap::from([("pool".to_owned(), volume.pool)]),
    })
}
