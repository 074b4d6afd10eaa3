//! The HTTP client: ring for the cryptography, the system's certificates and perhaps one authority more.

use std::sync::Arc;

use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::Options;
use super::error::FetchError;
use super::reach::{Outside, Reach};

pub(super) fn build(options: &Options) -> Result<Client, FetchError> {
    let mut builder = Client::builder();
    if options.reach == Reach::Others {
        builder = builder.dns_resolver(Arc::new(Outside));
    }
    builder
        .tls_backend_preconfigured(tls(options)?)
        .connect_timeout(options.connect_timeout)
        // They are followed by hand, so that headers go to no other server.
        .redirect(Policy::none())
        .user_agent(concat!("polyvirt/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| tls_error(&e))
}

fn tls_error(why: &dyn std::fmt::Display) -> FetchError {
    FetchError::Tls {
        why: why.to_string(),
    }
}

fn tls(options: &Options) -> Result<ClientConfig, FetchError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| tls_error(&e))?;
    let mut config = builder
        .with_root_certificates(roots(options)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A machine without certificates can still fetch by HTTP, so their absence is no failure here.
fn roots(options: &Options) -> Result<RootCertStore, FetchError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let Some(pem) = &options.extra_ca_pem else {
        return Ok(store);
    };
    let before = store.len();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|e| tls_error(&e))?;
        store.add(certificate).map_err(|e| tls_error(&e))?;
    }
    if store.len() == before {
        return Err(tls_error(
            &"the extra authority holds no certificate in PEM form",
        ));
    }
    Ok(store)
}
