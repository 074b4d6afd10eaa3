//! Images that are fetched from where their users say.

use std::collections::BTreeMap;
use std::path::Path;

use polyvirt_contract::model::Headers;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_disks::fetch::{self, FetchError, Fetcher};
use polyvirt_disks::format;
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
    let fetched = fetcher(core)?.fetch(&request, file, told).await;
    Ok(fetched.map_err(|error| fetch_error(&error))?.version)
}

/// Which version its origin has now, if that tells.
pub(super) async fn version(
    core: &Core,
    source: &Source,
    (url, headers): (&str, &BTreeMap<String, String>),
) -> Result<Option<String>> {
    let request = request(source, url, headers)?;
    let told = fetcher(core)?.version(&request).await;
    told.map_err(|error| fetch_error(&error))
}

fn fetcher(core: &Core) -> Result<Fetcher> {
    let options = fetch::Options {
        reach: core.config.image_hosts,
        ..fetch::Options::default()
    };
    Fetcher::new(options).map_err(|error| fetch_error(&error))
}

fn request(
    source: &Source,
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<fetch::Request> {
    let invalid = |field: &str, text: String| ProviderError::invalid(field, text);
    let checksum = fetch::Proof::parse(&source.checksum_type, &source.checksum);
    let request = fetch::Request {
        source: fetch::Source::parse(url).map_err(|e| invalid("spec.source", e.to_string()))?,
        headers: Headers(headers.clone()),
        checksum: checksum.map_err(|e| invalid("spec.source.checksum", e.to_string()))?,
        max_bytes: format::MAX_VIRTUAL_BYTES,
    };
    if matches!(request.source, fetch::Source::File(_)) {
        let text = "A file of the provider's own machine is no image; put it into a storage pool of the host";
        return Err(invalid("spec.source", text.to_owned()));
    }
    Ok(request)
}

fn fetch_error(error: &FetchError) -> ProviderError {
    let (kind, field) = match error {
        FetchError::Checksum { .. } | FetchError::Unlisted { .. } => {
            (ErrorKind::Invalid, "spec.source.checksum")
        }
        FetchError::DiskFull { .. } => (ErrorKind::Exhausted, "spec.source"),
        error if error.is_retryable() => (ErrorKind::Unavailable, "spec.source"),
        _ => (ErrorKind::Invalid, "spec.source"),
    };
    ProviderError::new(kind, error.to_string()).at(field)
}
