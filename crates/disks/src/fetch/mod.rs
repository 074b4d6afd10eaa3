//! Brings an image from a file, a web server or a registry to a file here: checked, sparse, and never twice over the same bytes.
//!
//! ```text
//!   request ─▶ TARGET.part (locked) ─▶ connect ─ 200: from the beginning ─┐
//!                     ▲                        ─ 206: where it stopped ───┼─▶ receive ─▶ complete ─▶ TARGET
//!                     └── pause ◀── broken, stalled, 5xx ◀────────────────┴──────┘         │
//!                                                                              checksum wrong: removed
//! ```
//!
//! A connection that breaks is made again and goes on where it stopped, if the server can do that and still has the same
//! file (by `ETag` or `Last-Modified`). The same holds after a restart of this program: the partial file and a record
//! beside it are enough. `TARGET` appears complete and checked, or not at all.

mod client;
mod copy;
mod download;
mod error;
mod headers;
mod partial;
mod proof;
mod reach;
mod redirect;
mod registry;
mod size;
mod source;
mod sparse;
mod version;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use polyvirt_contract::model::Headers;
use reqwest::Client;

use crate::checksum::Checksum;
use partial::{Partial, Shared};

pub use error::FetchError;
pub use partial::discard_partial;
pub use proof::Proof;
pub use reach::{Reach, is_inside, refuse_inside};
pub use registry::Reference;
pub use source::Source;

/// Written at once: large enough to be quick, small enough to be stopped soon.
const CHUNK_BYTES: usize = 1 << 20;

/// How patient a [`Fetcher`] is, and whom it trusts.
#[derive(Clone, Debug)]
pub struct Options {
    /// For a connection to come about.
    pub connect_timeout: Duration,
    /// For the next bytes to come.
    pub stall_timeout: Duration,
    /// Connections in a row that may fail without bringing anything worth while.
    pub attempts: u32,
    /// Before the second attempt; each further pause is twice as long.
    pub pause: Duration,
    /// Certificates in PEM form that are trusted besides the system's.
    pub extra_ca_pem: Option<Bytes>,
    /// Which servers may be asked.
    pub reach: Reach,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(60),
            attempts: 5,
            pause: Duration::from_secs(1),
            extra_ca_pem: None,
            reach: Reach::default(),
        }
    }
}

/// What to fetch.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where it is.
    pub source: Source,
    /// Sent to that server only, not to those that it redirects to.
    pub headers: Headers,
    /// What the bytes must be.
    pub checksum: Option<Proof>,
    /// The most bytes to take.
    pub max_bytes: u64,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes here.
    pub bytes: u64,
    /// Bytes in all, if the other side told.
    pub total: Option<u64>,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The size of the file.
    pub bytes: u64,
    /// Its digest: by the algorithm asked for, else SHA-256.
    pub digest: Checksum,
    /// Which version it is, as [`Fetcher::version`] tells it.
    pub version: Option<String>,
}

/// Fetches images. Cheap to clone; make one and keep it.
#[derive(Clone, Debug)]
pub struct Fetcher {
    client: Client,
    options: Options,
}

impl Fetcher {
    /// Reads the certificates of the system.
    pub fn new(options: Options) -> Result<Self, FetchError> {
        let client = client::build(&options)?;
        Ok(Self { client, options })
    }

    /// Fetches to `target`, whose folder must exist. The file can be read by this user alone.
    ///
    /// Safe to drop at any point: what came so far is used the next time. `progress` is called about once a MiB.
    pub async fn fetch(
        &self,
        request: &Request,
        target: &Path,
        progress: impl Fn(Progress) + Send + Sync,
    ) -> Result<Fetched, FetchError> {
        match &request.source {
            Source::Registry(image) => self.fetch_disk(request, image, target, &progress).await,
            Source::File(_) | Source::Http(_) => self.fetch_file(request, target, &progress).await,
        }
    }

    async fn fetch_file(
        &self,
        request: &Request,
        target: &Path,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Fetched, FetchError> {
        let expected = self.proved(request).await?;
        let expected = expected.as_ref();
        let outcome = match self.once(request, expected, target, progress).await {
            // What an earlier run left may be the fault, and is gone now.
            Err(Failed {
                error: FetchError::Checksum { .. },
                had: Had::Something,
            }) => self.once(request, expected, target, progress).await,
            other => other,
        };
        let outcome = outcome.map_err(|failed| failed.error);
        if matches!(outcome, Err(FetchError::TooLarge { .. })) {
            let target = target.to_path_buf();
            blocking(move || discard_partial(&target)).await?;
        }
        outcome
    }

    async fn proved(&self, request: &Request) -> Result<Option<Checksum>, FetchError> {
        match &request.checksum {
            Some(proof) => Ok(Some(self.expected(proof, &request.source).await?)),
            None => Ok(None),
        }
    }

    async fn once(
        &self,
        request: &Request,
        expected: Option<&Checksum>,
        target: &Path,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Fetched, Failed> {
        let (target, key) = (target.to_path_buf(), request.source.key());
        let algorithm = expected.map(Checksum::algorithm).unwrap_or_default();
        let partial = blocking(move || Partial::open(&target, &key, algorithm)).await?;
        let had = if partial.len() > 0 {
            Had::Something
        } else {
            Had::Nothing
        };
        let partial = Shared::new(partial);
        match &request.source {
            Source::File(path) => copy::run(path, &partial, request.max_bytes, progress).await,
            Source::Http(url) => {
                download::Download::new(self, request, url, partial.clone(), progress)?
                    .run()
                    .await
            }
            Source::Registry(image) => Err(FetchError::Address {
                why: format!("{image} is no file"),
            }),
        }?;
        let validator = partial.look(|partial| partial.validator().map(|v| v.text().to_owned()));
        let version = expected.map(ToString::to_string).or(validator);
        let expected = expected.cloned();
        let completed = partial
            .run(move |partial| partial.complete(expected.as_ref()))
            .await;
        let (bytes, digest) = completed.map_err(|error| Failed { error, had })?;
        Ok(Fetched {
            bytes,
            digest,
            version,
        })
    }
}

/// What an earlier run had left.
#[derive(Clone, Copy)]
enum Had {
    Nothing,
    Something,
}

struct Failed {
    error: FetchError,
    had: Had,
}

impl From<FetchError> for Failed {
    fn from(error: FetchError) -> Self {
        Self {
            error,
            had: Had::Nothing,
        }
    }
}

/// Runs work on files where it may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|e| {
        Err(FetchError::File {
            path: "the image".into(),
            source: std::io::Error::other(e),
        })
    })
}

fn within(limit: u64, bytes: u64) -> Result<(), FetchError> {
    if bytes > limit {
        Err(FetchError::TooLarge { limit })
    } else {
        Ok(())
    }
}
