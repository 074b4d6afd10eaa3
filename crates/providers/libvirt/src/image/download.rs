//! Images that are fetched from where their users say.

use std::collections::BTreeMap;
use std::path::Path;

use polyvirt_contract::{ProviderError, Result};
use polyvirt_disks::{fetch, format};
use polyvirt_provider_kit::origin::{self, fetch_error, fetcher};
use polyvirt_provider_kit::tasks::Progress;

use super::{FETCHED, Source};
use crate::core::Core;
use crate::errors;

/// Fetches it into a file. Which version it is, if its origin tells.
pub(super) async fn download(
    core: &Core,
    source: &Source,
    (url, headers): (&str, &BTreeMap<String, String>),
    file: &Path,
    progress: &Progress,
) -> Result<Option<String>> {
    let request = request(source, url, headers)?;
    let told = |at: fetch::Progress| {
        let whole = at.total.unwrap_or(u64::MAX).max(1);
        let share = u128::from(at.bytes) * u128::from(FETCHED) / u128::from(whole);
        progress.at(u8::try_from(share).unwrap_or(FETCHED));
    };
    if let Some(work) = file.parent() {
        std::fs::create_dir_all(work).map_err(|error| {
            errors::internal(format!(
                "No room for downloads at {}: {error}",
                work.display()
            ))
        })?;
    }
    let fetched = fetcher(core.config.image_hosts)?
        .fetch(&request, file, told)
        .await;
    Ok(fetched.map_err(|error| fetch_error(&error))?.version)
}

/// Which version its origin has now, if that tells.
pub(super) async fn version(
    core: &Core,
    source: &Source,
    (url, headers): (&str, &BTreeMap<String, String>),
) -> Result<Option<String>> {
    let request = request(source, url, headers)?;
    let told = fetcher(core.config.image_hosts)?.version(&request).await;
    told.map_err(|error| fetch_error(&error))
}

fn request(
    source: &Source,
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<fetch::Request> {
    let place = origin::source_at(url)?;
    if matches!(place, fetch::Source::File(_)) {
        let text = "A file of the provider's own machine is no image; put it into a storage pool of the host";
        return Err(ProviderError::invalid("spec.source", text));
    }
    let checksum = (source.checksum_type.as_str(), source.checksum.as_str());
    origin::fetch_request(place, headers.clone(), checksum, format::MAX_VIRTUAL_BYTES)
}
