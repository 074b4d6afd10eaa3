//! Where an image is.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use reqwest::Url;
use sha2::{Digest, Sha256};

use super::error::FetchError;
use super::registry::Reference;
use crate::checksum::hex;

/// How addresses of images in registries begin.
const REGISTRY: [&str; 3] = ["registry://", "docker://", "oci://"];

/// Where an image is. Its texts leave out passwords and queries, for signed addresses carry their secret there.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// A file on this machine.
    File(PathBuf),
    /// A web server.
    Http(Url),
    /// A container image with a disk in it.
    Registry(Reference),
}

impl Source {
    /// Reads an absolute path, or an address that begins with `file:`, `http:`, `https:`, or for an image of a registry with
    /// `registry://`, `docker://` or `oci://`.
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        let address = |why: &str| FetchError::Address {
            why: why.to_owned(),
        };
        if text.starts_with('/') {
            return Ok(Self::File(PathBuf::from(text)));
        }
        let image = REGISTRY.iter().find_map(|scheme| text.strip_prefix(scheme));
        if let Some(image) = image {
            return Reference::parse(image).map(Self::Registry);
        }
        let url = Url::parse(text).map_err(|e| address(&e.to_string()))?;
        match url.scheme() {
            "http" | "https" => Ok(Self::Http(url)),
            "file" => url
                .to_file_path()
                .map(Self::File)
                .map_err(|()| address("it names no file of this machine")),
            _ => Err(address(
                "it begins with neither http:, https:, registry: nor file:",
            )),
        }
    }

    /// The last part of its path.
    pub(super) fn file_name(&self) -> String {
        let path = match self {
            Self::File(path) => path.to_string_lossy().into_owned(),
            Self::Http(url) => percent_decode_str(url.path())
                .decode_utf8_lossy()
                .into_owned(),
            Self::Registry(image) => image.to_string(),
        };
        let name = path.rsplit('/').next().map(ToOwned::to_owned);
        name.unwrap_or(path)
    }

    /// Tells this source from others without giving it away.
    pub(super) fn key(&self) -> String {
        let text = match self {
            Self::File(path) => path.to_string_lossy().into_owned(),
            Self::Http(url) => url.to_string(),
            Self::Registry(image) => format!("registry://{image}"),
        };
        hex(&Sha256::digest(text))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Http(url) => f.write_str(&public(url)),
            Self::Registry(image) => write!(f, "registry://{image}"),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// The part of an address that may be shown.
pub(super) fn public(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_addresses_are_told_apart() {
        assert_eq!(Source::parse("/a b").unwrap(), Source::File("/a b".into()));
        assert_eq!(
            Source::parse("file:///a%20b").unwrap(),
            Source::File("/a b".into())
        );
        assert!(matches!(
            Source::parse("HTTPS://x/y").unwrap(),
            Source::Http(_)
        ));
        for bad in ["", "disk.qcow2", "ftp://x/y", "file://host/y", "http://"] {
            let error = Source::parse(bad).unwrap_err();
            assert!(
                matches!(error, FetchError::Address { .. }),
                "{bad}: {error}"
            );
        }
    }

    #[test]
    fn texts_keep_passwords_and_signatures() {
        let source =
            Source::parse("https://user:hunter2@example.org:8443/a.img?sig=hunter2#hunter2")
                .unwrap();
        assert_eq!(source.to_string(), "https://example.org:8443/a.img");
        assert_eq!(format!("{source:?}"), "\"https://example.org:8443/a.img\"");
        assert_ne!(
            source.key(),
            Source::parse("https://example.org:8443/a.img")
                .unwrap()
                .key()
        );
    }
}
