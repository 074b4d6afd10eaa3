//! What the guest reads at first boot. It may hold secrets: it lies in volumes that only root and QEMU can read, and no XML
//! or argument shows it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use polyvirt_contract::model::{CreateVm, NicSpec, UserData};
use polyvirt_contract::{ProviderError, Result};
use polyvirt_disks::seed::{Seed, network_config};
use polyvirt_provider_kit::uuid::Uuid;
use serde_json::{Value, json};

use crate::rpc::Session;
use crate::storage::{self, Pool, name};

/// What somebody wrote for the guest, as it is kept for copies of the VM.
#[derive(Clone, Default)]
pub(crate) struct Documents {
    user_data: Bytes,
    meta_data: Bytes,
    network_data: Bytes,
    ignition: bool,
}

/// For whom a seed is made.
pub(crate) struct For<'a> {
    pub(crate) uuid: Uuid,
    pub(crate) hostname: &'a str,
    /// The cards with their real MAC addresses.
    pub(crate) cards: Vec<NicSpec>,
}

pub(crate) fn seed_volume(uuid: Uuid) -> String {
    name(uuid, "seed.img")
}

pub(crate) fn ignition_volume(uuid: Uuid) -> String {
    name(uuid, "ignition.json")
}

pub(crate) fn documents_volume(uuid: Uuid) -> String {
    name(uuid, "documents.json")
}

impl Documents {
    pub(crate) fn of(request: &CreateVm) -> Self {
        let user_data = request.user_data.as_ref().map(|data| data.bytes().clone());
        Self {
            user_data: user_data.unwrap_or_default(),
            meta_data: request.meta_data.clone(),
            network_data: request.network_data.clone(),
            ignition: matches!(request.user_data, Some(UserData::Ignition(_))),
        }
    }

    pub(crate) const fn is_ignition(&self) -> bool {
        self.ignition
    }

    /// The same for a copy of the VM: what named the machine stays behind.
    pub(crate) fn for_copy(mut self) -> Self {
        self.meta_data = Bytes::new();
        self
    }

    /// What is kept for the VM, or nothing if nothing is.
    pub(crate) async fn load(session: &Session, pool: &Pool, uuid: Uuid) -> Result<Self> {
        let Some(volume) = pool.find(session, &documents_volume(uuid)).await? else {
            return Ok(Self::default());
        };
        let bytes = storage::read(session, &volume).await?;
        Ok(Self::read(&bytes))
    }

    fn read(bytes: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let part = |key: &str| {
            let text = value[key].as_str().unwrap_or_default();
            Bytes::from(BASE64.decode(text).unwrap_or_default())
        };
        Self {
            user_data: part("userData"),
            meta_data: part("metaData"),
            network_data: part("networkData"),
            ignition: value["ignition"] == true,
        }
    }

    fn json(&self) -> String {
        json!({
            "userData": BASE64.encode(&self.user_data),
            "metaData": BASE64.encode(&self.meta_data),
            "networkData": BASE64.encode(&self.network_data),
            "ignition": self.ignition,
        })
        .to_string()
    }

    /// Keeps the documents, and writes what the guest will read of them.
    pub(crate) async fn write(
        &self,
        session: &Session,
        pool: &Pool,
        guest: &For<'_>,
    ) -> Result<()> {
        let kept = documents_volume(guest.uuid);
        pool.write(session, &kept, self.json().as_bytes()).await?;
        if self.ignition {
            let volume = ignition_volume(guest.uuid);
            return pool.write(session, &volume, &self.user_data).await;
        }
        let seed = Seed {
            user_data: self.user_data.clone(),
            meta_data: self.meta_data(guest),
            network_config: self.network(&guest.cards),
        };
        let image = seed
            .to_fat()
            .map_err(|error| ProviderError::invalid("spec.userData", error.to_string()))?;
        pool.write(session, &seed_volume(guest.uuid), &image).await
    }

    fn meta_data(&self, guest: &For<'_>) -> Bytes {
        if !self.meta_data.is_empty() {
            return self.meta_data.clone();
        }
        // A name may hold what YAML would take for something else; JSON's quotes are YAML's too.
        let name = Value::from(guest.hostname);
        Bytes::from(format!(
            "instance-id: {}\nlocal-hostname: {name}\n",
            guest.uuid
        ))
    }

    /// The user's own, or what follows from the cards.
    fn network(&self, cards: &[NicSpec]) -> Option<Bytes> {
        if !self.network_data.is_empty() {
            return Some(self.network_data.clone());
        }
        network_config(cards).map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_kept_whole_and_a_copy_gets_a_name_of_its_own() {
        let request = CreateVm {
            user_data: Some(UserData::CloudInit(Bytes::from_static(b"\xff#!"))),
            meta_data: Bytes::from_static(b"instance-id: x\n"),
            ..CreateVm::default()
        };
        let kept = Documents::read(Documents::of(&request).json().as_bytes());
        assert_eq!(kept.user_data, &b"\xff#!"[..]);
        let uuid = Uuid::from_bytes([1; 16]);
        let guest = For {
            uuid,
            hostname: "a: b",
            cards: Vec::new(),
        };
        assert_eq!(kept.meta_data(&guest), "instance-id: x\n");
        let expected = format!("instance-id: {uuid}\nlocal-hostname: \"a: b\"\n");
        assert_eq!(kept.for_copy().meta_data(&guest), expected);
    }
}
