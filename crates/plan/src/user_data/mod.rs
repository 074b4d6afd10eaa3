//! What the guest reads at its first boot: collected from the manifest and its Secrets, checked, and joined.
//!
//! ```text
//!   spec.userData.cloudInit  ─ inline ─┐
//!                            ─ Secret ─┴─ check ─ one: as it is ─ two: MIME multipart ─┐
//!   spec.userData.ignition   ─ inline or Secret ─ check ──────────────────────────────┼─▶ Rendered
//!   spec.metaData.cloudInit  ─ inline ─┐                                              │
//!                            ─ Secret ─┴─ check ─ merge, the Secret wins ─────────────┤
//!   spec.networkData.cloudInit ─ inline or Secret ─ check ────────────────────────────┘
//! ```
//!
//! A guest ignores most mistakes in silence, hours after somebody made them. Here they are found before the VM exists.
//! A problem names the field, the Secret and its key, line and column, and never quotes what stands there.

mod cloud_init;
mod document;
mod format;
mod ignition;
mod meta_data;
mod mime;
mod network_data;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use polyvirt_api::infra as api;
use polyvirt_contract::model::UserData;

use crate::problem::Problem;
use crate::reason::Reason;
use document::{Document, Slot};

pub use meta_data::{complete_meta_data, default_meta_data};

/// The values of a Secret by key.
pub type SecretData = BTreeMap<String, Bytes>;

/// The Secrets that were asked for, by name; `None` for one that does not exist.
pub type Secrets = BTreeMap<String, Option<SecretData>>;

/// The largest document that a guest is given. Secrets cannot be larger, and no hypervisor carries more.
pub const MAX_BYTES: usize = 1 << 20;

/// The fields of a VirtualMachine that speak to its guest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// `spec.userData`.
    pub user: Option<&'a api::UserData>,
    /// `spec.metaData`.
    pub meta: Option<&'a api::MetaData>,
    /// `spec.networkData`.
    pub network: Option<&'a api::NetworkData>,
}

/// What the provider is given. Empty bytes are "not given". It may hold secrets, so its debug text has sizes only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    /// For cloud-init or Ignition.
    pub user_data: Option<UserData>,
    /// As the user wrote it; [`complete_meta_data`] adds what is missing.
    pub meta_data: Bytes,
    /// As the user wrote it; without it the provider makes one from the network cards.
    pub network_data: Bytes,
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendered")
            .field(
                "user_data_bytes",
                &self.user_data.as_ref().map(|data| data.bytes().len()),
            )
            .field("meta_data_bytes", &self.meta_data.len())
            .field("network_data_bytes", &self.network_data.len())
            .finish()
    }
}

impl<'a> Sources<'a> {
    /// The fields of a VirtualMachine.
    pub fn of(spec: &'a api::VirtualMachineSpec) -> Self {
        Self {
            user: spec.user_data.as_deref(),
            meta: spec.meta_data.as_deref(),
            network: spec.network_data.as_deref(),
        }
    }

    fn slots(&self) -> [Option<Slot<'a>>; 4] {
        let user = self.user.and_then(|u| u.cloud_init.as_ref());
        let ignition = self.user.and_then(|u| u.ignition.as_ref());
        let meta = self.meta.and_then(|m| m.cloud_init.as_ref());
        let network = self.network.and_then(|n| n.cloud_init.as_ref());
        [
            user.map(|c| Slot::cloud_init(&document::USER_DATA, c)),
            ignition.map(Slot::ignition),
            meta.map(|c| Slot::cloud_init(&document::META_DATA, c)),
            network.map(|c| Slot::cloud_init(&document::NETWORK_DATA, c)),
        ]
    }
}

/// The Secrets to fetch: the field that names each, and its name.
pub fn secrets_needed<'a>(sources: &Sources<'a>) -> Vec<(&'static str, &'a str)> {
    sources
        .slots()
        .into_iter()
        .flatten()
        .filter_map(|slot| slot.secret_needed())
        .collect()
}

/// Collects, checks and joins what the guest is given, or tells the first thing that is wrong.
pub fn render(sources: &Sources<'_>, secrets: &Secrets) -> Result<Rendered, Problem> {
    let [user, ignition, meta, network] = sources.slots();
    if user.is_some() && ignition.is_some() {
        return Err(Problem::new(
            Reason::UserDataInvalid,
            "spec.userData",
            "A guest reads either cloud-init or Ignition. Remove spec.userData.cloudInit or spec.userData.ignition",
        ));
    }
    let cloud_init = collect(user, secrets, cloud_init::user_data)?.map(UserData::CloudInit);
    let ignition = collect(ignition, secrets, ignition::config)?.map(UserData::Ignition);
    Ok(Rendered {
        user_data: cloud_init.or(ignition),
        meta_data: collect(meta, secrets, meta_data::given)?.unwrap_or_default(),
        network_data: collect(network, secrets, network_data::given)?.unwrap_or_default(),
    })
}

fn collect(
    slot: Option<Slot<'_>>,
    secrets: &Secrets,
    finish: impl FnOnce(&[Document]) -> Result<Bytes, Problem>,
) -> Result<Option<Bytes>, Problem> {
    let Some(slot) = slot else { return Ok(None) };
    let bytes = finish(&slot.documents(secrets)?)?;
    if bytes.len() > MAX_BYTES {
        return Err(slot.too_large(bytes.len()));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests;
