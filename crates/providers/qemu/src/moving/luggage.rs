//! What a VM takes along beside its disks and its memory: the record, and what its guest reads at first boot.

use std::collections::BTreeMap;
use std::io::ErrorKind as IoErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use polyvirt_contract::model::{Handover, Luggage};
use polyvirt_contract::{ProviderError, Result};
use serde::{Deserialize, Serialize};

use super::{find, mark, refuse, was};
use crate::accel::Accel;
use crate::core::Core;
use crate::errors;
use crate::snapshot;
use crate::state::{Record, Side, Was};
use crate::vm::{Guest, Vm};

/// Changes when a reader of the one before would misunderstand.
const VERSION: u32 = 1;
/// The documents beside the working folder.
const DOCUMENTS: &str = "seed.json";

/// A VM as its new host needs to know it. It holds what the guest was given to read, and so has no debug form.
#[derive(Serialize, Deserialize)]
pub(super) struct Description {
    version: u32,
    pub(super) record: Record,
    pub(super) was: Was,
    pub(super) accel: Accel,
    /// Disks with their sizes.
    pub(super) disks: Vec<DiskSize>,
    /// Small files, in letters.
    files: BTreeMap<String, String>,
    /// Where the guest said that it is.
    addresses: BTreeMap<String, Vec<String>>,
    hostname: String,
}

/// A disk that is copied.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DiskSize {
    pub(super) node: String,
    pub(super) bytes: u64,
}

/// Marks the VM as leaving, and describes it.
pub(crate) async fn pack(core: &Arc<Core>, handover: &Handover) -> Result<Luggage> {
    let vm = find(core, &handover.vm)?;
    let _alone = vm.change.lock().await;
    vm.must_be_whole()?;
    refuse(&vm, handover)?;
    let was = was(&vm);
    if was == Was::Off {
        vm.apply_pending(core).await?;
    }
    let description = Description::of(core, &vm, was).await?;
    let bytes = serde_json::to_vec(&description)
        .map_err(|error| errors::internal(format!("The VM cannot be described: {error}")))?;
    let leaves = mark(handover, Side::Leaves, was);
    vm.update(core, |record| record.moving = Some(leaves))?;
    Ok(Luggage(Bytes::from(bytes)))
}

/// Small files that come along, and where they are.
fn small_files(vm: &Vm) -> [(&'static str, PathBuf); 3] {
    [
        (DOCUMENTS, vm.dir.documents()),
        (Record::SEED, vm.dir.file(Record::SEED)),
        (Record::IGNITION, vm.dir.file(Record::IGNITION)),
    ]
}

impl Description {
    async fn of(core: &Core, vm: &Vm, was: Was) -> Result<Self> {
        let record = vm.copy();
        let folder = vm.dir.open_run()?;
        let mut disks = Vec::new();
        for node in snapshot::nodes(&record) {
            let file = format!("{node}.qcow2");
            let bytes = core.img.info(&folder, &file).await?.virtual_size;
            disks.push(DiskSize { node, bytes });
        }
        let mut guest = Guest::default();
        vm.guest(|known| guest = known.clone());
        Ok(Self {
            version: VERSION,
            record,
            was,
            accel: core.emulator().await?.accel,
            disks,
            files: read_files(vm)?,
            addresses: guest.addresses,
            hostname: guest.hostname,
        })
    }

    pub(super) fn read(luggage: &Luggage) -> Result<Self> {
        let read: Self = serde_json::from_slice(&luggage.0).map_err(|_| unreadable())?;
        if read.version == VERSION {
            Ok(read)
        } else {
            Err(unreadable())
        }
    }

    /// The record of the VM on this host: its first disk stands alone here, whatever it stood upon before.
    pub(super) fn arriving(&self, handover: &Handover) -> Record {
        Record {
            image: String::new(),
            running: false,
            fault: String::new(),
            moving: Some(mark(handover, Side::Comes, self.was)),
            ..self.record.clone()
        }
    }

    /// Writes the small files; nobody else chooses their names.
    pub(super) fn unpack(&self, core: &Core, vm: &Vm) -> Result<()> {
        for (name, path) in small_files(vm) {
            let Some(text) = self.files.get(name) else {
                continue;
            };
            let bytes = BASE64.decode(text).map_err(|_| unreadable())?;
            let failed = |error| errors::file("Writing what the guest reads", &path, &error);
            std::fs::write(&path, bytes).map_err(failed)?;
            if name == DOCUMENTS {
                core.user.take_back(&path, 0o600)?;
            } else {
                core.user.give(&path, 0o600)?;
            }
        }
        Ok(())
    }

    /// What the guest has told of itself: it does not get other addresses by moving.
    pub(super) fn guest(&self) -> Guest {
        Guest {
            hostname: self.hostname.clone(),
            addresses: self.addresses.clone(),
            ..Guest::default()
        }
    }
}

fn read_files(vm: &Vm) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for (name, path) in small_files(vm) {
        match std::fs::read(&path) {
            Ok(bytes) => {
                files.insert(name.to_owned(), BASE64.encode(bytes));
            }
            Err(error) if error.kind() == IoErrorKind::NotFound => {}
            Err(error) => return Err(errors::file("Reading what the guest reads", &path, &error)),
        }
    }
    Ok(files)
}

fn unreadable() -> ProviderError {
    errors::precondition(
        "The other host describes the VM in words that this one does not know; run the same version of Polyvirt on both",
    )
}
