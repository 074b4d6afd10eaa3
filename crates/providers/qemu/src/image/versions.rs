//! Versions of an image whose origin changes. Each is an image of its own, for VMs are built upon those of before.
//!
//! ```text
//!   IfNotPresent: the newest that is here, else what the origin has
//!   Always:       what the origin has now, by its tag, its date or its checksum; fetched if that version is not here
//!   Never:        the newest that is here
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use polyvirt_contract::model::Pull;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::origin::{fetch_error, fetcher};

use super::source::{Place, Source};
use super::{all, get, remove, user_of};
use crate::core::Core;
use crate::state::ImageRecord;

/// The source at the version that is wanted.
pub(super) async fn settle(core: &Core, source: Source) -> Result<Source> {
    match (source.pull, &source.place) {
        (Pull::Always, Place::Url(..)) => current(core, source).await,
        (Pull::Never, Place::File(_)) if get(core, &source.id())?.is_none() => {
            Err(may_not_fetch(&source))
        }
        // A file tells its version itself.
        (_, Place::File(_)) => Ok(source),
        (pull, Place::Url(..)) => match newest(core, &source) {
            Some(image) => Ok(source.known_as(&image.id)),
            None if pull == Pull::Never => Err(may_not_fetch(&source)),
            None => Ok(source),
        },
    }
}

async fn current(core: &Core, source: Source) -> Result<Source> {
    let request = source.fetch_request(core)?;
    let told = fetcher(core.config.image_hosts)?.version(&request).await;
    let told = told.map_err(|error| fetch_error(&error))?;
    let here = family(core, &source).find(|image| told.is_some() && image.version == told);
    match (here, told) {
        (Some(image), _) => Ok(source.known_as(&image.id)),
        (None, Some(version)) => Ok(source.at_version(&version)),
        // Nobody knows whether it has changed. A create that is tried again need not find out.
        (None, None) => {
            let once = source.whom.clone().unwrap_or_else(moment);
            Ok(source.at_version(&once))
        }
    }
}

fn moment() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos()).to_string()
}

fn family(core: &Core, source: &Source) -> impl Iterator<Item = ImageRecord> + use<> {
    let family = source.family();
    let of_it = move |image: &ImageRecord| image.family == family || image.id == family;
    all(core).into_iter().filter(of_it)
}

fn newest(core: &Core, source: &Source) -> Option<ImageRecord> {
    family(core, source).max_by_key(|image| image.number)
}

/// The number of the next version.
pub(super) fn next_number(core: &Core, source: &Source) -> u64 {
    newest(core, source).map_or(0, |image| image.number + 1)
}

/// Removes the other versions of an image that has gone, but for those that a VM is built upon.
pub(super) fn drop_unused(core: &Core, gone: &ImageRecord) {
    let same = |image: &ImageRecord| !gone.family.is_empty() && image.family == gone.family;
    for image in all(core).into_iter().filter(same) {
        if user_of(core, &image.id).is_none()
            && let Err(error) = remove(core, &image.id)
        {
            tracing::warn!(image = image.id, %error, "A version of an image is left behind");
        }
    }
}

fn may_not_fetch(source: &Source) -> ProviderError {
    let message = format!(
        "The image {} is not here, and may not be fetched. Prepare it, or set IfNotPresent",
        source.public()
    );
    ProviderError::new(ErrorKind::Precondition, message).at("spec.imagePullPolicy")
}
