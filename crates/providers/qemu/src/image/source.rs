//! Where an image comes from, and the word that two requests for the same image share.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use polyvirt_contract::model::{CreateVm, PrepareImage, Pull};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_disks::fetch;
use polyvirt_provider_kit::origin;
use sha2::{Digest as _, Sha256};

use crate::core::Core;
use crate::run_as::RunAs;

/// The place of the bytes. It may hold secrets, so it has no debug form.
#[derive(Clone)]
pub(crate) enum Place {
    /// A file of this machine.
    File(PathBuf),
    /// A URL, with request headers.
    Url(String, BTreeMap<String, String>),
}

/// An image to prepare.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) place: Place,
    /// The name that it was asked for by.
    pub(crate) name: String,
    /// What it is said to be; empty to find out.
    pub(crate) format: String,
    pub(crate) checksum: String,
    pub(crate) checksum_type: String,
    /// When its origin is asked.
    pub(crate) pull: Pull,
    /// The VM that it is wanted for.
    pub(super) whom: Option<String>,
    /// Tells versions of a file apart.
    stamp: String,
    /// The id of the version that is here and is to be used.
    known: Option<String>,
}

impl Source {
    /// From a request to prepare an image.
    pub(crate) fn of_request(core: &Core, request: &PrepareImage) -> Result<Self> {
        let asked = origin::asked(request)?;
        let place = place(&asked.path, &asked.url, asked.headers).ok_or_else(|| {
            ProviderError::invalid("spec.source", "The image names no path and no URL")
        })?;
        Self {
            place,
            name: request.target_name.clone(),
            format: asked.format,
            checksum: request.checksum.clone(),
            checksum_type: request.checksum_type.clone(),
            pull: request.pull,
            whom: None,
            stamp: String::new(),
            known: None,
        }
        .stamped(core)
    }

    /// From a VM's image that nobody has prepared.
    pub(crate) fn of_vm(core: &Core, request: &CreateVm) -> Result<Self> {
        let image = &request.image;
        origin::refuse_claims(&image.url)?;
        let place = place(&image.path, &image.url, BTreeMap::new());
        let place = place.ok_or_else(|| {
            let message = "The VM names no image that this provider knows; give a path, a URL, or the name of a prepared image";
            ProviderError::invalid("spec.imageRef", message)
        })?;
        Self {
            place,
            name: image.template_name.clone(),
            format: origin::said(&image.url, &image.format).to_owned(),
            checksum: image.checksum.clone(),
            checksum_type: image.checksum_type.clone(),
            pull: image.pull,
            whom: origin::whom(request),
            stamp: String::new(),
            known: None,
        }
        .stamped(core)
    }

    /// A file that was written anew is another image.
    fn stamped(mut self, core: &Core) -> Result<Self> {
        if let Place::File(path) = &self.place {
            let path = permitted(core, path)?;
            let file = std::fs::metadata(&path).map_err(|error| unreadable(&path, &error))?;
            self.stamp = format!("{} {}.{}", file.len(), file.mtime(), file.mtime_nsec());
            self.place = Place::File(path);
        }
        Ok(self)
    }

    /// How to fetch it, with a bound that the datastore sets.
    pub(super) fn fetch_request(&self, core: &Core) -> Result<fetch::Request> {
        let (source, headers) = match &self.place {
            Place::File(path) => (fetch::Source::File(path.clone()), BTreeMap::new()),
            Place::Url(url, headers) => (origin::source_at(url)?, headers.clone()),
        };
        let free = crate::inventory::free_bytes(core.state.root()).unwrap_or(u64::MAX);
        let checksum = (self.checksum_type.as_str(), self.checksum.as_str());
        origin::fetch_request(source, headers, checksum, free)
    }

    /// What two requests for the same image share.
    pub(crate) fn word(&self) -> String {
        match &self.place {
            Place::File(path) => path.display().to_string(),
            Place::Url(url, _) => url.clone(),
        }
    }

