//! Makes an image ready, once.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::model::PreparedImage;
use polyvirt_contract::{ProviderError, Result, Retry};
use polyvirt_disks::fetch;
use polyvirt_disks::format::{self, Image};
use polyvirt_provider_kit::origin::{fetch_error, fetcher};

use super::source::{self, Place, Source};
use super::versions;
use super::{DISK, RECORD, folder, get, place};
use crate::core::Core;
use crate::errors;
use crate::state::{self, ImageRecord, OpenDir, off_worker};
use crate::tasks::{Begun, Progress};

/// Folders of images that are not whole begin so.
const HALF: &str = ".new-";
/// Folders of downloads that are not whole begin so.
const FETCH: &str = ".fetch-";
/// A download that was not resumed for this long is removed when the provider starts.
const RESUMED_WITHIN: Duration = Duration::from_secs(24 * 3600);
/// How much of the work, in percent, is done when the bytes are here.
const FETCHED: u8 = 74;

/// An image that is there or on its way.
pub(crate) struct Prepared {
    pub(crate) id: String,
    pub(crate) begun: Begun,
}

impl Prepared {
    /// Waits a while; then the place is told, with the task if that is still at work.
    pub(crate) async fn answer(self, core: &Core) -> Result<PreparedImage> {
        let task = self.begun.answer().await?;
        Ok(PreparedImage {
            task,
            ..place(core, &self.id)
        })
    }
}

/// Begins to prepare the image, or finds that somebody has. Which version that is depends on what was asked for.
pub(crate) async fn prepare(core: &Arc<Core>, source: Source) -> Result<Prepared> {
    let source = versions::settle(core, source).await?;
    let id = source.id();
    let there = get(core, &id)?.is_some();
    let (core_of_task, id_of_task) = (core.clone(), id.clone());
    let begun = core
        .tasks
        .begin(&format!("image {id}"), move |progress| async move {
            if there {
                return Ok(());
            }
            let work = Work::new(&core_of_task, &id_of_task)?;
            let made = work.make(&core_of_task, &source, &progress).await;
            if let Err(error) = &made {
                work.give_up(&core_of_task, error);
            }
            made
        });
    Ok(Prepared { id, begun })
}

/// The making of one image.
struct Work {
    id: String,
    half: PathBuf,
}

impl Work {
    fn new(core: &Core, id: &str) -> Result<Self> {
        let half = core.state.images().join(format!("{HALF}{id}"));
        let work = Self {
            id: id.to_owned(),
            half,
        };
        work.abandon();
        let disk = work.disk_folder();
        let made = DirBuilder::new().mode(0o711).recursive(true).create(&disk);
        made.map_err(|error| errors::file("Making the image's folder", &disk, &error))?;
        core.user.give(&disk, 0o700)?;
        Ok(work)
    }

    fn disk_folder(&self) -> PathBuf {
        self.half.join("disk")
    }

    fn abandon(&self) {
        if self.half.exists()
            && let Err(error) = off_worker(|| std::fs::remove_dir_all(&self.half))
        {
            tracing::warn!(path = %self.half.display(), %error, "Half an image is left behind");
        }
    }

    /// Keeps a download only where the next attempt can resume it: what was refused for what it is would be refused again.
    fn give_up(&self, core: &Core, error: &ProviderError) {
        self.abandon();
        let download = self.download(core);
        if error.kind.retry() == Retry::OnChange || is_empty(&download) {
            self.drop_download(core);
        }
    }

    async fn make(&self, core: &Core, source: &Source, progress: &Progress) -> Result<()> {
        let (path, version) = match &source.place {
            Place::File(path) if source.checksum.is_empty() => (path.clone(), None),
            _ => self.fetch(core, source, progress).await?,
        };
        let image = probe(&path, &source.format)?;
        has_room(core, &path)?;
        let file = source::open(core, &path)?;
        let folder = OpenDir::open(&self.disk_folder())?;
        let name = image.format.name();
        let told = |percent: u8| progress.at(FETCHED + percent / 4);
        core.img
            .import(&folder, file, name, "image.qcow2", told)
            .await?;
        self.finish(core, source, image, version)?;
        self.drop_download(core);
        Ok(())
    }

