//! Images and imported disks: each source is prepared once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use polyvirt_contract::model::{ImageOrigin, ImageSource, PrepareImage, PreparedImage, Pull};
use polyvirt_contract::{ErrorKind, ImageId, ProviderError, Result};

use crate::config::MockConfig;
use crate::state::tasks::{Action, TaskKey};
use crate::state::{State, Vm};

/// An image that is there, or will be.
#[derive(Debug)]
struct Image {
    number: u64,
    task: Option<TaskKey>,
}

/// A disk that came in from a staging place.
#[derive(Clone, Debug)]
pub(crate) struct ImportedDisk {
    pub(crate) sha256: Box<str>,
    pub(crate) size_gib: u32,
}

#[derive(Debug)]
pub(crate) struct Images {
    missing: BTreeSet<String>,
    corrupt: BTreeSet<String>,
    by_source: BTreeMap<String, Image>,
    /// Sources whose bytes are others by now than those that were fetched.
    changed: BTreeSet<String>,
    /// URLs that VMs were made from.
    fetched: BTreeSet<String>,
    imported: BTreeMap<String, ImportedDisk>,
    prepared: u64,
    deleted: u64,
}

impl Images {
    pub(crate) fn new(config: &MockConfig) -> Self {
        Self {
            missing: config.missing_images.clone(),
            corrupt: config.corrupt_images.clone(),
            by_source: BTreeMap::new(),
            changed: BTreeSet::new(),
            fetched: BTreeSet::new(),
            imported: BTreeMap::new(),
            prepared: 0,
            deleted: 0,
        }
    }

    /// Whether a VM can be made from this template, path or URL.
    pub(crate) fn source_is_there(&self, source: &str) -> Result<()> {
        if self.missing.contains(source) {
            return Err(ProviderError::not_found(format!("The image {source}")).at("spec.imageRef"));
        }
        Ok(())
    }

    /// Fetches what a VM is to be made from, as its policy says.
    pub(crate) fn pull(&mut self, image: &ImageSource, source: &str) -> Result<()> {
        let by_url = image.url == source && !source.is_empty();
        let prepared = self.by_source.get(source).is_some_and(|i| i.task.is_none());
        if image.pull == Pull::Never && by_url && !prepared && !self.fetched.contains(source) {
            return Err(may_not_fetch(source));
        }
        self.source_is_there(source)?;
        if by_url {
            self.fetched.insert(source.to_owned());
        }
        Ok(())
    }

    pub(crate) fn imported(&self, path: &str) -> Option<&ImportedDisk> {
        self.imported.get(path)
    }

    pub(crate) fn keep_import(&mut self, path: String, disk: ImportedDisk) {
        self.imported.insert(path, disk);
    }

    /// How many were prepared, each source once.
    pub(crate) const fn prepared(&self) -> u64 {
        self.prepared
    }

    /// Grows with each preparation and each deletion.
    pub(crate) const fn changes(&self) -> u64 {
        self.prepared + self.deleted
    }

    pub(super) fn finish(&mut self, source: &str) -> Result<()> {
        let corrupt = self.corrupt.contains(source);
        if corrupt {
            self.by_source.remove(source);
            return Err(wrong_checksum(source));
        }
        if let Some(image) = self.by_source.get_mut(source) {
            image.task = None;
        }
        Ok(())
    }

    /// What is on its way is waited for in any case.
    fn forget_if_changed(&mut self, source: &str) {
        let there = self.by_source.get(source).is_some_and(|i| i.task.is_none());
        if there && self.changed.remove(source) {
            self.by_source.remove(source);
        }
    }

    /// Work in flight is lost with the process; what is prepared stays.
    pub(super) fn crash(&mut self) {
        self.by_source.retain(|_, image| image.task.is_none());
    }
}

impl State {
    /// Makes an image ready. The same source is prepared once, under whichever name it was asked for first.
    pub(crate) fn image_prepare(
        &mut self,
        now: Duration,
        request: &PrepareImage,
    ) -> Result<PreparedImage> {
        let source = source(&request.origin)?;
        if request.pull == Pull::Always {
            self.images.source_is_there(&source)?;
            self.images.forget_if_changed(&source);
        }
        if let Some(image) = self.images.by_source.get(&source) {
            return Ok(prepared(image, image.task.map(|task| self.tasks.id(task))));
        }
        self.images.source_is_there(&source)?;
        if has_wrong_checksum(request) {
            self.images.corrupt.insert(source.clone());
        } else if !request.checksum.is_empty() {
            self.images.corrupt.remove(&source);
        }
        self.images.prepared += 1;
        let image = Image {
            number: self.images.prepared,
            task: None,
        };
        self.images.by_source.insert(source.clone(), image);
        self.begin_image(now, &source)
    }

