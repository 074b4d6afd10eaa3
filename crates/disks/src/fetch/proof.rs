//! What the bytes of an image must be: a digest, or the list of digests that its publisher keeps beside it.
//!
//! Images that are replaced under one address have no digest that a manifest could hold. Their publishers write a file with
//! the digests of the day, in one of two forms:
//!
//! ```text
//!   0123…ef  disk.img            as sha256sum prints them, with `*` before the name for binary files
//!   SHA256 (disk.img) = 0123…ef  as BSD does
//! ```

use reqwest::Url;

use super::error::FetchError;
use super::source::public;
use super::{Fetcher, Source, reach, redirect};
use crate::checksum::{Algorithm, Checksum, ChecksumError};

/// The longest list that is read.
const MOST_BYTES: usize = 1 << 20;

/// What the bytes of an image must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// This.
    Digest(Checksum),
    /// What the list at this address says of the file.
    List {
        /// How its digests are computed.
        algorithm: Algorithm,
        /// Where it is.
        address: Url,
    },
}

impl From<Checksum> for Proof {
    fn from(digest: Checksum) -> Self {
        Self::Digest(digest)
    }
}

impl Proof {
    /// What a manifest says: `None` if it asks for no proof. Without an algorithm it is SHA-256.
    pub fn parse(algorithm: &str, text: &str) -> Result<Option<Self>, ChecksumError> {
        let text = text.trim();
        if !is_address(text) {
            return Ok(Checksum::parse(algorithm, bare(algorithm, text))?.map(Self::Digest));
        }
        let algorithm = Algorithm::parse(algorithm)?;
        let address = Url::parse(text).map_err(|e| ChecksumError::Address(e.to_string()))?;
        Ok(Some(Self::List { algorithm, address }))
    }

    /// How it is computed.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Digest(digest) => digest.algorithm(),
            Self::List { algorithm, .. } => *algorithm,
        }
    }
}

/// Without the algorithm before a colon, as some print it.
fn bare<'a>(algorithm: &str, text: &'a str) -> &'a str {
    match text.split_once(':') {
        Some((word, digest)) if word.eq_ignore_ascii_case(algorithm) => digest,
        _ => text,
    }
}

