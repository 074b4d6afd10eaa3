//! The disk image of the first VM: a file, which is copied into our folder, or an address, which the provider fetches.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use polyvirt_disks::checksum::Checksum;
use polyvirt_disks::fetch::Source;
use polyvirt_disks::format;
use serde_json::{Value, json};

/// The image that the user named.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    place: Place,
    checksum: Option<Checksum>,
}

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A file of this machine.
    File(PathBuf),
    /// A download, as the user wrote it.
    Url(String),
    /// A container image with a disk in it, with its server.
    Registry(String),
}

/// What became of a file that was to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The copy is new.
    Now,
    /// It was there, or nothing is to be copied.
    Before,
}

impl Image {
    /// Reads what the user wrote, and looks whether the file is there and is a disk image.
    pub fn parse(text: &str, checksum: Option<&str>) -> anyhow::Result<Self> {
        let checksum = checksum.map(parse_checksum).transpose()?;
        let place = parse_place(text)?;
        if checksum.is_some() && matches!(place, Place::Registry(_)) {
            bail!(
                "--image-checksum: A container image is named by its digest: registry://…@sha256:DIGITS"
            );
        }
        if let Place::File(path) = &place {
            look_at(path)?;
        }
        Ok(Self { place, checksum })
    }

    /// The copy of an earlier run.
    pub fn kept(folder: &Path) -> anyhow::Result<Self> {
        let place = kept_path(folder);
        if !place.is_file() {
            bail!(
                "There is no image yet: name one with --image. `make up` builds a small one, hack/guest.sh prints its path"
            );
        }
        Ok(Self {
            place: Place::File(place),
            checksum: None,
        })
    }

    /// The same image, at a place that stays: a file is copied into the folder.
    pub async fn keep(self, folder: &Path) -> anyhow::Result<(Self, Copied)> {
        let Place::File(path) = &self.place else {
            return Ok((self, Copied::Before));
        };
        let kept = kept_path(folder);
        let copied = if *path == kept || is_copy(path, &kept) {
            Copied::Before
        } else {
            copy(path, &kept).await?;
            Copied::Now
        };
        let place = Place::File(kept);
        Ok((Self { place, ..self }, copied))
    }

    /// The source of a VMImage for QEMU.
    pub fn source(&self) -> anyhow::Result<Value> {
        let (member, mut source) = match &self.place {
            Place::File(path) => {
                let format = format::probe_file(path)?.format.name();
                ("libvirt", json!({"path": path, "format": format}))
            }
            Place::Url(url) => ("http", json!({"url": url})),
            Place::Registry(image) => ("registry", json!({"image": image})),
        };
        if let Some(checksum) = &self.checksum {
            source["checksum"] = json!(checksum.hex());
            source["checksumType"] = json!(checksum.algorithm().name());
        }
        Ok(json!({ member: source }))
    }

    /// Whether it is a file of this machine.
    pub fn is_file(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// Where it comes from, without what may be secret in an address.
    pub fn public(&self) -> String {
        match &self.place {
            Place::File(path) => path.display().to_string(),
            Place::Registry(image) => format!("registry://{image}"),
            Place::Url(url) => Source::parse(url).map_or_else(|e| e.to_string(), |s| s.to_string()),
        }
    }
}

fn kept_path(folder: &Path) -> PathBuf {
    folder.join("images/guest.qcow2")
}

fn parse_place(text: &str) -> anyhow::Result<Place> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    if scheme.is_none() {
        let path = std::path::absolute(text).context("The image has no usable path")?;
        return Ok(Place::File(path));
    }
    match Source::parse(text) {
        Ok(Source::File(path)) => Ok(Place::File(path)),
        Ok(Source::Http(_)) => Ok(Place::Url(text.to_owned())),
        Ok(Source::Registry(image)) => Ok(Place::Registry(image.to_string())),
        Err(error) => {
            bail!("--image: {error}. Give a path, or an http:, https:, registry: or file: address")
        }
    }
}

fn look_at(path: &Path) -> anyhow::Result<()> {
    if !path.is_file() {
        bail!(
            "There is no image at {}: give the path of a qcow2, raw or vmdk file, or an address, with --image",
            path.display()
        );
    }
    let looked = format::probe_file(path).map(drop);
    looked.with_context(|| format!("{} cannot be used as an image", path.display()))
}