    /// Brings the bytes here and checks them. What came stays until the image is whole, so that a break costs little.
    async fn fetch(
        &self,
        core: &Core,
        source: &Source,
        progress: &Progress,
    ) -> Result<(PathBuf, Option<String>)> {
        let place = self.download(core);
        if !place.is_dir() {
            let made = DirBuilder::new().mode(0o711).create(&place);
            made.map_err(|error| errors::file("Making a folder for the image", &place, &error))?;
        }
        let path = place.join("source");
        if path.is_file() {
            return Ok((path, None));
        }
        let request = source.fetch_request(core)?;
        let told = |at: fetch::Progress| progress.at(percent(at));
        let fetched = fetcher(core.config.image_hosts)?
            .fetch(&request, &path, told)
            .await;
        let fetched = fetched.map_err(|error| fetch_error(&error))?;
        core.user.give(&path, 0o600)?;
        Ok((path, fetched.version))
    }

    fn download(&self, core: &Core) -> PathBuf {
        core.state.images().join(format!("{FETCH}{}", self.id))
    }

    fn drop_download(&self, core: &Core) {
        let place = self.download(core);
        if place.exists()
            && let Err(error) = off_worker(|| std::fs::remove_dir_all(&place))
        {
            tracing::warn!(path = %place.display(), %error, "A download is left behind");
        }
    }

    /// Moves the image to its place, where it is nobody's to write.
    fn finish(
        &self,
        core: &Core,
        source: &Source,
        image: Image,
        version: Option<String>,
    ) -> Result<()> {
        core.user.take_back(&self.half.join(DISK), 0o444)?;
        let record = ImageRecord {
            id: self.id.clone(),
            name: source.name.clone(),
            source: source.public(),
            format: image.format.name().to_owned(),
            virtual_size: image.virtual_bytes,
            layer: false,
            base: String::new(),
            family: source.family(),
            version,
            number: versions::next_number(core, source),
        };
        state::write_json(&self.half.join(RECORD), &record)?;
        core.user.take_back(&self.disk_folder(), 0o711)?;
        core.user.take_back(&self.half, 0o711)?;
        let place = folder(core, &self.id);
        // A folder without a record is half an image that was being removed.
        let moved = off_worker(|| {
            let _ = std::fs::remove_dir_all(&place);
            std::fs::rename(&self.half, &place)
        });
        moved.map_err(|error| errors::file("Moving the image to its place", &place, &error))
    }
}

/// Refuses at once what would fill the datastore half way.
fn has_room(core: &Core, path: &Path) -> Result<()> {
    let needs = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let free = crate::inventory::free_bytes(core.state.root());
    if free.is_some_and(|free| free < needs) {
        return Err(errors::disk_full("The image"));
    }
    Ok(())
}

fn probe(path: &Path, declared: &str) -> Result<Image> {
    let image = format::probe_file(path).and_then(|image| image.expect(declared));
    image.map_err(|error| {
        let cause =
            std::error::Error::source(&error).map_or_else(String::new, |e| format!(": {e}"));
        ProviderError::invalid("spec.source", format!("{error}{cause}"))
    })
}

fn percent(at: fetch::Progress) -> u8 {
    let whole = at.total.unwrap_or(u64::MAX).max(1);
    let share = u128::from(at.bytes) * u128::from(FETCHED) / u128::from(whole);
    u8::try_from(share).unwrap_or(FETCHED).min(FETCHED)
}

fn is_empty(folder: &Path) -> bool {
    off_worker(|| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none()))
}

/// Whether nothing was added to a download for so long that nobody will resume it.
fn is_forgotten(download: &Path) -> bool {
    let files = std::fs::read_dir(download).into_iter().flatten().flatten();
    let changed = files.filter_map(|file| file.metadata().ok()?.modified().ok());
    let last = changed.max();
    last.is_none_or(|last| last.elapsed().is_ok_and(|age| age > RESUMED_WITHIN))
}

/// Removes what an earlier life of the provider left half done.
pub(crate) fn clear_leftovers(core: &Core) {
    off_worker(|| clear_images(core));
}

fn clear_images(core: &Core) {
    let entries = std::fs::read_dir(core.state.images())
        .into_iter()
        .flatten()
        .flatten();
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // A download that stopped is resumed, if somebody still wants it.
        if name.starts_with(FETCH) && !is_forgotten(&entry.path()) {
            continue;
        }
        if name.starts_with(FETCH) || name.starts_with(HALF) || !entry.path().join(RECORD).is_file()
        {
            tracing::info!(path = %entry.path().display(), "Removing half an image");
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_that_nobody_resumes_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(is_forgotten(folder.path()), "nothing has come");
        assert!(is_empty(folder.path()));
        let part = folder.path().join("source.part");
        std::fs::write(&part, b"half").expect("written");
        assert!(!is_forgotten(folder.path()));
        let file = std::fs::File::options().append(true).open(&part);
        let old = std::time::SystemTime::now() - 2 * RESUMED_WITHIN;
        file.expect("open").set_modified(old).expect("set");
        assert!(is_forgotten(folder.path()));
    }
}
