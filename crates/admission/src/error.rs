//! Why the webhooks cannot be served.

use polyvirt_pki::ServingError;

/// Why the webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// There is no certificate to show.
    #[error("The webhooks have no certificate: {0}")]
    Certificate(#[from] ServingError),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The API server refused.
    #[error("The API server refused: {0}")]
    Kube(#[from] kube::Error),
}
