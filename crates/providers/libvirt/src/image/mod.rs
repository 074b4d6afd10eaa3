//! Prepared images: each a qcow2 volume that stands alone and is shared by the overlays of its VMs.
//!
//! libvirt cannot rename a volume, so an image is whole when the small volume beside it says so, which is made last and
//! goes first.

mod ceph;
mod claim;
mod download;
mod send;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;

use polyvirt_contract::model::{CreateVm, PrepareImage, PreparedImage};
use polyvirt_contract::{ErrorKind, ImageId, ProviderError, Result};
use polyvirt_provider_kit::origin;
use polyvirt_provider_kit::tasks::{Begun, Progress};
use polyvirt_provider_kit::uuid::hex;
use sha2::{Digest as _, Sha256};

use crate::core::{Core, Vm};
use crate::errors;
use crate::rpc::{Session, Volume};
use crate::storage::{self, Pool};
pub(crate) use ceph::within;
use claim::Claim;
pub(crate) use claim::sweep;
pub(crate) use versions::others;

/// What the first part of the work, the download, counts for.
const FETCHED: u8 = 50;

/// An image that is ready.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// Where the bytes are. It may hold secrets, so it has no debug form.
#[derive(Clone)]
enum Place {
    Volume(Volume),
    Url(String, BTreeMap<String, String>),
}

/// An image to prepare.
#[derive(Clone)]
struct Source {
    place: Place,
    format: String,
    checksum: String,
    checksum_type: String,
    /// The version that stands for one that its origin does not tell.
    whom: Option<String>,
    id: String,
}

fn volume_of(id: &str) -> String {
    format!("{id}.qcow2")
}

fn mark_of(id: &str) -> String {
    format!("{id}.ok")
}

/// What is sent and has to be made a qcow2 yet.
fn part_of(id: &str) -> String {
    format!("{id}.upload")
}

fn id_of(parts: &[&str]) -> String {
    let digest = Sha256::digest(parts.join("\0").as_bytes());
    format!("img-{}", hex(&digest[..8]))
}

/// The image of a VM, prepared now if it is not.
pub(crate) async fn for_vm(core: &Arc<Core>, request: &CreateVm, pool: &Pool) -> Result<Image> {
    let image = &request.image;
    let session = core.session().await?;
    for id in [image.template_name.as_str(), prepared_id(&image.path)] {
        if let Some(found) = find(&session, pool, id).await? {
            return Ok(found);
        }
    }
    origin::refuse_claims(&image.url)?;
    let asked = Asked {
        path: &image.path,
        url: &image.url,
        headers: BTreeMap::new(),
        format: origin::said(&image.url, &image.format),
        checksum: &image.checksum,
        checksum_type: &image.checksum_type,
        whom: origin::whom(request),
    };
    let source = asked.source(&session).await?;
    let source = source.ok_or_else(|| {
        let message = "The VM names no image that this provider knows; give a path in a storage pool, a URL, or the name of a prepared image";
        ProviderError::invalid("spec.imageRef", message)
    })?;
    let source = versions::settle(core, &session, pool, source, image.pull).await?;
    let id = source.id.clone();
    begin(core, pool, source).done().await?;
    let session = core.session().await?;
    let found = find(&session, pool, &id).await?;
    found.ok_or_else(|| errors::internal(format!("The image {id} went away while it was used")))
}

/// The id in the path of a prepared image.
fn prepared_id(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.strip_suffix(".qcow2")
        .filter(|id| id.starts_with("img-"))
        .unwrap_or_default()
}

/// An image that is whole.
async fn find(session: &Session, pool: &Pool, id: &str) -> Result<Option<Image>> {
    if !id.starts_with("img-") || pool.find(session, &mark_of(id)).await?.is_none() {
        return Ok(None);
    }
    let Some(volume) = pool.find(session, &volume_of(id)).await? else {
        return Ok(None);
    };
    Ok(Some(Image {
        id: id.to_owned(),
        path: pool.path(&volume_of(id)),
        bytes: storage::facts(session, &volume).await?.capacity,
    }))
}

