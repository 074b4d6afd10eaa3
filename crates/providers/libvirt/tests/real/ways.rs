//! The ways to libvirt: TLS with certificates on both sides, plain TCP, and SSH.

use std::collections::BTreeMap;
use std::net::TcpListener;

use polyvirt_contract::grpc::ServerCheck;
use polyvirt_contract::{ErrorKind, Provider as _};
use polyvirt_provider_libvirt::{Libvirt, LibvirtConfig, Secret};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::host::Host;

/// An authority and what it signed.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("sound");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("signed").pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Certificate and key for a name.
    pub fn leaf(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let names = vec![name.to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("sound");
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let signed = params.signed_by(&key, &self.issuer).expect("signed");
        (signed.pem(), key.serialize_pem())
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

fn credentials(ca: &str, (certificate, key): &(String, String)) -> BTreeMap<String, Secret> {
    [("ca.crt", ca), ("tls.crt", certificate), ("tls.key", key)]
        .into_iter()
        .map(|(name, text)| (name.to_owned(), Secret::new(text)))
        .collect()
}

pub async fn tried(
    url: &str,
    secrets: BTreeMap<String, Secret>,
) -> polyvirt_contract::Result<usize> {
    tried_with(url, secrets, ServerCheck::Full).await
}

async fn tried_with(
    url: &str,
    secrets: BTreeMap<String, Secret>,
    check: ServerCheck,
) -> polyvirt_contract::Result<usize> {
    let config = LibvirtConfig::from_url(url)
        .expect("readable")
        .with_credentials(secrets)
        .with_server_check(check)
        .expect("allowed");
    let provider = Libvirt::open(config);
    provider.validate().await?;
    Ok(provider.inventory().await?.datastores.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_needs_the_right_certificates_on_both_sides() {
    let (ours, strange) = (Authority::new("ours"), Authority::new("strange"));
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = ours.leaf("localhost");
    for (name, text) in [
        ("ca.pem", &ours.pem),
        ("server.pem", &certificate),
        ("server.key", &key),
    ] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let (tls, tcp) = (free_port(), free_port());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let host = Host::with(&format!(
        "listen_tls = 1\ntls_port = \"{tls}\"\nca_file = \"{}\"\ncert_file = \"{}\"\nkey_file = \"{}\"\nlisten_tcp = 1\ntcp_port = \"{tcp}\"\nauth_tcp = \"none\"\nlisten_addr = \"127.0.0.1\"",
        at("ca.pem"),
        at("server.pem"),
        at("server.key")
    ));
    let url = format!("qemu+tls://localhost:{tls}/system");
    let client = ours.leaf("client");
    assert_eq!(tried(&url, credentials(&ours.pem, &client)).await, Ok(1));
    let by_address = format!("qemu+tls://127.0.0.1:{tls}/system");
    assert_eq!(
        tried(&by_address, credentials(&ours.pem, &client)).await,
        Ok(1)
    );
    let plain = format!("qemu+tcp://127.0.0.1:{tcp}/system?allowPlaintext=true");
    assert_eq!(tried(&plain, BTreeMap::new()).await, Ok(1));
    for (what, url, secrets) in [
        (
            "a server of a strange authority",
            &url,
            credentials(&strange.pem, &client),
        ),
        (
            "our certificate of a strange authority",
            &url,
            credentials(&ours.pem, &strange.leaf("client")),
        ),
        ("no certificate", &url, BTreeMap::new()),
    ] {
        let error = tried(url, secrets).await.expect_err(what);
        assert_eq!(error.kind, ErrorKind::Unauthenticated, "{what}: {error:?}");
    }
    // Whoever says so believes any server; the server still looks at us.
    let blind = credentials(&strange.pem, &client);
    assert_eq!(tried_with(&url, blind, ServerCheck::Skip).await, Ok(1));
    let stranger = credentials(&strange.pem, &strange.leaf("client"));
    let error = tried_with(&url, stranger, ServerCheck::Skip).await;
    let error = error.expect_err("the server does not know us");
    assert_eq!(error.kind, ErrorKind::Unauthenticated, "{error:?}");
    drop(host);
}
