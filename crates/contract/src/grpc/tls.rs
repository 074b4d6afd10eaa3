//! TLS 1.3 with certificates on both sides, read anew where they are files, so that a rotated Secret needs no restart.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::sync::watch;

use super::tls_names::NamedClients;
use super::tls_unchecked::Unchecked;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("Cannot read {}: check that the file exists and may be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A part is not PEM, or holds nothing.
    #[error("The {part} holds no usable PEM: write it again")]
    Pem {
        /// `CA certificate`, `certificate` or `private key`.
        part: &'static str,
    },
    /// The parts do not fit together.
    #[error("The certificates are refused: {0}")]
    Refused(#[from] rustls::Error),
}

/// A PEM text: a file, which is read whenever it is needed, or the text itself.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// Read whenever it is needed.
    File(PathBuf),
    /// As it is.
    Inline(Bytes),
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Inline(_) => f.write_str("Inline(..)"),
        }
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl Pem {
    async fn read(&self) -> Result<Bytes, TlsError> {
        match self {
            Self::Inline(text) => Ok(text.clone()),
            Self::File(path) => match tokio::fs::read(path).await {
                Ok(bytes) => Ok(bytes.into()),
                Err(source) => Err(TlsError::Read {
                    path: path.clone(),
                    source,
                }),
            },
        }
    }
}

/// How far a client looks at the certificate of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerCheck {
    /// It must be signed by the CA and name the server.
    #[default]
    Full,
    /// Not at all. Only for a laboratory.
    Skip,
}

/// What a client needs for mTLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Signs the servers that we trust.
    pub ca: Pem,
    /// Our certificate, with its chain.
    pub cert: Pem,
    /// Our private key.
    pub key: Pem,
    /// The name that the server's certificate must carry; `None` for the host of the target.
    pub domain_name: Option<String>,
    /// How far the server's certificate is looked at.
    pub check: ServerCheck,
}

impl TlsFiles {
    /// `ca.crt`, `tls.crt` and `tls.key` in one directory, as a mounted Secret has them.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self {
            ca: Pem::File(directory.join("ca.crt")),
            cert: Pem::File(directory.join("tls.crt")),
            key: Pem::File(directory.join("tls.key")),
            domain_name: None,
            check: ServerCheck::Full,
        }
    }

    /// The name that the server's certificate must carry.
    #[must_use]
    pub fn with_domain_name(mut self, name: impl Into<String>) -> Self {
        self.domain_name = Some(name.into());
        self
    }

    pub(super) async fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let material = Material::read(&self.ca, &self.cert, &self.key).await?;
        let builder = ClientConfig::builder_with_provider(crypto())
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = match self.check {
            ServerCheck::Full => builder.with_webpki_verifier(material.server_verifier()?),
            ServerCheck::Skip => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unchecked::new(crypto()))),
        };
        let mut config = builder.with_client_auth_cert(material.chain, material.key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// Where the certificates of a client come from.
#[derive(Clone, Debug)]
pub enum TlsSource {
    /// Always the same files, or texts.
    Fixed(TlsFiles),
    /// What is there when a connection is made, so that renewed certificates need no new client.
    Live(watch::Receiver<TlsFiles>, String),
}

impl From<TlsFiles> for TlsSource {
    fn from(files: TlsFiles) -> Self {
        Self::Fixed(files)
    }
}

impl TlsSource {
    /// Certificates that are renewed, for a server of this name.
    pub fn live(files: watch::Receiver<TlsFiles>, domain_name: impl Into<String>) -> Self {
        Self::Live(files, domain_name.into())
    }

    pub(super) fn files(&self) -> TlsFiles {
        match self {
            Self::Fixed(files) => files.clone(),
            Self::Live(files, name) => files.borrow().clone().with_domain_name(name),
        }
    }
}

/// Which clients a server lets in, of those whose certificate the CA has signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// All of them.
    #[default]
    OfTheCa,
    /// Those whose certificate carries one of these names: as a DNS name, a URI, or its common name.
    Named(Vec<String>),
}

impl Clients {
    /// A list with commas between the names. None means all.
    pub fn parse(list: &str) -> Self {
        let names = list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let names: Vec<_> = names.map(str::to_owned).collect();
        if names.is_empty() {
            Self::OfTheCa
        } else {
            Self::Named(names)
        }
    }
}

/// What a server needs for mTLS: a client without a certificate of the CA is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// Signs the clients that we trust.
    pub ca: Pem,
    /// Our certificate, with its chain.
    pub cert: Pem,
    /// Our private key.
    pub key: Pem,
    /// Whom we let in.
    pub clients: Clients,
}

impl ServerTls {
    /// `ca.crt`, `tls.crt` and `tls.key` in one directory, as a mounted Secret has them.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        let TlsFiles { ca, cert, key, .. } = TlsFiles::in_directory(directory);
        Self {
            ca,
            cert,
            key,
            clients: Clients::OfTheCa,
        }
    }

    /// Lets only these clients in.
    #[must_use]
    pub fn for_clients(mut self, clients: Clients) -> Self {
        self.clients = clients;
        self
    }

    pub(super) async fn material(&self) -> Result<Material, TlsError> {
        Material::read(&self.ca, &self.cert, &self.key).await
    }
}

/// Certificates and key, read and parsed.
pub(super) struct Material {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// What it was read from, to see whether it has changed.
    pub(super) source: [Bytes; 3],
}

impl Material {
    async fn read(ca: &Pem, cert: &Pem, key: &Pem) -> Result<Self, TlsError> {
        let source = [ca.read().await?, cert.read().await?, key.read().await?];
        let [ca, cert, key] = &source;
        let mut roots = RootCertStore::empty();
        for root in certificates(ca, "CA certificate")? {
            roots.add(root)?;
        }
        let key = PrivateKeyDer::from_pem_slice(key);
        Ok(Self {
            roots: Arc::new(roots),
            chain: certificates(cert, "certificate")?,
            key: key.map_err(|_| TlsError::Pem {
                part: "private key",
            })?,
            source,
        })
    }

    fn server_verifier(&self) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
        WebPkiServerVerifier::builder_with_provider(self.roots.clone(), crypto())
            .build()
            .map_err(|e| rustls::Error::General(e.to_string()).into())
    }

    pub(super) fn into_server_config(self, clients: &Clients) -> Result<ServerConfig, TlsError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots, crypto())
            .build()
            .map_err(|e| rustls::Error::General(e.to_string()))?;
        let verifier: Arc<dyn ClientCertVerifier> = match clients {
            Clients::OfTheCa => verifier,
            Clients::Named(names) => Arc::new(NamedClients::new(verifier, names.clone())),
        };
        let mut config = ServerConfig::builder_with_provider(crypto())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain, self.key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

fn certificates(pem: &[u8], part: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match parsed {
        Ok(list) if !list.is_empty() => Ok(list),
        _ => Err(TlsError::Pem { part }),
    }
}

/// Ours by name: a process that never chose a default must not panic.
fn crypto() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
