//! Disks in container images, as KubeVirt has them: one file in the folder `/disk` of an image, or an artifact that is a disk.
//!
//! ```text
//!   server/path:tag ─▶ manifest (─▶ that for this machine) ─▶ layers, from the last on ─▶ TARGET.layer-… ─▶ TARGET
//!          401: token ─┘                                       none has a disk: refused    checked, kept      unpacked
//!                                                                                          until unpacked
//! ```
//!
//! A layer comes like any other download: checked against its digest, and after a break where it stopped.

mod ask;
mod challenge;
mod manifest;
mod reference;
mod unpack;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(in crate::fetch) use reference::Pin;
pub use reference::Reference;

use self::ask::Asker;
use self::manifest::{Layer, Manifest, choose, this_machine};
use self::unpack::{Failed, Found, Job};
use super::error::FetchError;
use super::{Fetched, Fetcher, Progress, Request, Source, blocking, within};
use crate::checksum::Checksum;

impl Fetcher {
    /// Which image the name stands for now.
    pub(super) async fn image_version(
        &self,
        request: &Request,
        reference: &Reference,
    ) -> Result<Option<String>, FetchError> {
        if let Pin::Digest(digest) = &reference.pin {
            return Ok(Some(digest.to_string()));
        }
        let mut asker = Asker::new(self, reference, &request.headers)?;
        if let Some(digest) = asker.digest(&reference.pin).await? {
            return Ok(Some(digest.to_string()));
        }
        let (_, digest) = asker.manifest(&reference.pin).await?;
        Ok(Some(digest.to_string()))
    }

    /// Fetches the disk of an image.
    pub(super) async fn fetch_disk(
        &self,
        request: &Request,
        reference: &Reference,
        target: &Path,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Fetched, FetchError> {
        let expected = self.proved(request).await?;
        let asker = Asker::new(self, reference, &request.headers)?;
        let mut fetch = DiskFetch {
            fetcher: self,
            request,
            reference,
            target,
            progress,
            asker,
        };
        let (version, layers) = fetch.layers().await?;
        let fetched = fetch.first_disk(&layers, expected.as_ref()).await;
        unpack::tidy(target);
        let (bytes, digest) = fetched?;
        Ok(Fetched {
            bytes,
            digest,
            version: Some(version.to_string()),
        })
    }
}

struct DiskFetch<'a> {
    fetcher: &'a Fetcher,
    request: &'a Request,
    reference: &'a Reference,
    target: &'a Path,
    progress: &'a (dyn Fn(Progress) + Send + Sync),
    asker: Asker<'a>,
}

impl DiskFetch<'_> {
    /// What the name stands for, and what that is made of.
    async fn layers(&mut self) -> Result<(Checksum, Vec<Layer>), FetchError> {
        let (bytes, version) = self.asker.manifest(&self.reference.pin).await?;
        let variants = match Manifest::read(&bytes) {
            Some(Manifest::Image(layers)) => return Ok((version, layers)),
            Some(Manifest::Index(variants)) => variants,
            None => return Err(self.no_disk("its manifest is of no kind that is known here")),
        };
        let machine = this_machine();
        let Some(variant) = choose(&variants, &machine) else {
            let offered: BTreeSet<_> = variants.iter().map(|v| v.machine.as_str()).collect();
            return Err(FetchError::OtherMachine {
                image: self.reference.to_string(),
                machine,
                offered: offered.into_iter().collect::<Vec<_>>().join(", "),
            });
        };
        let pin = Pin::Digest(variant.digest.clone());
        let (bytes, _) = self.asker.manifest(&pin).await?;
        match Manifest::read(&bytes) {
            Some(Manifest::Image(layers)) => Ok((version, layers)),
            _ => Err(self.no_disk("its manifest is of no kind that is known here")),
        }
    }

    /// Upper layers hide what is below them.
    async fn first_disk(
        &mut self,
        layers: &[Layer],
        expected: Option<&Checksum>,
    ) -> Result<(u64, Checksum), FetchError> {
        let mut hidden = BTreeSet::new();
        for layer in layers.iter().rev() {
            let file = self.bring(layer).await?;
            match self.unpack(&file, hidden, expected).await? {
                Found::Disk { bytes, digest } => return self.judge(bytes, digest, expected),
                Found::Nothing { hidden: all } => hidden = all,
                Found::End => break,
            }
        }
        Err(self.no_disk("there is no file in its folder /disk"))
    }

    fn judge(
        &self,
        bytes: u64,
        found: Checksum,
        expected: Option<&Checksum>,
    ) -> Result<(u64, Checksum), FetchError> {
        let Some(expected) = expected.filter(|expected| **expected != found) else {
            return Ok((bytes, found));
        };
        let expected = expected.clone();
        std::fs::remove_file(self.target).map_err(|e| FetchError::file(self.target, e))?;
        Err(FetchError::Checksum { expected, found })
    }

    /// Brings a layer here. A token may have run out on the way; the download then goes on with another.
    async fn bring(&mut self, layer: &Layer) -> Result<PathBuf, FetchError> {
        within(self.request.max_bytes, layer.bytes)?;
        let file = self.place_of(layer);
        if file.is_file() {
            return Ok(file);
        }
        match self.download(layer, &file).await {
            Err(FetchError::Refused { status: 401, .. }) => {
                self.asker.renew().await?;
                self.download(layer, &file).await?;
            }
            other => other?,
        }
        Ok(file)
    }

    /// The name says what is inside, so that a whole one is taken over after a restart.
    fn place_of(&self, layer: &Layer) -> PathBuf {
        let mut name = self.target.as_os_str().to_owned();
        name.push(format!(".layer-{}", &layer.digest.hex()[..16]));
        PathBuf::from(name)
    }

    async fn download(&self, layer: &Layer, file: &Path) -> Result<(), FetchError> {
        let request = Request {
            source: Source::Http(self.reference.blob(&layer.digest)?),
            headers: self.asker.headers(),
            checksum: Some(layer.digest.clone().into()),
            max_bytes: self.request.max_bytes,
        };
        let fetched = self.fetcher.fetch_file(&request, file, self.progress);
        fetched.await.map(drop)
    }

    async fn unpack(
        &self,
        layer: &Path,
        hidden: BTreeSet<String>,
        expected: Option<&Checksum>,
    ) -> Result<Found, FetchError> {
        let job = Job {
            layer: layer.to_path_buf(),
            target: self.target.to_path_buf(),
            algorithm: expected.map(Checksum::algorithm).unwrap_or_default(),
            max_bytes: self.request.max_bytes,
            hidden,
        };
        let ended = blocking(move || Ok(job.run())).await?;
        // Whatever came of it, another look would find the same.
        std::fs::remove_file(layer).map_err(|e| FetchError::file(layer, e))?;
        ended.map_err(|failed| match failed {
            Failed::Layer(why) => self.no_disk(&why),
            Failed::Other(error) => error,
        })
    }

    fn no_disk(&self, why: &str) -> FetchError {
        FetchError::NoDisk {
            image: self.reference.to_string(),
            why: why.to_owned(),
        }
    }
}
