//! Volumes in storage pools. Everything of a VM has its UUID at the beginning of its name.
//!
//! A volume that is made takes the place of one of the same name: whoever makes one knows that nothing uses the other, which
//! was left half made when a daemon or a provider was killed.

mod kind;

use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::uuid::Uuid;

use crate::domain::disk::Place;
use crate::errors;
use crate::rpc::{Named, RpcError, Session, Volume, code, flags};
use crate::xml::{Element, parse};
pub(crate) use kind::Kind;

/// Words by which QEMU's tools say that an image is at fault.
const DAMAGED: [&str; 4] = [
    "Could not open",
    "corrupt",
    "not in qcow2 format",
    "Image is not in",
];

/// A storage pool that is in use.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    named: Named,
    pub(crate) kind: Kind,
    folder: String,
    /// Where its storage is, as its description says.
    source: Element,
}

/// What a volume is.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) format: String,
    pub(crate) capacity: u64,
    pub(crate) allocation: u64,
    pub(crate) backing: String,
    /// When it was written last, as libvirt tells it.
    pub(crate) changed: String,
}

/// The name of a VM's volume.
pub(crate) fn name(uuid: Uuid, part: &str) -> String {
    format!("{uuid}.{part}")
}

/// The VM that a volume belongs to by its name.
pub(crate) fn owner_of(volume: &str) -> Option<Uuid> {
    volume
        .split_once('.')
        .and_then(|(uuid, _)| Uuid::parse(uuid))
}

impl Pool {
    /// The pool of that name, if it can hold disks; `field` asked for it.
    pub(crate) async fn open(session: &Session, name: &str, field: &str) -> Result<Self> {
        let named = session
            .pool(name)
            .await
            .map_err(|error| absent(error, name, field))?;
        let xml = parse(&session.pool_xml(&named).await?)?.root;
        let kind = Kind::of(&xml.get("type").unwrap_or_default(), name, field)?;
        if !session.pool_info(&named).await?.running {
            let message = format!(
                "The storage pool {name} is not active; start it (virsh pool-start {name})"
            );
            return Err(errors::precondition(message).at(field));
        }
        Ok(Self {
            folder: kind.folder(&xml),
            source: xml
                .at("source")
                .cloned()
                .unwrap_or_else(|| Element::new("source")),
            named,
            kind,
        })
    }

    /// The same for what must be a file.
    pub(crate) async fn open_files(session: &Session, name: &str, field: &str) -> Result<Self> {
        let pool = Self::open(session, name, field).await?;
        pool.kind
            .must_be_files(name, "Images and small files cannot lie", field)?;
        Ok(pool)
    }

