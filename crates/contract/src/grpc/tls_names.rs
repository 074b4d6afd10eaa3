//! Lets in only clients of certain names, beyond what the CA has signed.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::EndEntityCert;

use super::common_name::common_name;

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
        let Ok(parsed) = EndEntityCert::try_from(certificate) else {
            return false;
        };
        let dns = parsed.valid_dns_names().map(str::to_owned);
        let uris = parsed.valid_uri_names().map(str::to_owned);
        let common = common_name(certificate);
        dns.chain(uris)
            .chain(common)
            .any(|name| self.names.contains(&name))
    }
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
