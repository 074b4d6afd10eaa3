//! Who calls, and may they? As virt-api decides it:
//!
//! ```text
//!   user ── kubeconfig ──► kube-apiserver ── front-proxy certificate, X-Remote-User ──► here ── SubjectAccessReview ──► …
//! ```
//!
//! Users have no account here. The API server says who they are, and only its certificate makes us believe that: whoever comes
//! without one does not get through the handshake. Its authority has issued no other, so the name in it says nothing more.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tokio::time::{Instant, sleep};

use super::cluster::World;
use super::metrics;
use super::subresources::{GROUP, PATIENCE, ROOT};
use crate::Error;

const PUBLISHED_IN: &str = "extension-apiserver-authentication";
const AUTHORITY: &str = "requestheader-client-ca-file";

/// Lets in whom the API server's own authority vouches for, and nobody else.
pub(super) async fn verifier(world: &World) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let pem = authority(world).await?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()).flatten() {
        roots.add(certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
    Ok(verifier.map_err(|error| rustls::Error::General(error.to_string()))?)
}

/// The API server writes it down a moment after it has started.
async fn authority(world: &World) -> Result<String, Error> {
    let api: Api<ConfigMap> = Api::namespaced(world.client.clone(), "kube-system");
    let begin = Instant::now();
    loop {
        let found = api.get_opt(PUBLISHED_IN).await?;
        let mut data = found.and_then(|map| map.data).unwrap_or_default();
        match data.remove(AUTHORITY) {
            Some(pem) => return Ok(pem),
            None if begin.elapsed() > PATIENCE => return Err(Error::NoFrontProxy),
            None => sleep(std::time::Duration::from_millis(100)).await,
        }
    }
}

/// Refuses what the user of a request may not do. Everybody may ask what there is.
pub(super) async fn admit(
    State(world): State<Arc<World>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(user) = header(request.headers(), "x-remote-user") else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let Some(wish) = wish(request.method(), request.uri().path()) else {
        return next.run(request).await;
    };
    let review = review(user, request.headers(), wish);
    let api: Api<SubjectAccessReview> = Api::all(world.client.clone());
    match api.create(&PostParams::default(), &review).await {
        Ok(told) if told.status.as_ref().is_some_and(|s| s.allowed) => next.run(request).await,
        Ok(_) => StatusCode::FORBIDDEN.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// What the request is for, in the words of roles; `None` where it is for no object.
fn wish(method: &Method, path: &str) -> Option<ResourceAttributes> {
    if path == format!("{}/pods", metrics::ROOT) {
        return Some(ResourceAttributes {
            group: Some(metrics::GROUP.to_owned()),
            version: Some(metrics::VERSION.to_owned()),
            verb: Some("list".to_owned()),
            resource: Some("pods".to_owned()),
            ..ResourceAttributes::default()
        });
    }
    let rest = path.strip_prefix(ROOT)?.strip_prefix("/namespaces/")?;
    let mut words = rest.split('/').map(ToOwned::to_owned);
    let namespace = words.next();
    Some(ResourceAttributes {
        group: Some(GROUP.to_owned()),
        version: Some("v1".to_owned()),
        verb: Some(
            if method == Method::PUT {
                "update"
            } else {
                "get"
            }
            .to_owned(),
        ),
        namespace,
        resource: words.next(),
        name: words.next(),
        subresource: words.next(),
        ..ResourceAttributes::default()
    })
}

fn review(user: String, headers: &HeaderMap, wish: ResourceAttributes) -> SubjectAccessReview {
    let groups = headers.get_all("x-remote-group").iter();
    let groups = groups.filter_map(|group| group.to_str().ok().map(ToOwned::to_owned));
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user),
            groups: Some(groups.collect()),
            resource_attributes: Some(wish),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_wished() {
        let path = format!("{ROOT}/namespaces/team/virtualmachines/web/stop");
        let stop = wish(&Method::PUT, &path).unwrap();
        let words = [
            stop.verb,
            stop.namespace,
            stop.resource,
            stop.name,
            stop.subresource,
        ];
        let words = words.map(Option::unwrap_or_default);
        assert_eq!(words, ["update", "team", "virtualmachines", "web", "stop"]);
        let path = format!("{ROOT}/namespaces/team/virtualmachineinstances/web/console");
        let console = wish(&Method::GET, &path).unwrap();
        assert_eq!(console.verb.as_deref(), Some("get"));
        assert_eq!(wish(&Method::GET, ROOT), None);
    }
}
