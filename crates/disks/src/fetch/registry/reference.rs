//! The name of a container image.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use crate::checksum::Checksum;
use crate::fetch::error::FetchError;

/// Whom a name without a server means, and where that answers.
const HUB: &str = "docker.io";
const HUB_API: &str = "registry-1.docker.io";

/// Which of the images of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fetch) enum Pin {
    /// Whatever has this tag now.
    Tag(String),
    /// These bytes and no others.
    Digest(Checksum),
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

/// `server/path:tag` or `server/path@sha256:…`, as container tools write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    server: String,
    path: String,
    pub(in crate::fetch) pin: Pin,
}

impl Reference {
    /// Without a server it is Docker Hub, without a tag `latest`; a digest beside a tag decides.
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        let wrong = || FetchError::Address {
            why: format!(
                "{text:?} is no name of a container image. Write server/path:tag or server/path@sha256:digest"
            ),
        };
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest_of(digest).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let (server, rest) = split_server(name);
        let (path, tag) = rest.rsplit_once(':').unwrap_or((rest, "latest"));
        if !is_server(server) || !is_path(path) || !is_tag(tag) {
            return Err(wrong());
        }
        let path = match (server, path.contains('/')) {
            (HUB, false) => format!("library/{path}"),
            _ => path.to_owned(),
        };
        let pin = digest.map_or_else(|| Pin::Tag(tag.to_owned()), Pin::Digest);
        Ok(Self {
            server: server.to_owned(),
            path,
            pin,
        })
    }

    /// The server as it is named.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Where it is asked for first.
    pub(in crate::fetch) fn address(&self) -> Result<Url, FetchError> {
        self.manifest(&self.pin)
    }

    /// What a token must allow.
    pub(super) fn scope(&self) -> String {
        format!("repository:{}:pull", self.path)
    }

    /// The address of a manifest.
    pub(super) fn manifest(&self, pin: &Pin) -> Result<Url, FetchError> {
        self.at(&format!("manifests/{pin}"))
    }

    /// The address of a layer.
    pub(super) fn blob(&self, digest: &Checksum) -> Result<Url, FetchError> {
        self.at(&format!("blobs/{digest}"))
    }

    fn at(&self, what: &str) -> Result<Url, FetchError> {
        let server = if self.server == HUB {
            HUB_API
        } else {
            &self.server
        };
        let scheme = if self.is_here() { "http" } else { "https" };
        let text = format!("{scheme}://{server}/v2/{}/{what}", self.path);
        Url::parse(&text).map_err(|e| FetchError::Address { why: e.to_string() })
    }

    /// Whether the server is this machine: nobody is on the way there, so it need not have a certificate. That it is asked at
    /// all is another question.
    fn is_here(&self) -> bool {
        let bare = match self.server.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => &self.server,
        };
        let address = bare.trim_matches(['[', ']']).parse::<IpAddr>();
        bare == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, pin) = match &self.pin {
            Pin::Tag(tag) => (':', tag.clone()),
            Pin::Digest(digest) => ('@', digest.to_string()),
        };
        write!(f, "{}/{}{sign}{pin}", self.server, self.path)
    }
}

/// A first part with a dot, a colon, or the name localhost is a server; anything else belongs to Docker Hub.
fn split_server(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => (HUB, name),
    }
}

fn is_server(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    !text.is_empty() && text.chars().all(fits)
}

/// No part of it may lead elsewhere in an address.
fn is_path(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let part = |part: &str| {
        let first = part.chars().next();
        first.is_some_and(|c| c.is_ascii_alphanumeric()) && part.chars().all(fits)
    };
    text.len() <= 255 && text.split('/').all(part)
}

fn is_tag(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=128).contains(&text.len()) && text.chars().all(fits) && !text.starts_with(['.', '-'])
}

/// `sha256:…` or `sha512:…`; others prove nothing.
pub(super) fn digest_of(text: &str) -> Option<Checksum> {
    let (algorithm, hex) = text.split_once(':')?;
    let known = matches!(algorithm, "sha256" | "sha512");
    Checksum::parse(algorithm, hex)
        .ok()
        .flatten()
        .filter(|_| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_container_tools_read_them() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, manifest) in [
            (
                "quay.io/containerdisks/fedora:41",
                "https://quay.io/v2/containerdisks/fedora/manifests/41".to_owned(),
            ),
            (
                "fedora",
                "https://registry-1.docker.io/v2/library/fedora/manifests/latest".to_owned(),
            ),
            (
                "kubevirt/cirros:v1",
                "https://registry-1.docker.io/v2/kubevirt/cirros/manifests/v1".to_owned(),
            ),
            (
                "localhost:5000/a:1",
                "http://localhost:5000/v2/a/manifests/1".to_owned(),
            ),
            (
                "127.0.0.1:5000/a",
                "http://127.0.0.1:5000/v2/a/manifests/latest".to_owned(),
            ),
            (
                "10.0.0.1:5000/a",
                "https://10.0.0.1:5000/v2/a/manifests/latest".to_owned(),
            ),
            (
                &format!("r.example/a/b:1@{digest}"),
                format!("https://r.example/v2/a/b/manifests/{digest}"),
            ),
        ] {
            let reference = Reference::parse(text).unwrap();
            let url = reference.manifest(&reference.pin).unwrap();
            assert_eq!(url.as_str(), manifest, "{text}");
        }
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_none() {
        for bad in [
            "",
            "quay.io/",
            "quay.io/../x",
            "quay.io/a//b",
            "quay.io/a b",
            "quay.io/A:1",
            "quay.io/a:",
            "quay.io/a:1/2:3 4",
            "quay.io/a@sha256:12",
            "quay.io/a@md5:900150983cd24fb0d6963f7d28e17f72",
            "user@quay.io/a",
            "quay.io/a?b:1",
            "quay.io/a%2e:1",
        ] {
            let error = Reference::parse(bad).unwrap_err();
            assert!(
                matches!(error, FetchError::Address { .. }),
                "{bad}: {error}"
            );
        }
    }
}
