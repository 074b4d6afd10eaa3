//! Why the webhooks cannot be served.

/// Why the webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// A certificate that cannot be read.
    #[error(
        "A certificate or key of the webhooks cannot be read: {0}. Remove its Secret, and a new one is made"
    )]
    BadCertificate(String),
    /// The Secret of somebody else lacks something.
    #[error(
        "Secret {0} has no tls.crt, tls.key and ca.crt. Whoever makes it must put them there; remove it, and the manager makes one"
    )]
    BadSecret(String),
    /// Others write at the same time, again and again.
    #[error("Secret {0} is being written by others all the time")]
    Contended(String),
    /// Our own certificate.
    #[error("Cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The API server refused.
    #[error("The API server refused: {0}")]
    Kube(#[from] kube::Error),
}