/// Makes an image ready; the same source twice is prepared once.
pub(crate) async fn prepare(core: &Arc<Core>, request: &PrepareImage) -> Result<PreparedImage> {
    let session = core.session().await?;
    let origin = origin::asked(request)?;
    let asked = asked(request, &origin);
    let name = [&origin.pool, &request.storage_hint, &core.config.pool];
    let name = name.into_iter().find(|name| !name.is_empty());
    let field = "spec.source.libvirt.storagePool";
    let pool = Pool::open_files(&session, name.map_or("", String::as_str), field).await?;
    let source = asked.source(&session).await?.ok_or_else(|| {
        ProviderError::invalid("spec.source", "The image names no path and no URL")
    })?;
    let source = versions::settle(core, &session, &pool, source, request.pull).await?;
    let mut answer = PreparedImage {
        id: ImageId::from(source.id.as_str()),
        path: pool.path(&volume_of(&source.id)),
        task: None,
    };
    if find(&session, &pool, &source.id).await?.is_none() {
        answer.task = begin(core, &pool, source).answer().await?;
    }
    Ok(answer)
}

fn id_in(image: &PreparedImage) -> &str {
    if image.id.is_empty() {
        prepared_id(&image.path)
    } else {
        image.id.as_str()
    }
}

/// Refuses if a VM of this host needs the image, or may: one that was away from the beginning has VMs that nobody knows.
pub(crate) async fn must_be_unused(core: &Arc<Core>, image: &PreparedImage) -> Result<()> {
    core.know_all().await?;
    let id = id_in(image);
    let needs = |vm: &Arc<Vm>| {
        let marks = vm.config().ok().and_then(|config| config.marks);
        marks.is_some_and(|marks| marks.image == id)
    };
    let Some(vm) = core.all().into_iter().find(needs) else {
        return Ok(());
    };
    let message = format!(
        "The image {id} is used by the VM {}; delete that first",
        vm.state().name
    );
    Err(errors::precondition(message))
}

/// Deletes an image that nothing uses.
pub(crate) async fn delete(core: &Arc<Core>, image: &PreparedImage) -> Result<()> {
    let id = id_in(image);
    must_be_unused(core, image).await?;
    let session = core.session().await?;
    for pool in Pool::all(&session).await? {
        // Another host that has the same storage may have deleted it. While libvirt is at work there it does not look.
        if let Err(error) = pool.refresh(&session).await {
            tracing::debug!(pool = pool.name(), %error, "A pool is taken as it was known");
        }
        if pool.find(&session, &mark_of(id)).await?.is_some() {
            return Claim::new(core, &pool, id).unmake(&session).await;
        }
        if Claim::new(core, &pool, id).finish(&session).await? {
            return Ok(());
        }
    }
    Err(ProviderError::not_found(format!("The image {id}")))
}

struct Asked<'a> {
    /// The VM that it is wanted for.
    whom: Option<String>,
    path: &'a str,
    url: &'a str,
    headers: BTreeMap<String, String>,
    format: &'a str,
    checksum: &'a str,
    checksum_type: &'a str,
}

fn asked<'a>(request: &'a PrepareImage, origin: &'a origin::Asked) -> Asked<'a> {
    Asked {
        path: &origin.path,
        url: &origin.url,
        headers: origin.headers.clone(),
        format: &origin.format,
        checksum: &request.checksum,
        checksum_type: &request.checksum_type,
        whom: None,
    }
}

