//! The certificate that the next handshake shows.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::serving::ServingError;

/// The certificate that the next handshake shows. Connections that stand keep theirs.
#[derive(Default)]
pub struct Shown(RwLock<Option<Arc<CertifiedKey>>>);

impl Shown {
    /// From the next handshake on. Both are PEM.
    pub(crate) fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), ServingError> {
        let unreadable =
            |error: rustls::pki_types::pem::Error| ServingError::Unreadable(error.to_string());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(unreadable)?;
        let provider = ring::default_provider();
        let fresh = CertifiedKey::from_der(chain.map_err(unreadable)?, key, &provider)
            .map_err(|error| ServingError::Unreadable(error.to_string()))?;
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_none_or(|held| held.cert != fresh.cert) {
            *held = Some(Arc::new(fresh));
        }
        Ok(())
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}
