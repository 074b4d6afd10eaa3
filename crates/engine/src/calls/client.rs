//! One GET, with the redirects that it leads to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::grpc::Unchecked;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::LOCATION;
use reqwest::redirect::Policy as Redirects;
use reqwest::{Client, Response, Url};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use super::policy::Policy;

/// More than any honest server needs.
const MOST_REDIRECTS: usize = 5;

/// Whether the certificate of the server is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// It must be one that this machine trusts.
    Trusted,
    /// Any will do: a guest that is called by its address has one that it made itself.
    Any,
}

/// What to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    url: Url,
    certificate: Certificate,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who answered: scheme, host, port and path, without the query.
    pub address: String,
    /// The HTTP status.
    pub status: u16,
}

/// Why nobody answered. No text holds the query of an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// What was written is no address.
    #[error("{0:?} is no host that can be called; give a name or an address")]
    Host(String),
    /// It leads to where only the manager gets.
    #[error(
        "{0} leads to the machine of the manager, to its cloud or to a Service of the cluster, and is not called. Name another server, or have the operator of the manager allow its address (--hook-allow)"
    )]
    Inside(String),
    /// Nobody is there, or not yet.
    #[error("{address} cannot be reached: {why}")]
    Unreachable {
        /// Who was called.
        address: String,
        /// What the connection said.
        why: String,
    },
    /// It took too long.
    #[error("{address} did not answer within {} seconds", after.as_secs())]
    Late {
        /// Who was called.
        address: String,
        /// How long it had.
        after: Duration,
    },
    /// It sends us to where nobody goes.
    #[error("{address} redirects {why}")]
    Redirect {
        /// Who was called.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Call {
    /// To a server that is named, or to a guest by its address. What follows a `?` in the path is its query.
    pub fn new(
        scheme: &str,
        host: &str,
        port: u16,
        path: &str,
        certificate: Certificate,
    ) -> Result<Self, CallError> {
        let bad = || CallError::Host(host.to_owned());
        let bare = host.trim_matches(['[', ']']);
        let host = match bare.parse::<IpAddr>() {
            Ok(IpAddr::V6(v6)) => format!("[{v6}]"),
            _ => bare.to_owned(),
        };
        let mut url = Url::parse(&format!("{scheme}://host/")).map_err(|_| bad())?;
        url.set_host(Some(&host)).map_err(|_| bad())?;
        url.set_port(Some(port)).map_err(|()| bad())?;
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        url.set_path(path);
        url.set_query(query);
        Ok(Self { url, certificate })
    }
}

/// Calls servers, as far as the policy lets it.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    policy: Arc<Policy>,
}

impl Caller {
    /// With that policy.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: Arc::new(policy),
        }
    }

    /// Sends a GET, and another where the answer redirects to.
    pub async fn get(&self, call: &Call, patience: Duration) -> Result<Answer, CallError> {
        let late = CallError::Late {
            address: public(&call.url),
            after: patience,
        };
        let answer = timeout(patience, self.follow(call)).await;
        answer.unwrap_or(Err(late))
    }

    async fn follow(&self, call: &Call) -> Result<Answer, CallError> {
        let client = self.client(call)?;
        let mut url = call.url.clone();
        for _ in 0..=MOST_REDIRECTS {
            self.check(&url).await?;
            let response = client.get(url.clone()).send().await;
            let response = response.map_err(|error| unreachable(&url, error))?;
            match next(&url, &response)? {
                Some(next) => url = next,
                None => {
                    return Ok(Answer {
                        address: public(&url),
                        status: response.status().as_u16(),
                    });
                }
            }
        }
        Err(redirect(&url, "without end"))
    }

    /// Refuses before anything is sent.
    async fn check(&self, url: &Url) -> Result<(), CallError> {
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_matches(['[', ']']);
        let permitted = match bare.parse() {
            Ok(address) => self.policy.permits(address),
            Err(_) => match tokio::net::lookup_host((bare, 0)).await {
                Ok(mut found) => found.any(|place| self.policy.permits(place.ip())),
                // The connection tells why.
                Err(_) => true,
            },
        };
        permitted
            .then_some(())
            .ok_or_else(|| CallError::Inside(public(url)))
    }

    fn client(&self, call: &Call) -> Result<Client, CallError> {
        let unusable = |why: String| CallError::Unreachable {
            address: public(&call.url),
            why,
        };
        let tls = tls(call.certificate).map_err(|error| unusable(error.to_string()))?;
        Client::builder()
            .dns_resolver(Arc::new(Gate(self.policy.clone())))
            .tls_backend_preconfigured(tls)
            .redirect(Redirects::none())
            // A proxy would go where we may not.
            .no_proxy()
            .user_agent(concat!("polyvirt/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unusable(error.to_string()))
    }
}

fn tls(certificate: Certificate) -> Result<ClientConfig, rustls::Error> {
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(crypto.clone());
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(match certificate {
        Certificate::Any => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unchecked::new(crypto)))
            .with_no_client_auth(),
        Certificate::Trusted => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    })
}

/// Looks names up, and forgets addresses that may not be called: a name may have another one the second time.
struct Gate(Arc<Policy>);

impl Resolve for Gate {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let permitted = found.filter(|place| policy.permits(place.ip()));
            let permitted: Vec<SocketAddr> = permitted.collect();
            let addresses: Addrs = Box::new(permitted.into_iter());
            Ok(addresses)
        })
    }
}

/// Where the answer points to; `None` if it is none that points.
fn next(from: &Url, response: &Response) -> Result<Option<Url>, CallError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION);
    let location = location.and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| redirect(from, "to nowhere"))?;
    let next = from
        .join(location)
        .map_err(|_| redirect(from, "to something that is no address"))?;
    match (from.scheme(), next.scheme()) {
        ("https", "http") => Err(redirect(from, "from HTTPS to HTTP")),
        (_, "http" | "https") => Ok(Some(next)),
        _ => Err(redirect(from, "to something other than a web server")),
    }
}

fn redirect(from: &Url, why: &'static str) -> CallError {
    CallError::Redirect {
        address: public(from),
        why,
    }
}

fn unreachable(url: &Url, error: reqwest::Error) -> CallError {
    let error = error.without_url();
    let mut why = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        why = format!("{why}: {inner}");
        cause = inner.source();
    }
    CallError::Unreachable {
        address: public(url),
        why,
    }
}

/// What may be shown of an address.
fn public(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or_else(String::new, |p| format!(":{p}"));
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

#[cfg(test)]
mod tests;