impl Asked<'_> {
    async fn source(&self, session: &Session) -> Result<Option<Source>> {
        let of = |place, id| Source {
            place,
            format: self.format.to_owned(),
            checksum: self.checksum.to_owned(),
            checksum_type: self.checksum_type.to_owned(),
            whom: self.whom.clone(),
            id,
        };
        if !self.path.is_empty() {
            let (volume, stamp) = self.volume(session).await?;
            let id = id_of(&[self.path, &stamp]);
            return Ok(Some(of(Place::Volume(volume), id)));
        }
        if self.url.is_empty() {
            return Ok(None);
        }
        let checksum = self.checksum.to_ascii_lowercase();
        let id = id_of(&[self.url, &checksum]);
        let place = Place::Url(self.url.to_owned(), self.headers.clone());
        Ok(Some(of(place, id)))
    }

    /// A path is taken only where a storage pool shows it. libvirt could read every file of the host, and whoever may name an
    /// image must not read what is not theirs through it.
    async fn volume(&self, session: &Session) -> Result<(Volume, String)> {
        let path = self.path;
        let found = match path.split_once('/') {
            Some((pool, name)) if !pool.is_empty() => {
                let pool = Pool::open(session, pool, "spec.source").await?;
                pool.find(session, name).await?
            }
            _ => session.volume_at(path).await?,
        };
        let volume = found.ok_or_else(|| {
            let message = format!(
                "No storage pool of the host has the image {path}; put it into one (and virsh pool-refresh it), or give a URL"
            );
            ProviderError::new(ErrorKind::NotFound, message).at("spec.source")
        })?;
        let facts = storage::facts(session, &volume).await?;
        self.check(&facts)?;
        let stamp = format!("{} {} {}", facts.capacity, facts.allocation, facts.changed);
        Ok((volume, stamp))
    }

    fn check(&self, facts: &storage::Facts) -> Result<()> {
        if !self.checksum.is_empty() {
            let message = "A checksum is checked on the way here, for images with a URL; a volume of the host is taken as it is";
            return Err(ProviderError::invalid("spec.source.checksum", message));
        }
        if !facts.backing.is_empty() {
            let message =
                "The image refers to another file; give one that stands alone (qemu-img convert)";
            return Err(ProviderError::invalid("spec.source", message));
        }
        let said = self.format.to_ascii_lowercase();
        let same =
            said.is_empty() || said == facts.format || said == "img" && facts.format == "raw";
        if same {
            return Ok(());
        }
        let message = format!("The image was said to be {said} and is {}", facts.format);
        Err(ProviderError::invalid("spec.source", message))
    }
}

fn begin(core: &Arc<Core>, pool: &Pool, source: Source) -> Begun {
    let key = format!("image {} {}", pool.name(), source.id);
    let (core_of_task, pool) = (core.clone(), pool.clone());
    core.tasks.begin(&key, move |progress| async move {
        make(&core_of_task, &pool, &source, &progress).await
    })
}

/// Cut short anywhere, it begins anew: what is there without its mark is replaced, and goes if nobody asks for it again.
async fn make(core: &Arc<Core>, pool: &Pool, source: &Source, progress: &Progress) -> Result<()> {
    let claim = Claim::new(core, pool, &source.id);
    let _alone = claim.turn().await;
    let session = core.session().await?;
    if find(&session, pool, &source.id).await?.is_some() {
        return Ok(());
    }
    let made = async {
        claim.put(&session).await?;
        bring(core, &session, pool, source, progress).await?;
        pool.write(&session, &mark_of(&source.id), &[0; 512]).await
    };
    let made = made.await;
    claim.settle().await;
    made
}

async fn bring(
    core: &Core,
    session: &Session,
    pool: &Pool,
    source: &Source,
    progress: &Progress,
) -> Result<()> {
    let target = volume_of(&source.id);
    match &source.place {
        Place::Volume(volume) => pool.copy(session, &target, volume).await,
        Place::Url(url, headers) => {
            let work = core.config.scratch.join(format!("polyvirt-{}", source.id));
            let file = work.join("source");
            let from = (url.as_str(), headers);
            let version = download::download(core, source, from, &file, progress).await?;
            send::send(session, pool, source, &file, progress).await?;
            // What came is only in the way now.
            let _ = std::fs::remove_dir_all(&work);
            match version.or_else(|| source.whom.clone()) {
                Some(version) => {
                    let note = versions::note_of(&source.id, &version);
                    pool.write(session, &note, &[0; 512]).await
                }
                None => Ok(()),
            }
        }
    }
}