    fn begin_image(&mut self, now: Duration, source: &str) -> Result<PreparedImage> {
        let action = Action::FinishImage(source.to_owned());
        let task = self.perform(now, action, self.times.image)?;
        let key = task.as_ref().map(|_| self.tasks.last_key());
        let Some(image) = self.images.by_source.get_mut(source) else {
            return Err(wrong_checksum(source));
        };
        image.task = key;
        Ok(prepared(image, task))
    }

    /// Deletes a prepared image, unless a VM was made from it.
    pub(crate) fn image_delete(&mut self, image: &PreparedImage) -> Result<()> {
        let is_it = |found: &Image| {
            let place = prepared(found, None);
            (!image.id.is_empty() && place.id == image.id) || place.path == image.path
        };
        let found = self.images.by_source.iter().find(|(_, found)| is_it(found));
        let Some((source, found)) = found else {
            let name = format!("The image {}{}", image.id, image.path);
            return Err(ProviderError::not_found(name));
        };
        let (source, place) = (source.clone(), prepared(found, None));
        self.image_is_unused(&place)?;
        self.images.by_source.remove(&source);
        self.images.deleted += 1;
        Ok(())
    }

    fn image_is_unused(&self, image: &PreparedImage) -> Result<()> {
        let uses = |vm: &Vm| *vm.image == *image.id.as_str() || *vm.image == *image.path;
        let Some(vm) = self.vms.values().find(|vm| uses(vm)) else {
            return Ok(());
        };
        let message = format!(
            "The VM {} was made from the image {}; delete it first",
            vm.key.id(),
            image.id
        );
        Err(ProviderError::new(ErrorKind::Precondition, message))
    }

    /// How many images were prepared, each source once.
    pub(crate) const fn images_prepared(&self) -> u64 {
        self.images.prepared()
    }

    /// The origin of an image has other bytes from now on.
    pub(crate) fn image_changed(&mut self, source: &str) {
        self.images.changed.insert(source.to_owned());
    }

    /// Says whether an image is there, from now on.
    pub(crate) fn image_missing(&mut self, source: &str, missing: bool) {
        if missing {
            self.images.missing.insert(source.to_owned());
        } else {
            self.images.missing.remove(source);
        }
    }
}

fn prepared(image: &Image, task: Option<polyvirt_contract::TaskId>) -> PreparedImage {
    let name = format!("image-{}", image.number);
    PreparedImage {
        path: format!("mock:images/{name}.raw"),
        id: ImageId::from(name),
        task,
    }
}

/// A checksum of which everybody can see that no file has it, such as `bad`.
fn has_wrong_checksum(request: &PrepareImage) -> bool {
    let checksum = &request.checksum;
    if checksum.starts_with("https://") || checksum.starts_with("http://") {
        return false;
    }
    let hex = checksum.bytes().all(|byte| byte.is_ascii_hexdigit());
    !hex || checksum == "bad"
}

fn may_not_fetch(source: &str) -> ProviderError {
    let message = format!(
        "The image {source} is not here, and may not be fetched. Prepare it, or set IfNotPresent"
    );
    ProviderError::new(ErrorKind::Precondition, message).at("spec.imagePullPolicy")
}

fn wrong_checksum(source: &str) -> ProviderError {
    let message = format!(
        "The image {source} does not have the checksum that was asked for; correct one of the two"
    );
    ProviderError::invalid("spec.source.checksum", message)
}

/// The word that two requests for the same image share.
fn source(origin: &ImageOrigin) -> Result<String> {
    let word = match origin {
        ImageOrigin::Libvirt { path, url, .. } => first([path, url]),
        ImageOrigin::Vsphere {
            template_name,
            ova_url,
            content_library,
        } => match content_library {
            Some((library, item, version)) => format!("{library}/{item}/{version}"),
            None => first([template_name, ova_url]),
        },
        ImageOrigin::Proxmox {
            template_id,
            template_name,
            ..
        } => template_id.map_or_else(|| template_name.clone(), |id| id.to_string()),
        ImageOrigin::Http { url, .. } => url.clone(),
        ImageOrigin::Registry { image, .. } => image.clone(),
        ImageOrigin::DataVolume {
            namespace,
            name,
            reader,
        } => format!("{}/{name}", first([namespace, reader])),
    };
    if word.is_empty() {
        let message = "The image names no template, path or URL";
        return Err(ProviderError::new(ErrorKind::Invalid, message).at("spec.source"));
    }
    Ok(word)
}

fn first(words: [&String; 2]) -> String {
    let found = words.into_iter().find(|word| !word.is_empty());
    found.cloned().unwrap_or_default()
}
