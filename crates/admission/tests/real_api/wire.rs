//! A client that speaks to the webhooks directly, and trusts what it is told to.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub struct Wire {
    sender: http1::SendRequest<String>,
    /// The certificate that was shown.
    pub shown: Vec<u8>,
}

impl Wire {
    pub async fn connect(port: u16, authorities: &[u8]) -> Result<Self, std::io::Error> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities) {
            roots.add(authority.expect("PEM")).expect("an authority");
        }
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?;
        let chain = stream
            .get_ref()
            .1
            .peer_certificates()
            .expect("a certificate");
        let shown = chain[0].to_vec();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, shown })
    }

    pub async fn post(&mut self, path: &str, body: String) -> hyper::Result<Response<Incoming>> {
        let request = Request::post(path)
            .header("host", "webhooks")
            .body(body)
            .expect("a request");
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }
}