/// `[ALGORITHM:]DIGITS`, as `sha256sum` and others print them.
fn parse_checksum(text: &str) -> anyhow::Result<Checksum> {
    let (algorithm, digits) = text.split_once(':').unwrap_or(("sha256", text));
    let parsed = Checksum::parse(algorithm, digits).context("--image-checksum")?;
    parsed.context("--image-checksum: Write it as sha256:DIGITS (or sha512:, sha1:, md5:)")
}

/// As long as the original, and not older.
fn is_copy(original: &Path, copy: &Path) -> bool {
    let about = |path: &Path| {
        let about = path.metadata().ok()?;
        Some((about.len(), about.modified().ok()?))
    };
    match (about(original), about(copy)) {
        (Some((length, made)), Some((copied, at))) => length == copied && at >= made,
        _ => false,
    }
}

/// By another name first: a half copied image must not be taken for a whole one.
async fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let problem = || format!("Cannot copy {} to {}", from.display(), to.display());
    if let Some(parent) = to.parent() {
        let made = DirBuilder::new().mode(0o711).recursive(true).create(parent);
        made.with_context(problem)?;
    }
    let partial = to.with_extension("partial");
    tokio::fs::copy(from, &partial)
        .await
        .with_context(problem)?;
    // VMs of root run as another user, who must be able to read it.
    let open = Permissions::from_mode(0o644);
    tokio::fs::set_permissions(&partial, open)
        .await
        .with_context(problem)?;
    tokio::fs::rename(&partial, to).await.with_context(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that begins like nothing in particular is a raw disk.
    fn raw_disk(folder: &Path) -> PathBuf {
        let path = folder.join("disk.img");
        std::fs::write(&path, vec![0; 1 << 20]).expect("written");
        path
    }

    #[test]
    fn an_image_is_a_file_or_an_address() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = raw_disk(dir.path());
        let address = format!("file://{}", path.display());
        for text in [path.display().to_string(), address] {
            let image = Image::parse(&text, None).expect("taken");
            assert_eq!(image.place, Place::File(path.clone()));
        }
        let url = Image::parse("https://x.example/y?sig=secret", None).expect("taken");
        assert_eq!(url.public(), "https://x.example/y");
        let image = Image::parse("registry://x.example/y", None).expect("taken");
        let source = image.source().expect("a source");
        assert_eq!(source["registry"]["image"], "x.example/y:latest");
        let digits = "ab".repeat(32);
        let twice = Image::parse("registry://x.example/y", Some(&digits));
        assert!(twice.is_err_and(|e| e.to_string().contains("@sha256:")));
        for bad in ["/no/such/file", "ftp://x.example/y"] {
            let error = Image::parse(bad, None).expect_err("refused");
            assert!(error.to_string().contains("--image"), "{error}");
        }
    }

    #[test]
    fn a_checksum_goes_into_the_source() {
        let digits = "ab".repeat(32);
        let image = Image::parse("http://x.example/y", Some(&digits)).expect("taken");
        let source = image.source().expect("a source");
        assert_eq!(source["http"]["checksumType"], "sha256");
        assert_eq!(source["http"]["checksum"], digits);
        let long = format!("SHA512:{}", "AB".repeat(64));
        let image = Image::parse("http://x.example/y", Some(&long)).expect("taken");
        let source = image.source().expect("a source");
        assert_eq!(source["http"]["checksumType"], "sha512");
        for bad in ["", "sha256:", "sha256:xyz", "crc:00"] {
            let error = Image::parse("http://x.example/y", Some(bad)).expect_err("refused");
            assert!(error.to_string().contains("--image-checksum"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_file_is_copied_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = raw_disk(dir.path()).display().to_string();
        let state = dir.path().join("state");
        let missing = Image::kept(&state).expect_err("not there yet");
        assert!(missing.to_string().contains("--image"), "{missing}");
        for expected in [Copied::Now, Copied::Before] {
            let image = Image::parse(&path, None).expect("taken");
            let (kept, copied) = image.keep(&state).await.expect("copied");
            assert_eq!(copied, expected);
            assert_eq!(kept, Image::kept(&state).expect("there"));
            let source = kept.source().expect("a source");
            assert_eq!(source["libvirt"]["format"], "raw");
        }
    }
}
