//! mTLS: who is let in, and who is believed.

use std::path::Path;
use std::sync::Arc;

use polyvirt_contract::grpc::{Clients, Pem, ServerCheck, ServerTls, TlsFiles, connect};
use polyvirt_contract::{ErrorKind, Provider, ProviderError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tempfile::TempDir;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::recorder::Recorder;
use crate::support::{Running, eventually};

const NAME: &str = "virtrigaud-provider-ns-p.ns.svc.cluster.local";

/// Signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.as_ref().pem()
    }

    /// `ca.crt`, `tls.crt` and `tls.key`, as a Secret has them: the same for both ends.
    pub fn write(&self, directory: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(directory.join("ca.crt"), self.pem()).unwrap();
        std::fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
    }

    /// A client that is known by a URI and a common name.
    fn write_manager(&self, directory: &Path) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        let name = "spiffe://cluster/manager".try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(name));
        params
            .distinguished_name
            .push(DnType::CommonName, "the manager");
        let certificate = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(directory.join("ca.crt"), self.pem()).unwrap();
        std::fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
    }

    fn secret(&self, name: &str) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        self.write(directory.path(), name);
        directory
    }
}

async fn start(secret: &TempDir) -> Running {
    let tls = ServerTls::in_directory(secret.path());
    Running::start_tls(Arc::new(Recorder::default()), tls).await
}

async fn call(server: &Running, tls: TlsFiles) -> Result<(), ProviderError> {
    connect(server.target().with_tls(tls))
        .unwrap()
        .validate()
        .await
}

fn files(secret: &TempDir) -> TlsFiles {
    TlsFiles::in_directory(secret.path()).with_domain_name(NAME)
}

#[track_caller]
fn refused(result: Result<(), ProviderError>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(
        error
            .message
            .starts_with("The provider cannot be reached: "),
        "{error}"
    );
}

#[tokio::test]
async fn one_secret_serves_both_ends() {
    let secret = Authority::new("a").secret(NAME);
    let server = start(&secret).await;
    call(&server, files(&secret)).await.unwrap();
}

#[tokio::test]
async fn only_clients_of_the_names_that_are_let_in_are() {
    let authority = Authority::new("a");
    let secret = authority.secret(NAME);
    for (list, admitted) in [
        (String::new(), true),
        (format!("other, {NAME}"), true),
        ("other".to_owned(), false),
        (NAME[1..].to_owned(), false),
    ] {
        let tls = ServerTls::in_directory(secret.path()).for_clients(Clients::parse(&list));
        let server = Running::start_tls(Arc::new(Recorder::default()), tls).await;
        let answer = call(&server, files(&secret)).await;
        assert_eq!(answer.is_ok(), admitted, "{list}: {answer:?}");
    }
}

#[tokio::test]
async fn a_client_is_known_by_its_uri_and_its_common_name_too() {
    let authority = Authority::new("a");
    let (secret, client) = (authority.secret(NAME), tempfile::tempdir().unwrap());
    authority.write_manager(client.path());
    for (list, admitted) in [
        ("spiffe://cluster/manager", true),
        ("the manager", true),
        ("manager", false),
    ] {
        let tls = ServerTls::in_directory(secret.path()).for_clients(Clients::parse(list));
        let server = Running::start_tls(Arc::new(Recorder::default()), tls).await;
        let answer = call(&server, files(&client)).await;
        assert_eq!(answer.is_ok(), admitted, "{list}: {answer:?}");
    }
}

#[tokio::test]
async fn certificates_may_come_from_memory() {
    let secret = Authority::new("a").secret(NAME);
    let server = start(&secret).await;
    let read = |name: &str| Pem::Inline(std::fs::read(secret.path().join(name)).unwrap().into());
    let tls = TlsFiles {
        ca: read("ca.crt"),
        cert: read("tls.crt"),
        key: read("tls.key"),
        domain_name: Some(NAME.into()),
        check: ServerCheck::Full,
    };
    assert!(!format!("{tls:?}").contains("BEGIN"));
    call(&server, tls).await.unwrap();
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let authority = Authority::new("a");
    let server = start(&authority.secret(NAME)).await;
    let ca = Certificate::from_pem(authority.pem());
    let tls = ClientTlsConfig::new().ca_certificate(ca).domain_name(NAME);
    let endpoint = Endpoint::from_shared(format!("https://{}", server.address)).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect_lazy();
    refused(
        polyvirt_contract::grpc::Client::new(channel)
            .validate()
            .await,
    );
}

#[tokio::test]
async fn a_client_of_another_ca_is_refused() {
    let ours = Authority::new("a").secret(NAME);
    let theirs = Authority::new("b").secret(NAME);
    let server = start(&ours).await;
    let mixed = TlsFiles {
        ca: files(&ours).ca,
        ..files(&theirs)
    };
    refused(call(&server, mixed).await);
}

#[tokio::test]
async fn a_server_of_another_ca_is_not_believed() {
    let ours = Authority::new("a").secret(NAME);
    let theirs = Authority::new("b").secret(NAME);
    let server = start(&ours).await;
    let mixed = TlsFiles {
        ca: files(&theirs).ca,
        ..files(&ours)
    };
    refused(call(&server, mixed.clone()).await);
    let unchecked = TlsFiles {
        check: ServerCheck::Skip,
        ..mixed
    };
    call(&server, unchecked).await.unwrap();
}

#[tokio::test]
async fn a_server_of_another_name_is_not_believed() {
    let secret = Authority::new("a").secret(NAME);
    let server = start(&secret).await;
    refused(call(&server, TlsFiles::in_directory(secret.path())).await);
    refused(call(&server, files(&secret).with_domain_name("other.svc")).await);
}

#[tokio::test]
async fn plain_text_is_refused() {
    let secret = Authority::new("a").secret(NAME);
    let server = start(&secret).await;
    let error = server.client().validate().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    call(&server, files(&secret)).await.unwrap();
}

#[tokio::test]
async fn rotated_certificates_hold_without_a_restart() {
    let secret = Authority::new("a").secret(NAME);
    let server = start(&secret).await;
    let old = tempfile::tempdir().unwrap();
    for name in ["ca.crt", "tls.crt", "tls.key"] {
        std::fs::copy(secret.path().join(name), old.path().join(name)).unwrap();
    }
    call(&server, files(&old)).await.unwrap();
    std::fs::write(secret.path().join("tls.crt"), "half written").unwrap();
    call(&server, files(&old)).await.unwrap();

    Authority::new("b").write(secret.path(), NAME);
    eventually(|| async { call(&server, files(&secret)).await.ok() }).await;
    refused(call(&server, files(&old)).await);
}

#[tokio::test]
async fn a_server_without_usable_certificates_does_not_start() {
    use polyvirt_contract::grpc::{Listen, ServeError, ServeOptions, TlsError, serve};
    let secret = Authority::new("a").secret(NAME);
    std::fs::remove_file(secret.path().join("ca.crt")).unwrap();
    let start = || {
        let listen = Listen::Address("127.0.0.1:0".parse().unwrap());
        let options = ServeOptions::new(listen).with_tls(ServerTls::in_directory(secret.path()));
        serve(
            Arc::new(Recorder::default()),
            options,
            std::future::ready(()),
        )
    };
    let error = start().await.unwrap_err();
    assert!(
        matches!(error, ServeError::Tls(TlsError::Read { .. })),
        "{error:?}"
    );
    std::fs::write(secret.path().join("ca.crt"), "no certificate").unwrap();
    let error = start().await.unwrap_err();
    assert!(
        matches!(error, ServeError::Tls(TlsError::Pem { .. })),
        "{error:?}"
    );
}
