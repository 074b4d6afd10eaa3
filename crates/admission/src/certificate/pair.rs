//! One generation: an authority and the certificate that it vouches for.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// Clocks differ.
const BACKDATED: Duration = Duration::from_secs(3600);

/// Certificate, key, and who vouches for it, as PEM; and when it was made.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub ca: Vec<u8>,
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    pub issued: Timestamp,
}

impl Pair {
    /// A new one for these names and addresses.
    pub fn issue(names: &[String], now: Timestamp, valid: Duration) -> Result<Self, rcgen::Error> {
        let mut ca = lasting(CertificateParams::default(), now, valid);
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        // Two that are trusted at once must not look like one.
        let name = format!("polyvirt-webhook-ca-{}", now.as_millisecond());
        ca.distinguished_name.push(DnType::CommonName, name);
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let mut leaf = lasting(CertificateParams::new(names.to_vec())?, now, valid);
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        leaf.distinguished_name
            .push(DnType::CommonName, "polyvirt-webhook");
        let certificate = leaf.signed_by(&key, &ca)?;
        Ok(Self {
            ca: ca.pem().into_bytes(),
            certificate: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            issued: now,
        })
    }
}

fn lasting(mut params: CertificateParams, now: Timestamp, valid: Duration) -> CertificateParams {
    let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    let now = date_time_ymd(1970, 1, 1) + since_epoch;
    params.not_before = now - BACKDATED;
    params.not_after = now + valid;
    params
}
