//! The CAs that are trusted, of which one signs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use sha2::{Digest, Sha256};

use crate::authority::{Authority, Issued, PkiError, mark};
use crate::rotation::{Lifetimes, Move, Stage, next};

const UNTIL: &str = "polyvirt.io/ca-valid-until";
const STAGE: &str = "polyvirt.io/ca-rotation";
const SINCE: &str = "polyvirt.io/ca-rotation-since";

/// Why a Secret holds no keyring.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// Something is not there.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// Something cannot be read.
    #[error("its {0} cannot be read")]
    Unreadable(&'static str),
    /// Nothing can be signed with it.
    #[error("{0}")]
    Pki(#[from] PkiError),
}

/// One CA, or two in the course of a rotation.
#[derive(Debug)]
pub struct Keyring {
    signing: Authority,
    /// The next one, which is trusted already, or the last one, which is trusted still.
    other: Option<Authority>,
    stage: Stage,
    /// Until when the newest CA is valid.
    until: Timestamp,
    /// Known to whoever may read the Secret only.
    salt: Vec<u8>,
}

impl Keyring {
    /// One new CA.
    pub fn make(lifetimes: &Lifetimes, now: Timestamp) -> Result<Self, PkiError> {
        let validity = lifetimes.authority_from(now);
        let salt = rcgen::KeyPair::generate()?;
        Ok(Self {
            signing: Authority::make(validity)?,
            other: None,
            stage: Stage::Alone {
                until: validity.until,
            },
            until: validity.until,
            salt: Sha256::digest(salt.serialized_der()).to_vec(),
        })
    }

    /// The CA that signs.
    pub fn signing(&self) -> &Authority {
        &self.signing
    }

    /// All certificates that are to be trusted, as PEM.
    pub fn bundle(&self) -> String {
        let other = self.other.as_ref().map_or("", Authority::certificate);
        format!("{}{other}", self.signing.certificate())
    }

    /// A word that changes when the text does, and from which nobody can guess the text who may not read the keyring.
    pub fn seal(&self, text: &[u8]) -> String {
        let mut digest = Sha256::new();
        digest.update(&self.salt);
        digest.update(text);
        mark(&digest.finalize())
    }

    /// What is to be done to it now.
    pub fn due(&self, lifetimes: &Lifetimes, now: Timestamp) -> Move {
        next(self.stage, lifetimes, now)
    }

    /// The keyring after a move.
    pub fn turned(
        self,
        step: Move,
        lifetimes: &Lifetimes,
        now: Timestamp,
    ) -> Result<Self, PkiError> {
        match (step, self.other) {
            (Move::Prepare, _) => {
                let validity = lifetimes.authority_from(now);
                Ok(Self {
                    other: Some(Authority::make(validity)?),
                    stage: Stage::Prepared { since: now },
                    until: validity.until,
                    ..self
                })
            }
            (Move::Switch, Some(new)) => Ok(Self {
                signing: new,
                other: Some(self.signing),
                stage: Stage::Switched { since: now },
                ..self
            }),
            (_, other) => {
                let forgotten = step == Move::Forget;
                Ok(Self {
                    other: other.filter(|_| !forgotten),
                    stage: if forgotten {
                        Stage::Alone { until: self.until }
                    } else {
                        self.stage
                    },
                    ..self
                })
            }
        }
    }

    /// As it is kept.
    pub fn to_secret(&self, name: &str) -> Secret {
        let signing = self.signing.kept();
        let mut data = vec![
            ("tls.crt", signing.certificate.into_bytes()),
            ("tls.key", signing.key.into_bytes()),
            ("ca.crt", self.bundle().into_bytes()),
            ("salt", self.salt.clone()),
        ];
        if let Some(other) = &self.other {
            let other = other.kept();
            data.push(("other.crt", other.certificate.into_bytes()));
            data.push(("other.key", other.key.into_bytes()));
        }
        let data = data
            .into_iter()
            .map(|(key, value)| (key.to_owned(), ByteString(value)));
        Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                annotations: Some(self.annotations()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let (stage, since) = match self.stage {
            Stage::Alone { until } => ("alone", until),
            Stage::Prepared { since } => ("prepared", since),
            Stage::Switched { since } => ("switched", since),
        };
        BTreeMap::from([
            (UNTIL.to_owned(), self.until.to_string()),
            (STAGE.to_owned(), stage.to_owned()),
            (SINCE.to_owned(), since.to_string()),
        ])
    }

    /// The one that was kept.
    pub fn from_secret(secret: &Secret) -> Result<Self, KeyringError> {
        let kept = Kept(secret);
        let until = kept.time(UNTIL)?;
        let stage = match kept.note(STAGE)? {
            "prepared" => Stage::Prepared {
                since: kept.time(SINCE)?,
            },
            "switched" => Stage::Switched {
                since: kept.time(SINCE)?,
            },
            _ => Stage::Alone { until },
        };
        let other = match stage {
            Stage::Alone { .. } => None,
            _ => Some(kept.authority("other.crt", "other.key")?),
        };
        Ok(Self {
            signing: kept.authority("tls.crt", "tls.key")?,
            other,
            stage,
            until,
            salt: kept.data("salt")?.to_vec(),
        })
    }
}

/// A Secret that is read.
struct Kept<'a>(&'a Secret);

impl Kept<'_> {
    fn data(&self, key: &'static str) -> Result<&[u8], KeyringError> {
        let data = self.0.data.as_ref().and_then(|data| data.get(key));
        Ok(&data.ok_or(KeyringError::Missing(key))?.0)
    }

    fn text(&self, key: &'static str) -> Result<String, KeyringError> {
        String::from_utf8(self.data(key)?.to_vec()).map_err(|_| KeyringError::Unreadable(key))
    }

    fn authority(
        &self,
        certificate: &'static str,
        key: &'static str,
    ) -> Result<Authority, KeyringError> {
        let kept = Issued {
            certificate: self.text(certificate)?,
            key: self.text(key)?,
        };
        Ok(Authority::load(&kept)?)
    }

    fn note(&self, name: &'static str) -> Result<&str, KeyringError> {
        let notes = self.0.metadata.annotations.as_ref();
        let found = notes.and_then(|notes| notes.get(name));
        found.map(String::as_str).ok_or(KeyringError::Missing(name))
    }

    fn time(&self, name: &'static str) -> Result<Timestamp, KeyringError> {
        self.note(name)?
            .parse()
            .map_err(|_| KeyringError::Unreadable(name))
    }
}
