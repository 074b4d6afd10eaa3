//! TLS with certificates on both sides, as libvirt has it on port 16514.

use std::sync::Arc;

use polyvirt_contract::grpc::{ServerCheck, Unchecked};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt as _;
use tokio_rustls::TlsConnector;

use super::Socket;
use crate::config::{Address, LibvirtConfig};
use crate::rpc::RpcError;

/// The byte by which libvirt says that it takes our certificate.
const WELCOME: u8 = 1;
/// Keys of the Secret: ours, and the names that libvirt's own tools give to the files.
const CA: &[&str] = &["ca.crt", "cacert.pem"];
const CERTIFICATE: &[&str] = &["tls.crt", "clientcert.pem"];
const KEY: &[&str] = &["tls.key", "clientkey.pem"];
const PASSWORD: &[&str] = &["password"];

pub(super) async fn connect(config: &LibvirtConfig, address: &Address) -> Result<Socket, RpcError> {
    let tls = client(config)?;
    let name = ServerName::try_from(address.host.clone())
        .map_err(|_| refused(&format!("{:?} can be in no certificate", address.host)))?;
    let stream = super::tcp(address).await?;
    let connected = TlsConnector::from(Arc::new(tls))
        .connect(name, stream)
        .await;
    let mut stream = connected.map_err(|error| handshake(&error))?;
    match stream.read_u8().await {
        Ok(WELCOME) => Ok(Box::new(stream)),
        // With TLS 1.3 the other side looks at our certificate when we think that all is done.
        Ok(_) => Err(refused("it does not take our certificate")),
        Err(error) => Err(refused(&format!(
            "it ended the connection after our certificate ({error})"
        ))),
    }
}

fn refused(why: &str) -> RpcError {
    RpcError::Refused(why.to_owned())
}

/// A certificate that is not to be trusted, on either side, is not mended by trying again.
fn handshake(error: &std::io::Error) -> RpcError {
    let text = error.to_string();
    let is_tls = error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>);
    if is_tls {
        RpcError::Refused(text)
    } else {
        RpcError::Unreachable(text)
    }
}

fn client(config: &LibvirtConfig) -> Result<ClientConfig, RpcError> {
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(crypto.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error.to_string()))?;
    let builder = match config.server_check {
        ServerCheck::Full => builder.with_root_certificates(roots(config)?),
        ServerCheck::Skip => {
            let public = config.public();
            tracing::warn!(endpoint = %public, "The certificate of this libvirt is not looked at, as spec.insecureSkipVerify says: whoever is in between controls the VMs");
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unchecked::new(crypto)))
        }
    };
    // Whoever has a name and a password needs no certificate, if the server agrees.
    if config.secret(CERTIFICATE).is_none() && config.secret(PASSWORD).is_some() {
        return Ok(builder.with_no_client_auth());
    }
    let key = PrivateKeyDer::from_pem_slice(pem(config, KEY)?).map_err(|_| {
        refused(&format!(
            "the key {} of the credentials is no private key",
            KEY[0]
        ))
    })?;
    builder
        .with_client_auth_cert(certificates(config, CERTIFICATE)?, key)
        .map_err(|error| refused(&format!("the client's certificate is unusable: {error}")))
}

fn roots(config: &LibvirtConfig) -> Result<RootCertStore, RpcError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(config, CA)? {
        let added = roots.add(certificate);
        added.map_err(|error| refused(&format!("the CA certificate is unusable: {error}")))?;
    }
    Ok(roots)
}

fn pem<'a>(config: &'a LibvirtConfig, keys: &[&str]) -> Result<&'a [u8], RpcError> {
    let found = config.secret(keys).map(crate::config::Secret::bytes);
    found.ok_or_else(|| {
        refused(&format!(
            "the credentials have no {}; qemu+tls needs ca.crt, and tls.crt and tls.key or (where libvirt asks for them by SASL) username and password",
            keys[0]
        ))
    })
}

fn certificates(
    config: &LibvirtConfig,
    keys: &[&str],
) -> Result<Vec<CertificateDer<'static>>, RpcError> {
    let wrong = || refused(&format!("{} of the credentials is no certificate", keys[0]));
    let list = CertificateDer::pem_slice_iter(pem(config, keys)?);
    let list: Vec<_> = list.collect::<Result<_, _>>().map_err(|_| wrong())?;
    if list.is_empty() {
        return Err(wrong());
    }
    Ok(list)
}