    /// All pools of the host that can hold images now.
    pub(crate) async fn all(session: &Session) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for named in session.pools().await? {
            match Self::open_files(session, &named.name, "").await {
                Ok(pool) => all.push(pool),
                Err(error) if is_of_another_kind(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    pub(crate) fn name(&self) -> &str {
        &self.named.name
    }

    /// Refuses what only pools of files can do.
    pub(crate) fn must_be_files(&self, what: &str) -> Result<()> {
        self.kind.must_be_files(self.name(), what, "")
    }

    /// The name of a VM's disk in this pool.
    pub(crate) fn disk_name(&self, uuid: Uuid, part: &str) -> String {
        self.kind.disk_name(uuid, part)
    }

    /// How a domain is told of a volume.
    pub(crate) fn place_of(&self, volume: &str) -> Place {
        self.kind.place(self.path(volume), &self.source)
    }

    /// Where a volume of that name is or will be.
    pub(crate) fn path(&self, volume: &str) -> String {
        format!("{}/{volume}", self.folder.trim_end_matches('/'))
    }

    pub(crate) async fn find(&self, session: &Session, volume: &str) -> Result<Option<Volume>> {
        Ok(session.volume(&self.named, volume).await?)
    }

    /// Has libvirt look at what is there.
    pub(crate) async fn refresh(&self, session: &Session) -> Result<()> {
        Ok(session.refresh(&self.named).await?)
    }

    pub(crate) async fn list(&self, session: &Session) -> Result<Vec<Volume>> {
        Ok(session.volumes(&self.named).await?)
    }

    /// Removes a volume; one that is not there is removed.
    pub(crate) async fn remove(&self, session: &Session, volume: &str) -> Result<()> {
        match session.volume(&self.named, volume).await? {
            Some(found) => Ok(session.delete_volume(&found).await?),
            None => Ok(()),
        }
    }

    /// An empty disk.
    pub(crate) async fn blank(
        &self,
        session: &Session,
        volume: &str,
        bytes: u64,
        thickness: Thickness,
    ) -> Result<()> {
        let xml = self.disk(volume, bytes);
        let (xml, how) = match (self.kind, thickness) {
            (Kind::Files, Thickness::Thin) => (xml.holding(in_bytes("allocation", 0)), How::Empty),
            (Kind::Files, Thickness::Thick) => {
                (xml.holding(in_bytes("allocation", bytes)), How::Allocated)
            }
            // A volume group gives all at once, and Ceph whenever it is written to.
            (Kind::Logical | Kind::Rbd, _) => (xml, How::Empty),
        };
        self.make(session, volume, &xml, how).await.map(drop)
    }

    /// A disk as this pool keeps it.
    fn disk(&self, volume: &str, bytes: u64) -> Element {
        match self.kind {
            Kind::Files => described(volume, bytes, "qcow2"),
            Kind::Logical | Kind::Rbd => raw(volume, bytes),
        }
    }

    /// A disk above another, which must not change any more. Only files can be that.
    pub(crate) async fn overlay(
        &self,
        session: &Session,
        volume: &str,
        below: &str,
        bytes: u64,
    ) -> Result<()> {
        let backing = Element::new("backingStore")
            .holding(Element::new("path").saying(below))
            .holding(Element::new("format").with("type", "qcow2"));
        let xml = described(volume, bytes, "qcow2").holding(backing);
        self.make(session, volume, &xml, How::Empty).await.map(drop)
    }

    /// A whole copy of another volume, made by libvirt itself.
    pub(crate) async fn copy(&self, session: &Session, volume: &str, from: &Volume) -> Result<()> {
        self.copy_into(session, volume, from, 0).await
    }

    /// The same with so many bytes at least.
    pub(crate) async fn copy_into(
        &self,
        session: &Session,
        volume: &str,
        from: &Volume,
        least: u64,
    ) -> Result<()> {
        let bytes = facts(session, from).await?.capacity.max(least);
        let xml = self.disk(volume, bytes);
        self.make(session, volume, &xml, How::Copy(from))
            .await
            .map(drop)
    }

    /// A volume that bytes will be sent to.
    pub(crate) async fn place(
        &self,
        session: &Session,
        volume: &str,
        bytes: u64,
        format: &str,
    ) -> Result<Volume> {
        let xml = described(volume, bytes, format);
        self.make(session, volume, &xml, How::Empty).await
    }

    /// A small volume with these bytes.
    pub(crate) async fn write(&self, session: &Session, volume: &str, bytes: &[u8]) -> Result<()> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let made = self.place(session, volume, length, "raw").await?;
        let stream = session.upload(&made, length).await?;
        stream.send(bytes).await?;
        Ok(stream.finish().await?)
    }

    async fn make(
        &self,
        session: &Session,
        volume: &str,
        xml: &Element,
        how: How<'_>,
    ) -> Result<Volume> {
        self.remove(session, volume).await?;
        let xml = xml.to_string();
        let create = || async {
            match how {
                How::Copy(from) => session.copy_volume(&self.named, &xml, from).await,
                How::Empty => session.create_volume(&self.named, &xml, 0).await,
                How::Allocated => {
                    let flags = flags::ALLOCATE;
                    session.create_volume(&self.named, &xml, flags).await
                }
            }
        };
        let made = match create().await {
            // A file that libvirt has not seen yet.
            Err(error) if error.is(code::STORAGE_VOL_EXIST) => {
                session.refresh(&self.named).await?;
                self.remove(session, volume).await?;
                create().await
            }
            other => other,
        };
        made.map_err(damaged)
    }
}

/// What a volume begins as.
#[derive(Clone, Copy)]
enum How<'a> {
    Empty,
    Allocated,
    Copy(&'a Volume),
}

/// Whether the blocks of a disk are allocated at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thickness {
    Thin,
    Thick,
}

/// Whether a pool is there, and not for disks, or not active. What cannot be asked is not taken for that.
const fn is_of_another_kind(error: &ProviderError) -> bool {
    matches!(error.kind, ErrorKind::Invalid | ErrorKind::Precondition)
}

fn absent(error: RpcError, name: &str, field: &str) -> ProviderError {
    if error.is(code::NO_STORAGE_POOL) {
        let message =
            format!("There is no storage pool {name}; name one of the host's, or make it");
        return ProviderError::invalid(field, message);
    }
    error.into()
}

/// An image that QEMU's tools cannot read is not mended by trying again.
fn damaged(error: RpcError) -> ProviderError {
    let error = ProviderError::from(error);
    if error.kind == ErrorKind::Internal && DAMAGED.iter().any(|word| error.message.contains(word))
    {
        return ProviderError::invalid("spec.source", error.message);
    }
    error
}

fn in_bytes(name: &str, bytes: u64) -> Element {
    Element::new(name).with("unit", "bytes").saying(bytes)
}

fn described(volume: &str, bytes: u64, format: &str) -> Element {
    let format = Element::new("format").with("type", format);
    let mode = Element::new("permissions").holding(Element::new("mode").saying("0600"));
    Element::new("volume")
        .holding(Element::new("name").saying(volume))
        .holding(in_bytes("capacity", bytes))
        .holding(Element::new("target").holding(format).holding(mode))
}

/// A volume that is raw because its pool knows nothing else.
fn raw(volume: &str, bytes: u64) -> Element {
    Element::new("volume")
        .holding(Element::new("name").saying(volume))
        .holding(in_bytes("capacity", bytes))
}

/// What a volume is.
pub(crate) async fn facts(session: &Session, volume: &Volume) -> Result<Facts> {
    let xml = parse(&session.volume_xml(volume).await?)?.root;
    let format = xml.attr_at("target/format", "type");
    Ok(Facts {
        format: if format.is_empty() {
            "raw".to_owned()
        } else {
            format
        },
        capacity: xml.text_at("capacity").parse().unwrap_or(0),
        allocation: xml.text_at("allocation").parse().unwrap_or(0),
        backing: xml.text_at("backingStore/path"),
        changed: xml.text_at("target/timestamps/mtime"),
    })
}

/// All bytes of a volume that is small.
pub(crate) async fn read(session: &Session, volume: &Volume) -> Result<Vec<u8>> {
    let mut stream = session.download(volume).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await? {
        bytes.extend_from_slice(&piece);
    }
    stream.finish().await?;
    Ok(bytes)
}

/// Makes a volume larger; one that is as large already stays so.
pub(crate) async fn grow(session: &Session, volume: &Volume, bytes: u64) -> Result<()> {
    if facts(session, volume).await?.capacity >= bytes {
        return Ok(());
    }
    match session.resize_volume(volume, bytes).await {
        Err(error) if error.is(code::NO_SUPPORT) => Err(grows_by_hand(volume, bytes)),
        other => Ok(other?),
    }
}

/// libvirt does not make logical volumes larger.
fn grows_by_hand(volume: &Volume, bytes: u64) -> ProviderError {
    errors::precondition(format!(
        "libvirt cannot make volumes of the storage pool {pool} larger; on its host run lvextend --size {bytes}b on the volume {name}, and virsh pool-refresh {pool}",
        pool = volume.pool,
        name = volume.name
    ))
}

/// Refuses if the volume of a running machine's block device is smaller: QEMU cannot make it larger.
pub(crate) async fn must_have(session: &Session, path: &str, bytes: u64) -> Result<()> {
    let Some(volume) = session.volume_at(path).await? else {
        return Ok(());
    };
    if facts(session, &volume).await?.capacity < bytes {
        return Err(grows_by_hand(&volume, bytes));
    }
    Ok(())
}
