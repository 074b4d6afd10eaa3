//! What the guest reads at first boot. It may hold secrets: only QEMU's user can read it, and no argument shows it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use bytes::Bytes;
use polyvirt_contract::model::{CreateVm, UserData};
use polyvirt_contract::{ProviderError, Result};
use polyvirt_disks::seed::{Seed, network_config};

use crate::errors;
use crate::run_as::RunAs;
use crate::state::{Nic, Record, SeedKind, VmDir};
use crate::uuid::Uuid;

/// How the guest gets its configuration, if it gets one. A VM with cards always does: it learns its name and addresses.
pub(crate) fn kind(request: &CreateVm) -> SeedKind {
    match request.user_data {
        Some(UserData::Ignition(_)) => SeedKind::Ignition,
        Some(UserData::CloudInit(_)) | None => SeedKind::NoCloud,
    }
}

/// Writes the configuration into the VM's folder.
pub(crate) fn write(
    dir: &VmDir,
    user: &RunAs,
    uuid: Uuid,
    nics: &[Nic],
    request: &CreateVm,
) -> Result<()> {
    match &request.user_data {
        Some(UserData::Ignition(bytes)) => private(dir, user, Record::IGNITION, bytes),
        _ => {
            let image = documents(uuid, nics, request)
                .to_fat()
                .map_err(|error| ProviderError::invalid("spec.userData", error.to_string()))?;
            private(dir, user, Record::SEED, &image)
        }
    }
}

fn documents(uuid: Uuid, nics: &[Nic], request: &CreateVm) -> Seed {
    let user_data = request.user_data.as_ref().map(|data| data.bytes().clone());
    Seed {
        user_data: user_data.unwrap_or_default(),
        meta_data: meta_data(uuid, request),
        network_config: network(nics, request),
    }
}

fn meta_data(uuid: Uuid, request: &CreateVm) -> Bytes {
    if !request.meta_data.is_empty() {
        return request.meta_data.clone();
    }
    let owner = request.owner.as_ref().map(|owner| owner.name.as_str());
    let name = owner.unwrap_or(&request.name);
    // A name may hold what YAML would take for something else.
    let name = serde_json::Value::from(name);
    Bytes::from(format!("instance-id: {uuid}\nlocal-hostname: {name}\n"))
}

/// The user's own, or what follows from the cards; the MAC addresses are those that the cards really have.
fn network(nics: &[Nic], request: &CreateVm) -> Option<Bytes> {
    if !request.network_data.is_empty() {
        return Some(request.network_data.clone());
    }
    let cards: Vec<_> = request
        .networks
        .iter()
        .map(|card| {
            let mac = nics
                .iter()
                .find(|nic| nic.name == card.name)
                .map(|nic| nic.mac.clone());
            let mut card = card.clone();
            card.mac = mac.unwrap_or(card.mac);
            card
        })
        .collect();
    network_config(&cards).map(Bytes::from)
}

fn private(dir: &VmDir, user: &RunAs, name: &str, bytes: &[u8]) -> Result<()> {
    let path = dir.file(name);
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
    written.map_err(|error| errors::file("Writing the first-boot configuration", &path, &error))?;
    user.give(&path, 0o600)
}