fn is_address(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

impl Fetcher {
    /// The digest that an image must have.
    pub async fn expected(&self, proof: &Proof, source: &Source) -> Result<Checksum, FetchError> {
        let (algorithm, address) = match proof {
            Proof::Digest(digest) => return Ok(digest.clone()),
            Proof::List { algorithm, address } => (*algorithm, address),
        };
        let list = self.list(address).await?;
        let file = source.file_name();
        look_up(&list, algorithm, &file).ok_or_else(|| FetchError::Unlisted {
            address: public(address),
            algorithm,
            file,
        })
    }

    /// Nothing that is secret goes to the server of the list, which need not be that of the image.
    async fn list(&self, address: &Url) -> Result<String, FetchError> {
        let patience = self.options.stall_timeout;
        let read = tokio::time::timeout(patience, self.read_list(address.clone())).await;
        read.unwrap_or_else(|_| {
            Err(FetchError::Stalled {
                address: public(address),
                after: patience,
            })
        })
    }

    async fn read_list(&self, mut url: Url) -> Result<String, FetchError> {
        for _ in 0..=redirect::MOST {
            reach::check(self.options.reach, &url).await?;
            let response = self.client.get(url.clone()).send().await;
            let response = response.map_err(|e| connect(&url, e))?;
            match redirect::next(&url, &response)? {
                Some(next) => url = next,
                None => return body(&url, response).await,
            }
        }
        Err(FetchError::BadAnswer {
            address: public(&url),
            why: "it redirects without end",
        })
    }
}

async fn body(url: &Url, mut response: reqwest::Response) -> Result<String, FetchError> {
    let address = || public(url);
    if !response.status().is_success() {
        return Err(FetchError::Refused {
            address: address(),
            status: response.status().as_u16(),
        });
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| connect(url, e))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MOST_BYTES {
            let why = "it is too long for a list of checksums";
            let address = address();
            return Err(FetchError::BadAnswer { address, why });
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn connect(url: &Url, error: reqwest::Error) -> FetchError {
    FetchError::Connect {
        address: public(url),
        why: super::download::chain(&error.without_url()),
    }
}

/// The digest of the file; of the only file that the list names, whatever its name, for some publishers name the version
/// behind an address that has none.
fn look_up(list: &str, algorithm: Algorithm, file: &str) -> Option<Checksum> {
    let entries: Vec<_> = list.lines().filter_map(|l| entry(l, algorithm)).collect();
    let named = entries.iter().find(|(name, _)| name == file);
    let only = || entries.first().filter(|_| entries.len() == 1);
    named.or_else(only).map(|(_, digest)| digest.clone())
}

fn entry(line: &str, algorithm: Algorithm) -> Option<(String, Checksum)> {
    let line = line.trim();
    let (name, hex) = bsd(line, algorithm).unwrap_or_else(|| {
        let (hex, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        (name.trim().trim_start_matches('*'), hex)
    });
    let name = name.trim_start_matches("./").to_owned();
    let digest = Checksum::parse(algorithm.name(), hex).ok().flatten()?;
    Some((name, digest))
}

fn bsd(line: &str, algorithm: Algorithm) -> Option<(&str, &str)> {
    let (word, rest) = line.split_once(" (")?;
    let (name, hex) = rest.rsplit_once(") = ")?;
    (word.eq_ignore_ascii_case(algorithm.name())).then_some((name, hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn found(list: &str, file: &str) -> Option<String> {
        look_up(list, Algorithm::Sha256, file).map(|digest| digest.hex().to_owned())
    }

    #[test]
    fn a_manifest_names_a_digest_or_a_list() {
        let digest = Proof::parse("", &digits('a')).unwrap().unwrap();
        assert!(matches!(digest, Proof::Digest(_)));
        let list = Proof::parse("sha512", "https://images.example/SHA512SUMS");
        let list = list.unwrap().unwrap();
        assert!(matches!(list, Proof::List { .. }));
        assert_eq!(list.algorithm(), Algorithm::Sha512);
        let word = format!("sha512:{}", "b".repeat(128));
        assert!(Proof::parse("sha512", &word).unwrap().is_some());
        assert_eq!(Proof::parse("sha256", " ").unwrap(), None);
        assert!(Proof::parse("sha256", "https://").is_err());
        assert!(Proof::parse("crc", "https://images.example/sums").is_err());
        assert!(Proof::parse("sha256", "12").is_err());
    }

    #[test]
    fn lists_are_read_in_the_forms_that_publishers_write() {
        let (a, b) = (digits('a'), digits('b'));
        let gnu = format!("{b}  other.img\n{a} *disk.img\n");
        assert_eq!(found(&gnu, "disk.img"), Some(a.clone()));
        let bsd = format!("# disk.img: 5 bytes\nSHA256 (disk.img) = {a}\nSHA256 (other.img) = {b}");
        assert_eq!(found(&bsd, "disk.img"), Some(a.clone()));
        let folder = format!("{b}  ./other.img\n{a}  ./disk.img\n");
        assert_eq!(found(&folder, "disk.img"), Some(a.clone()));
        let version = format!("{a}  disk-1.2.3.img\n");
        assert_eq!(found(&version, "disk.img"), Some(a.clone()));
        assert_eq!(found(&a, "disk.img"), Some(a));
    }

    #[test]
    fn what_is_not_said_of_the_file_is_no_proof() {
        let (a, b) = (digits('a'), digits('b'));
        let others = format!("{a}  one.img\n{b}  two.img\n");
        assert_eq!(found(&others, "disk.img"), None);
        let weak = format!("MD5 (disk.img) = {}\n", "a".repeat(32));
        assert_eq!(found(&weak, "disk.img"), None);
        assert_eq!(found("<html>404</html>", "disk.img"), None);
        assert_eq!(found("", "disk.img"), None);
    }
}
