//! Lets in only clients of certain names, beyond what the CA has signed.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::EndEntityCert;

/// The start of a common name in a subject: its object identifier.
const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];

/// Asks the CA first, then for the name.
#[derive(Debug)]
pub(super) struct NamedClients {
    inner: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl NamedClients {
    /// Only clients whose certificate carries one of the names. At least one is given.
    pub(super) fn new(inner: Arc<dyn ClientCertVerifier>, names: Vec<String>) -> Self {
        Self { inner, names }
    }

    fn admits(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok(certificate) = EndEntityCert::try_from(certificate) else {
            return false;
        };
        let dns = certificate.valid_dns_names().map(str::to_owned);
        let uris = certificate.valid_uri_names().map(str::to_owned);
        let common = common_name(certificate.subject());
        dns.chain(uris)
            .chain(common)
            .any(|name| self.names.contains(&name))
    }
}

/// The common name in a subject, which the CA has vouched for.
fn common_name(subject: &[u8]) -> Option<String> {
    let at = subject
        .windows(COMMON_NAME.len())
        .position(|window| window == COMMON_NAME)?;
    let value = subject.get(at + COMMON_NAME.len()..)?;
    let length = usize::from(*value.get(1)?);
    // Common names have at most 64 characters, so their length is one byte.
    let text = value.get(2..2 + length).filter(|_| length < 0x80)?;
    String::from_utf8(text.to_vec()).ok()
}

impl ClientCertVerifier for NamedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .inner
            .verify_client_cert(end_entity, intermediates, now)?;
        if self.admits(end_entity) {
            return Ok(verified);
        }
        tracing::warn!(
            "A client was refused: its certificate carries none of the names that are let in"
        );
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
