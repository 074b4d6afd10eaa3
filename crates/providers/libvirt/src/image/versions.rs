//! Versions of an image whose origin changes. Each is an image of its own, for VMs are built upon those of before.
//!
//! ```text
//!   IfNotPresent: the newest that is here, else what the origin has
//!   Always:       what the origin has now, by its tag, its date or its checksum; fetched if that version is not here
//!   Never:        the newest that is here
//!
//!   img-1f00…          the first       img-1f00….is-9a3c…   a small volume that says which version that is
//!   img-1f00…-1        the next
//! ```

use std::collections::BTreeMap;

use polyvirt_contract::model::{PreparedImage, Pull};
use polyvirt_contract::{ErrorKind, ImageId, ProviderError, Result};
use polyvirt_provider_kit::uuid::hex;
use sha2::{Digest as _, Sha256};

use super::download::version;
use super::{Place, Source, find, id_in, volume_of};
use crate::core::Core;
use crate::rpc::Session;
use crate::storage::Pool;

/// The volume that says which version an image is.
pub(super) fn note_of(id: &str, version: &str) -> String {
    let digest = Sha256::digest(version.as_bytes());
    format!("{}{}", notes_of(id), hex(&digest[..8]))
}

/// How such volumes of an image begin.
pub(super) fn notes_of(id: &str) -> String {
    format!("{id}.is-")
}

/// The place of an image among its versions.
fn number(family: &str, id: &str) -> Option<u64> {
    let rest = id.strip_prefix(family)?;
    if rest.is_empty() {
        return Some(0);
    }
    rest.strip_prefix('-')?.parse().ok()
}

/// What all versions of an image have in common.
fn family_of(id: &str) -> &str {
    let inner = id.strip_prefix("img-").unwrap_or_default();
    inner
        .split_once('-')
        .map_or(id, |(family, _)| &id[..family.len() + "img-".len()])
}

/// The versions of an image that are whole, and all names in the pool.
struct Here {
    family: String,
    whole: BTreeMap<u64, String>,
    names: Vec<String>,
}

impl Here {
    async fn look(session: &Session, pool: &Pool, family: &str) -> Result<Self> {
        let volumes = pool.list(session).await?.into_iter();
        let names: Vec<_> = volumes.map(|volume| volume.name).collect();
        let ids = names.iter().filter_map(|name| name.strip_suffix(".ok"));
        let whole = ids.filter_map(|id| Some((number(family, id)?, id.to_owned())));
        Ok(Self {
            family: family.to_owned(),
            whole: whole.collect(),
            names,
        })
    }

    fn newest(&self) -> Option<&String> {
        self.whole.values().next_back()
    }

    fn at(&self, version: &str) -> Option<&String> {
        let noted = |id: &&String| self.names.contains(&note_of(id, version));
        self.whole.values().rev().find(noted)
    }

    fn next(&self) -> String {
        match self.whole.keys().next_back() {
            None => self.family.clone(),
            Some(last) => format!("{}-{}", self.family, last + 1),
        }
    }
}

/// The source at the version that is wanted.
pub(super) async fn settle(
    core: &Core,
    session: &Session,
    pool: &Pool,
    mut source: Source,
    pull: Pull,
) -> Result<Source> {
    let Place::Url(url, headers) = &source.place else {
        // A volume tells its version itself.
        let here = find(session, pool, &source.id).await?.is_some();
        let may = here || pull != Pull::Never;
        return may.then_some(source).ok_or_else(may_not_fetch);
    };
    let here = Here::look(session, pool, &source.id).await?;
    let id = match (pull, here.newest()) {
        (Pull::Always, _) => {
            let told = version(core, &source, (url, headers)).await?;
            let told = told.or_else(|| source.whom.clone());
            let known = told.and_then(|told| here.at(&told).cloned());
            known.unwrap_or_else(|| here.next())
        }
        (_, Some(newest)) => newest.clone(),
        (Pull::Never, None) => return Err(may_not_fetch()),
        (Pull::IfNotPresent, None) => here.next(),
    };
    source.id = id;
    Ok(source)
}

/// The other versions of an image that this host has, in any of its pools.
pub(crate) async fn others(core: &Core, image: &PreparedImage) -> Result<Vec<PreparedImage>> {
    let session = core.session().await?;
    let id = id_in(image);
    let mut found = Vec::new();
    for pool in Pool::all(&session).await? {
        let here = Here::look(&session, &pool, family_of(id)).await?;
        let others = here.whole.into_values().filter(|other| other != id);
        found.extend(others.map(|other| PreparedImage {
            path: pool.path(&volume_of(&other)),
            id: ImageId::from(other),
            task: None,
        }));
    }
    Ok(found)
}

fn may_not_fetch() -> ProviderError {
    let message = "The image is not here, and may not be fetched. Prepare it, or set IfNotPresent";
    ProviderError::new(ErrorKind::Precondition, message).at("spec.imagePullPolicy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_by_their_names() {
        let family = "img-0123456789abcdef";
        assert_eq!(number(family, family), Some(0));
        assert_eq!(number(family, "img-0123456789abcdef-12"), Some(12));
        assert_eq!(number(family, "img-0123456789abcde0"), None);
        assert_eq!(number(family, "img-0123456789abcdef.is-00"), None);
        assert_eq!(family_of("img-0123456789abcdef-12"), family);
        assert_eq!(family_of(family), family);
        assert_ne!(note_of(family, "\"1\""), note_of(family, "\"2\""));
    }

    #[test]
    fn the_next_version_has_a_name_of_its_own() {
        let mut here = Here {
            family: "img-f".to_owned(),
            whole: BTreeMap::new(),
            names: vec![note_of("img-f-1", "two")],
        };
        assert_eq!(here.next(), "img-f");
        here.whole = BTreeMap::from([(0, "img-f".to_owned()), (1, "img-f-1".to_owned())]);
        assert_eq!(here.newest().map(String::as_str), Some("img-f-1"));
        assert_eq!(here.at("two").map(String::as_str), Some("img-f-1"));
        assert_eq!(here.at("three"), None);
        assert_eq!(here.next(), "img-f-2");
    }
}
