//! What the guest reads at first boot. It may hold secrets: only the provider and QEMU's user can read it, and no argument
//! shows it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use polyvirt_contract::model::{CreateVm, NicSpec, UserData};
use polyvirt_contract::{ProviderError, Result};
use polyvirt_disks::seed::{Seed, network_config};
use serde::{Deserialize, Serialize};

use crate::errors;
use crate::run_as::RunAs;
use crate::state::{self, Nic, Record, SeedKind, VmDir};
use crate::uuid::Uuid;

/// What somebody wrote for the guest, as it is kept for copies of the VM.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Documents {
    user_data: Encoded,
    meta_data: Encoded,
    network_data: Encoded,
    ignition: bool,
}

/// Bytes in a JSON file.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Encoded(Bytes);

impl TryFrom<String> for Encoded {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> std::result::Result<Self, Self::Error> {
        BASE64.decode(text).map(|bytes| Self(Bytes::from(bytes)))
    }
}

impl From<Encoded> for String {
    fn from(encoded: Encoded) -> Self {
        BASE64.encode(&encoded.0)
    }
}

/// For whom a seed is made.
pub(crate) struct Guest<'a> {
    pub(crate) uuid: Uuid,
    pub(crate) hostname: &'a str,
    /// The cards with their real MAC addresses.
    pub(crate) cards: Vec<NicSpec>,
}

impl Documents {
    pub(crate) fn of(request: &CreateVm) -> Self {
        let user_data = request.user_data.as_ref().map(|data| data.bytes().clone());
        Self {
            user_data: Encoded(user_data.unwrap_or_default()),
            meta_data: Encoded(request.meta_data.clone()),
            network_data: Encoded(request.network_data.clone()),
            ignition: matches!(request.user_data, Some(UserData::Ignition(_))),
        }
    }

    pub(crate) const fn kind(&self) -> SeedKind {
        if self.ignition {
            SeedKind::Ignition
        } else {
            SeedKind::NoCloud
        }
    }

    /// What is kept for the VM, or nothing if nothing is.
    pub(crate) fn load(dir: &VmDir) -> Result<Self> {
        Ok(state::read_json(&dir.documents())?.unwrap_or_default())
    }

    /// The same for a copy of the VM: what named the machine stays behind.
    pub(crate) fn for_copy(mut self) -> Self {
        self.meta_data = Encoded::default();
        self
    }

    /// Keeps the documents, and writes what the guest will read of them.
    pub(crate) fn write(&self, dir: &VmDir, user: &RunAs, guest: &Guest<'_>) -> Result<()> {
        state::write_json(&dir.documents(), self)?;
        if self.ignition {
            return private(dir, user, Record::IGNITION, &self.user_data.0);
        }
        let seed = Seed {
            user_data: self.user_data.0.clone(),
            meta_data: self.meta_data(guest),
            network_config: self.network(&guest.cards),
        };
        let image = seed
            .to_fat()
            .map_err(|error| ProviderError::invalid("spec.userData", error.to_string()))?;
        private(dir, user, Record::SEED, &image)
    }

    fn meta_data(&self, guest: &Guest<'_>) -> Bytes {
        if !self.meta_data.0.is_empty() {
            return self.meta_data.0.clone();
        }
        // A name may hold what YAML would take for something else; JSON's quotes are YAML's too.
        let name = serde_json::Value::from(guest.hostname);
        Bytes::from(format!(
            "instance-id: {}\nlocal-hostname: {name}\n",
            guest.uuid
        ))
    }

    /// The user's own, or what follows from the cards.
    fn network(&self, cards: &[NicSpec]) -> Option<Bytes> {
        if !self.network_data.0.is_empty() {
            return Some(self.network_data.0.clone());
        }
        network_config(cards).map(Bytes::from)
    }
}

/// The cards of the request with the MAC addresses that they really have.
pub(crate) fn cards(request: &CreateVm, nics: &[Nic]) -> Vec<NicSpec> {
    let real = |card: &NicSpec| {
        let found = nics.iter().find(|nic| nic.name == card.name);
        found.map_or_else(|| card.mac.clone(), |nic| nic.mac.clone())
    };
    let with_mac = |card: &NicSpec| NicSpec {
        mac: real(card),
        ..card.clone()
    };
    request.networks.iter().map(with_mac).collect()
}

/// Writes a file that was not there, so that nothing that lies in its place is followed.
fn private(dir: &VmDir, user: &RunAs, name: &str, bytes: &[u8]) -> Result<()> {
    let path = dir.file(name);
    let failed = |error| errors::file("Writing the first-boot configuration", &path, &error);
    if let Err(error) = std::fs::remove_file(&path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(failed(error));
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            user.give_open(&file, 0o600)?;
            file.sync_all()
        });
    written.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_kept_whole_and_a_copy_gets_a_name_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = crate::state::StateDir::open(folder.path()).expect("made");
        let uuid = Uuid::parse("0a1b2c3d-0000-4000-8000-00000000000f").expect("one");
        let dir = state.vm(uuid);
        dir.create().expect("made");
        let request = CreateVm {
            user_data: Some(UserData::CloudInit(Bytes::from_static(b"\xff#!"))),
            meta_data: Bytes::from_static(b"instance-id: x\n"),
            ..CreateVm::default()
        };
        let documents = Documents::of(&request);
        state::write_json(&dir.documents(), &documents).expect("kept");
        let kept = Documents::load(&dir).expect("read");
        assert_eq!(kept.user_data.0, documents.user_data.0);
        let guest = Guest {
            uuid,
            hostname: "a: b",
            cards: Vec::new(),
        };
        assert_eq!(kept.meta_data(&guest), "instance-id: x\n");
        let expected = format!("instance-id: {uuid}\nlocal-hostname: \"a: b\"\n");
        assert_eq!(kept.for_copy().meta_data(&guest), expected);
    }
}
