//! Signs certificates. Knows neither clock nor cluster.

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

/// Clocks of other machines may be behind ours by this much.
const CLOCK_SKEW_SECONDS: i64 = 300;

/// Why nothing can be signed.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The key cannot be read, or a name cannot be put into a certificate.
    #[error("The certificate cannot be made: {0}")]
    Refused(#[from] rcgen::Error),
    /// A time that a certificate cannot carry.
    #[error("{0} is no time that a certificate can carry")]
    Time(Timestamp),
}

/// A time span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub from: Timestamp,
    /// The last moment.
    pub until: Timestamp,
}

/// What a certificate may be used for. One that serves cannot be used to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To answer under its names.
    Server,
    /// To call others.
    Client,
}

/// Whom a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The common name.
    pub name: String,
    /// DNS names and addresses.
    pub names: Vec<String>,
    /// What for.
    pub purpose: Purpose,
}

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Issued(..)")
    }
}

/// A CA. Its name is derived from its key, so that certificate and key are all that has to be kept.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority(..)")
    }
}

impl Authority {
    /// A new CA.
    pub fn make(validity: Validity) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let params = valid(authority_params(&key), validity)?;
        let certificate = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self {
            certificate,
            issuer,
        })
    }

    /// The one that was kept.
    pub fn load(kept: &Issued) -> Result<Self, PkiError> {
        let key = KeyPair::from_pem(&kept.key)?;
        let issuer = Issuer::new(authority_params(&key), key);
        Ok(Self {
            certificate: kept.certificate.clone(),
            issuer,
        })
    }

    /// Certificate and key, to be kept.
    pub fn kept(&self) -> Issued {
        Issued {
            certificate: self.certificate.clone(),
            key: self.issuer.key().serialize_pem(),
        }
    }

    /// The certificate, for those who trust it.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A short word for this CA: the same for the same certificate, and no other has it.
    pub fn mark(&self) -> String {
        mark(self.certificate.as_bytes())
    }

    /// A new certificate with a new key.
    pub fn issue(&self, subject: &Subject, validity: Validity) -> Result<Issued, PkiError> {
        let key = KeyPair::generate()?;
        let params = valid(leaf_params(subject)?, validity)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// The beginning of a digest: enough to tell one text from another.
pub fn mark(text: &[u8]) -> String {
    let digest = Sha256::digest(text);
    let beginning = digest.iter().take(8);
    let number = beginning.fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    format!("{number:016x}")
}

fn authority_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let name = format!("polyvirt-ca-{}", mark(&key.public_key_pem().into_bytes()));
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn leaf_params(subject: &Subject) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, subject.name.clone());
    for name in &subject.names {
        let name = match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(name.as_str().try_into()?),
        };
        params.subject_alt_names.push(name);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![match subject.purpose {
        Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
        Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn valid(mut params: CertificateParams, validity: Validity) -> Result<CertificateParams, PkiError> {
    params.not_before = moment(validity.from, -CLOCK_SKEW_SECONDS)?;
    params.not_after = moment(validity.until, 0)?;
    Ok(params)
}

fn moment(at: Timestamp, shift: i64) -> Result<OffsetDateTime, PkiError> {
    OffsetDateTime::from_unix_timestamp(at.as_second() + shift).map_err(|_| PkiError::Time(at))
}
