//! The digest that an image must have.

use std::fmt;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

/// How a digest is computed. The first two find accidents only: anybody can make a file for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    #[default]
    Sha256,
    /// SHA-512.
    Sha512,
}

/// A digest with its algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    algorithm: Algorithm,
    hex: String,
}

/// Why a text is no checksum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// The algorithm is not known.
    #[error("Unknown type of checksum {0:?}; known are md5, sha1, sha256 and sha512")]
    UnknownAlgorithm(String),
    /// The address of a list of checksums cannot be used.
    #[error("The list of checksums has no address: {0}")]
    Address(String),
    /// The digest does not fit the algorithm.
    #[error(
        "A checksum of type {algorithm} has {digits} hexadecimal digits, or is the address of a list of checksums. Correct the checksum or its type"
    )]
    Malformed {
        /// The algorithm.
        algorithm: Algorithm,
        /// How many digits its digests have.
        digits: usize,
    },
}

impl Algorithm {
    /// The name that manifests use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    const fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha1 => 40,
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }

    /// The algorithm of that name; SHA-256 if none is named.
    pub(crate) fn parse(name: &str) -> Result<Self, ChecksumError> {
        match name.to_ascii_lowercase().as_str() {
            "md5" => Ok(Self::Md5),
            "sha1" => Ok(Self::Sha1),
            "" | "sha256" => Ok(Self::Sha256),
            "sha512" => Ok(Self::Sha512),
            _ => Err(ChecksumError::UnknownAlgorithm(name.to_owned())),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Checksum {
    /// What a manifest says: `None` if it gives no digest. Without an algorithm it is SHA-256.
    pub fn parse(algorithm: &str, digest: &str) -> Result<Option<Self>, ChecksumError> {
        let algorithm = Algorithm::parse(algorithm)?;
        let hex = digest.trim().to_ascii_lowercase();
        if hex.is_empty() {
            return Ok(None);
        }
        let digits = algorithm.digits();
        if hex.len() != digits || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ChecksumError::Malformed { algorithm, digits });
        }
        Ok(Some(Self { algorithm, hex }))
    }

    /// How it is computed.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digest in lower-case hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex)
    }
}

/// A digest in the making.
#[derive(Clone)]
pub(crate) enum Hasher {
    Md5(Md5),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Md5 => Self::Md5(Md5::new()),
            Algorithm::Sha1 => Self::Sha1(Sha1::new()),
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Sha1(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Checksum {
        let (algorithm, digest) = match self {
            Self::Md5(hasher) => (Algorithm::Md5, hasher.finalize().to_vec()),
            Self::Sha1(hasher) => (Algorithm::Sha1, hasher.finalize().to_vec()),
            Self::Sha256(hasher) => (Algorithm::Sha256, hasher.finalize().to_vec()),
            Self::Sha512(hasher) => (Algorithm::Sha512, hasher.finalize().to_vec()),
        };
        Checksum {
            algorithm,
            hex: hex(&digest),
        }
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_the_published_ones() {
        for (name, expected) in [
            ("md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "sha256",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            let expected = Checksum::parse(name, expected).unwrap().unwrap();
            let mut hasher = Hasher::new(expected.algorithm());
            hasher.update(b"a");
            hasher.update(b"bc");
            assert_eq!(hasher.finish(), expected);
        }
        let mut hasher = Hasher::new(Algorithm::Sha512);
        hasher.update(b"abc");
        assert!(
            hasher
                .finish()
                .hex()
                .starts_with("ddaf35a193617abacc417349ae20413112e6fa4e89a97ea2")
        );
    }

    #[test]
    fn manifests_are_read_leniently_and_mistakes_told() {
        assert_eq!(Checksum::parse("", "  ").unwrap(), None);
        let upper = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
        let found = Checksum::parse("SHA256", upper).unwrap().unwrap();
        assert_eq!(
            found.to_string(),
            format!("sha256:{}", upper.to_lowercase())
        );
        for (name, digest) in [
            ("sha1", upper),
            ("", "zz"),
            ("md5", "z00150983cd24fb0d6963f7d28e17f72"),
        ] {
            let error = Checksum::parse(name, digest).unwrap_err();
            assert!(matches!(error, ChecksumError::Malformed { .. }), "{error}");
        }
        let error = Checksum::parse("crc32", "00").unwrap_err();
        assert!(error.to_string().contains("crc32"), "{error}");
    }
}