    /// The same, without what may be secret in an address.
    pub(crate) fn public(&self) -> String {
        let word = self.word();
        fetch::Source::parse(&word).map_or(word, |source| source.to_string())
    }

    /// The id that the image has or will have.
    pub(crate) fn id(&self) -> String {
        let known = self.known.clone();
        known.unwrap_or_else(|| self.id_of(&self.stamp))
    }

    /// What all versions of the image share: the id of the one that was fetched without a look at its version.
    pub(crate) fn family(&self) -> String {
        self.id_of("")
    }

    /// That version of it.
    pub(crate) fn at_version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.stamp);
        self
    }

    /// That version of it, which is here.
    pub(crate) fn known_as(mut self, id: &str) -> Self {
        self.known = Some(id.to_owned());
        self
    }

    fn id_of(&self, stamp: &str) -> String {
        let parts = [
            self.word(),
            stamp.to_owned(),
            self.checksum.to_ascii_lowercase(),
        ];
        let digest = Sha256::digest(parts.join("\0").as_bytes());
        let hex = crate::uuid::hex(&digest[..8]);
        format!("img-{hex}")
    }
}

fn place(
    path: &str,
    url: &str,
    headers: std::collections::BTreeMap<String, String>,
) -> Option<Place> {
    let file = url.strip_prefix("file://").unwrap_or(path);
    if !file.is_empty() {
        return Some(Place::File(PathBuf::from(file)));
    }
    (!url.is_empty()).then(|| Place::Url(url.to_owned(), headers))
}

/// The file itself behind all links, if images may be taken from there. A provider that is root could read everything, and
/// whoever may name an image must not read what is not theirs through it.
fn permitted(core: &Core, path: &Path) -> Result<PathBuf> {
    if !path.is_absolute() {
        return Err(ProviderError::invalid(
            "spec.source",
            "Write the whole path of the image, from / on",
        ));
    }
    let real = path
        .canonicalize()
        .map_err(|error| unreadable(path, &error))?;
    let folders = &core.config.image_dirs;
    let inside = folders
        .iter()
        .any(|dir| dir.canonicalize().is_ok_and(|dir| real.starts_with(dir)));
    if inside || folders.is_empty() && (core.user == RunAs::Ourselves || open_to_all(&real)) {
        return Ok(real);
    }
    let message = format!(
        "Images may not be taken from {}; put it where everybody can read it, or name its folder by imageDir= in the provider's endpoint",
        path.display()
    );
    Err(ProviderError::new(ErrorKind::PermissionDenied, message).at("spec.source"))
}

/// Whether everybody may read the file and pass through all folders above it.
fn open_to_all(path: &Path) -> bool {
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.mode());
    mode(path) & 0o004 != 0
        && path
            .ancestors()
            .skip(1)
            .all(|folder| mode(folder) & 0o001 != 0)
}

fn unreadable(path: &Path, error: &std::io::Error) -> ProviderError {
    if error.kind() == std::io::ErrorKind::NotFound {
        return ProviderError::not_found(format!("The image {}", path.display())).at("spec.source");
    }
    let message = format!("The image {} cannot be read: {error}", path.display());
    ProviderError::invalid("spec.source", message)
}

/// Opens the file for a program of QEMU's user, which opens it once more by this handle and so must be let to read it.
pub(super) fn open(core: &Core, path: &Path) -> Result<File> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let meta = file.metadata().map_err(|error| unreadable(path, &error))?;
    if !meta.is_file() {
        let message = format!("{} is no file", path.display());
        return Err(ProviderError::invalid("spec.source", message));
    }
    let readable = match &core.user {
        RunAs::Ourselves => true,
        RunAs::User { uid, .. } => meta.mode() & 0o004 != 0 || meta.uid() == *uid,
    };
    if readable {
        return Ok(file);
    }
    let message = format!(
        "{} may not read the image {}; let everybody read it (chmod o+r)",
        core.user.name(),
        path.display()
    );
    Err(ProviderError::new(ErrorKind::PermissionDenied, message).at("spec.source"))
}
