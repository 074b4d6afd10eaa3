//! HTTPS with an authority of our own.

use std::sync::Arc;

use bytes::Bytes;
use polyvirt_disks::fetch::{FetchError, Fetcher, Options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::{Bench, options, request};

/// A server that answers `image` to everything, and the certificate that it must be trusted by.
async fn start() -> (String, String) {
    let key = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config))));
    (address, key.cert.pem())
}

async fn serve(listener: tokio::net::TcpListener, acceptor: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        // A client that does not trust us hangs up; the next one may.
        let Ok(mut stream) = acceptor.accept(stream).await else {
            continue;
        };
        let mut head = [0; 4096];
        if stream.read(&mut head).await.is_ok() {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nimage";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    }
}

fn fetcher(pem: Option<&str>) -> Result<Fetcher, FetchError> {
    let extra_ca_pem = pem.map(|pem| Bytes::copy_from_slice(pem.as_bytes()));
    Fetcher::new(Options {
        extra_ca_pem,
        attempts: 1,
        ..options()
    })
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_if_given() {
    let (address, pem) = start().await;
    let bench = Bench::new();
    let error = fetcher(None)
        .unwrap()
        .fetch(&request(&address), &bench.target(), |_| {})
        .await
        .unwrap_err();
    assert!(
        matches!(error, FetchError::Connect { .. }) && error.to_string().contains("certificate"),
        "{error}"
    );
    fetcher(Some(&pem))
        .unwrap()
        .fetch(&request(&address), &bench.target(), |_| {})
        .await
        .unwrap();
    assert_eq!(bench.content(), b"image");
}

#[test]
fn an_authority_that_is_none_is_told() {
    let error = fetcher(Some("no certificate")).unwrap_err();
    assert!(matches!(error, FetchError::Tls { .. }), "{error}");
}
