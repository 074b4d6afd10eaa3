//! Whom we believe when they say who a user is: the API server, as it describes itself.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::server::GatewayError;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// The client certificates and headers of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontProxy {
    ca: String,
    allowed_names: Vec<String>,
    user_headers: Vec<String>,
    group_headers: Vec<String>,
    extra_prefixes: Vec<String>,
}

/// A user, as the API server knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl FrontProxy {
    /// Reads what the API server has published.
    pub async fn read(client: &Client) -> Result<Self, GatewayError> {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        let found = api.get(NAME).await.map_err(GatewayError::NoFrontProxy)?;
        Self::parse(&found.data.unwrap_or_default())
    }

    fn parse(data: &BTreeMap<String, String>) -> Result<Self, GatewayError> {
        let list = |key: &str| -> Vec<String> {
            let text = data.get(key).map_or("[]", String::as_str);
            serde_json::from_str(text).unwrap_or_default()
        };
        let front_proxy = Self {
            ca: data
                .get("requestheader-client-ca-file")
                .cloned()
                .unwrap_or_default(),
            allowed_names: list("requestheader-allowed-names"),
            user_headers: list("requestheader-username-headers"),
            group_headers: list("requestheader-group-headers"),
            extra_prefixes: list("requestheader-extra-headers-prefix"),
        };
        if front_proxy.ca.is_empty() || front_proxy.user_headers.is_empty() {
            return Err(GatewayError::NoAggregation);
        }
        Ok(front_proxy)
    }

    /// The authorities that vouch for the API server.
    pub fn roots(&self) -> Result<RootCertStore, GatewayError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.ca.as_bytes()) {
            let certificate = certificate.map_err(|e| GatewayError::BadAuthority(e.to_string()))?;
            roots.add(certificate)?;
        }
        Ok(roots)
    }

    /// Whether a verified certificate with this name is that of the API server. An empty list allows every name.
    pub fn allows(&self, common_name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|name| name == common_name)
    }

    /// The user in the headers. Only for requests that came with the certificate of the API server.
    pub fn user(&self, headers: &HeaderMap) -> Option<User> {
        let name = self
            .user_headers
            .iter()
            .find_map(|name| headers.get(name))?;
        let name = name.to_str().ok().filter(|name| !name.is_empty())?;
        let groups = self
            .group_headers
            .iter()
            .flat_map(|name| headers.get_all(name));
        Some(User {
            name: name.to_owned(),
            groups: groups
                .filter_map(|value| value.to_str().ok().map(str::to_owned))
                .collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            let prefix = self.extra_prefixes.iter().map(|p| p.to_ascii_lowercase());
            let key = prefix.filter_map(|p| name.as_str().strip_prefix(&p).map(unescaped));
            if let (Some(key), Ok(value)) = (key.last(), value.to_str()) {
                extra.entry(key).or_default().push(value.to_owned());
            }
        }
        extra
    }
}

/// Keys come with %XX for what a header's name cannot hold.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| first == b'%');
        let code = code.and_then(|hex| std::str::from_utf8(hex).ok());
        let coded = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(coded.unwrap_or(first));
        rest = if coded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published() -> FrontProxy {
        let data = [
            ("requestheader-client-ca-file", "pem"),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["X-Remote-Extra-"]"#,
            ),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        FrontProxy::parse(&data.into()).unwrap()
    }

    #[test]
    fn a_user_is_read_from_the_headers() {
        let mut headers = HeaderMap::new();
        assert_eq!(published().user(&headers), None);
        headers.insert("X-Remote-User", "ada".parse().unwrap());
        headers.append("X-Remote-Group", "dev".parse().unwrap());
        headers.append("X-Remote-Group", "ops".parse().unwrap());
        let key = "X-Remote-Extra-authentication.kubernetes.io%2fpod-name";
        headers.insert(key, "web-0".parse().unwrap());
        let user = published().user(&headers).unwrap();
        assert_eq!((user.name.as_str(), user.groups.len()), ("ada", 2));
        let extra = user.extra.get("authentication.kubernetes.io/pod-name");
        assert_eq!(extra, Some(&vec!["web-0".to_owned()]));
    }

    #[test]
    fn only_the_names_that_are_listed_are_believed() {
        assert!(published().allows("front-proxy-client"));
        assert!(!published().allows("somebody"));
        let mut any = published();
        any.allowed_names.clear();
        assert!(any.allows("somebody"));
    }

    #[test]
    fn an_api_server_without_aggregation_is_named() {
        let error = FrontProxy::parse(&BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("requestheader"), "{error}");
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescaped("a%2Fb%zz%"), "a/b%zz%");
    }
}
