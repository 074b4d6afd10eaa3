//! `kubevirt://in-cluster?namespace=vms`, `https://cluster.example.com:6443` and the kubeconfig that goes with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use polyvirt_contract::grpc::ServerCheck;
use polyvirt_disks::fetch::Reach;

use crate::kubeconfig::{self, KubeconfigProblem};

/// Options of the endpoint.
const KEYS: &[&str] = &[
    "connectSeconds",
    "deadlineSeconds",
    "imageGiB",
    "imageHosts",
    "imagesNamespace",
    "namespace",
    "tolerates",
];
/// Where images are kept if nothing says where.
const IMAGES: &str = "polyvirt-images";
/// Room for an image of which nobody says how big it is.
const IMAGE_GIB: u32 = 10;
/// The key of the credentials that is read.
pub const KUBECONFIG_KEY: &str = "kubeconfig";

/// Where the cluster's address comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The cluster in which this process runs, with its service account.
    InCluster,
    /// The server that the kubeconfig names.
    Kubeconfig,
    /// This address, with the rest of the kubeconfig.
    Address(String),
}

/// Where images are kept, how much room each gets (CDI fetches into a volume that is big enough or not at all), and from which
/// servers they may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Images {
    pub(crate) namespace: String,
    pub(crate) gib: u32,
    pub(crate) hosts: Reach,
}

/// Which cluster, and how to speak to it.
#[derive(Clone, PartialEq, Eq)]
pub struct KubevirtConfig {
    /// Where the cluster's address comes from.
    pub place: Place,
    /// The only namespace to use; `None` for that of each object.
    pub namespace: Option<String>,
    /// Where images are kept; `None` for the only namespace, or `polyvirt-images`.
    pub images_namespace: Option<String>,
    /// Room for an image, in GiB.
    pub image_gib: u32,
    /// Which servers images may come from.
    pub image_hosts: Reach,
    /// How long a connection may take to stand.
    pub connect: Duration,
    /// How long any one request may take.
    pub deadline: Duration,
    /// Keys of taints that the VMs tolerate, as their classes say: nodes with others are closed to them.
    pub tolerates: BTreeSet<String>,
    /// Whether the server's certificate is looked at.
    pub server_check: ServerCheck,
    kubeconfig: Option<String>,
}

impl std::fmt::Debug for KubevirtConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubevirtConfig")
            .field("place", &self.place)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no URL of this provider.
    #[error(
        "Cannot read {0:?} as an endpoint of KubeVirt; write kubevirt://in-cluster, kubevirt://kubeconfig or https://server:6443"
    )]
    NotKubevirt(String),
    /// There is no such option.
    #[error("Unknown option {0:?} of the KubeVirt endpoint; known are {known}", known = KEYS.join(", "))]
    UnknownKey(String),
    /// The option's value makes no sense.
    #[error("Cannot read {value:?} as the option {key} of the KubeVirt endpoint; write {want}")]
    BadValue {
        /// The option.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        want: &'static str,
    },
    /// A cluster elsewhere needs credentials.
    #[error(
        "The credentials lack the key kubeconfig; put a kubeconfig there, or use kubevirt://in-cluster"
    )]
    NoKubeconfig,
    /// The cluster's own authority is at hand.
    #[error(
        "In the cluster its own certificate authority is at hand, so nothing goes unverified; take insecureSkipVerify away"
    )]
    Verified,
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigProblem),
}

impl KubevirtConfig {
    /// The defaults for a place.
    pub const fn new(place: Place) -> Self {
        Self {
            place,
            namespace: None,
            images_namespace: None,
            image_gib: IMAGE_GIB,
            image_hosts: Reach::Others,
            connect: Duration::from_secs(5),
            deadline: Duration::from_secs(20),
            tolerates: BTreeSet::new(),
            server_check: ServerCheck::Full,
            kubeconfig: None,
        }
    }

    /// Reads a `Provider.spec.endpoint`, with options after a `?`.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let place = match address.trim_end_matches('/') {
            "kubevirt://in-cluster" => Place::InCluster,
            "kubevirt:" | "kubevirt://kubeconfig" => Place::Kubeconfig,
            server if is_server(server) => Place::Address(server.to_owned()),
            _ => return Err(ConfigError::NotKubevirt(url.to_owned())),
        };
        let mut config = Self::new(place);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            config.set(&decoded(key), &decoded(value))?;
        }
        Ok(config)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let bad = |want| ConfigError::BadValue {
            key: key.to_owned(),
            value: value.to_owned(),
            want,
        };
        let seconds = || {
            let number = value.parse().ok().filter(|n| (1..=600).contains(n));
            let number = number.ok_or_else(|| bad("seconds from 1 to 600"))?;
            Ok::<_, ConfigError>(Duration::from_secs(number))
        };
        match key {
            "namespace" | "imagesNamespace" if !crate::names::is_label(value) => {
                return Err(bad("the name of a namespace"));
            }
            "namespace" => self.namespace = Some(value.to_owned()),
            "imagesNamespace" => self.images_namespace = Some(value.to_owned()),
            "imageGiB" => {
                let number = value.parse().ok().filter(|gib| (1..=10_000).contains(gib));
                self.image_gib = number.ok_or_else(|| bad("GiB from 1 to 10000"))?;
            }
            "tolerates" => self.tolerates = value.split(',').map(str::to_owned).collect(),
            "imageHosts" => {
                self.image_hosts = match value {
                    "others" => Reach::Others,
                    "any" => Reach::Anywhere,
                    _ => return Err(bad("others or any")),
                };
            }
            "connectSeconds" => self.connect = seconds()?,
            "deadlineSeconds" => self.deadline = seconds()?,
            _ => return Err(ConfigError::UnknownKey(key.to_owned())),
        }
        Ok(())
    }

    pub(crate) fn images(&self) -> Images {
        let said = self.images_namespace.as_ref().or(self.namespace.as_ref());
        Images {
            namespace: said.map_or_else(|| IMAGES.to_owned(), Clone::clone),
            gib: self.image_gib,
            hosts: self.image_hosts,
        }
    }

    /// Takes the kubeconfig out of the credentials and refuses one that would run a command, read a file or trust anybody.
    /// A provider in the cluster needs none.
    pub fn with_credentials(
        mut self,
        credentials: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Self, ConfigError> {
        let given = credentials.get(KUBECONFIG_KEY);
        self.kubeconfig = match (&self.place, given) {
            (Place::InCluster, _) => None,
            (_, None) => return Err(ConfigError::NoKubeconfig),
            (_, Some(bytes)) => Some(kubeconfig::checked(bytes)?),
        };
        Ok(self)
    }

    /// The same with what `spec.insecureSkipVerify` says. A kubeconfig's own word for it is never taken: who writes a Secret
    /// does not decide whom this program trusts.
    pub fn with_server_check(mut self, check: ServerCheck) -> Result<Self, ConfigError> {
        if check == ServerCheck::Skip && self.place == Place::InCluster {
            return Err(ConfigError::Verified);
        }
        self.server_check = check;
        Ok(self)
    }

    /// The settings of a client.
    pub(crate) async fn client_config(&self) -> Result<kube::Config, ConfigError> {
        let mut config = match (&self.place, &self.kubeconfig) {
            (Place::InCluster, _) => {
                kube::Config::incluster().map_err(|_| KubeconfigProblem::NotInCluster)?
            }
            (_, None) => return Err(ConfigError::NoKubeconfig),
            (Place::Kubeconfig, Some(text)) => kubeconfig::client_config(text, None).await?,
            (Place::Address(server), Some(text)) => {
                kubeconfig::client_config(text, Some(server)).await?
            }
        };
        config.connect_timeout = Some(self.connect);
        config.write_timeout = Some(self.deadline);
        // Every call has a deadline of its own; what is tried again is the caller's to decide.
        config.default_retry = false;
        config.proxy_url = None;
        if self.server_check == ServerCheck::Skip {
            tracing::warn!(cluster = %config.cluster_url, "The certificate of this cluster is not looked at, as spec.insecureSkipVerify says: whoever is in between gets its credentials");
            config.accept_invalid_certs = true;
            // With an authority the client would look at the certificate all the same.
            config.root_cert = None;
        }
        Ok(config)
    }
}

fn is_server(address: &str) -> bool {
    let host = address.strip_prefix("https://");
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '@', ' ']))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_documentation_are_read() {
        let config =
            KubevirtConfig::from_url("kubevirt://in-cluster?namespace=vms&deadlineSeconds=7")
                .expect("readable");
        assert_eq!(config.place, Place::InCluster);
        assert_eq!(config.namespace.as_deref(), Some("vms"));
        assert_eq!(config.deadline, Duration::from_secs(7));
        assert_eq!(config.images().namespace, "vms");
        let apart = "kubevirt://in-cluster?imagesNamespace=golden&imageGiB=40";
        let apart = KubevirtConfig::from_url(apart).expect("readable").images();
        assert_eq!((apart.namespace.as_str(), apart.gib), ("golden", 40));
        let taints = "kubevirt://in-cluster?tolerates=nvidia.com/gpu,dedicated";
        let taints = KubevirtConfig::from_url(taints)
            .expect("readable")
            .tolerates;
        assert_eq!(Vec::from_iter(taints), ["dedicated", "nvidia.com/gpu"]);
        assert_eq!(apart.hosts, Reach::Others);
        let any = KubevirtConfig::from_url("kubevirt://in-cluster?imageHosts=any");
        assert_eq!(any.expect("readable").images().hosts, Reach::Anywhere);
        for (url, place) in [
            ("kubevirt://kubeconfig", Place::Kubeconfig),
            ("kubevirt://", Place::Kubeconfig),
            (
                "https://a.example:6443/",
                Place::Address("https://a.example:6443".into()),
            ),
        ] {
            let config = KubevirtConfig::from_url(url).expect(url);
            assert_eq!(config.place, place, "{url}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (url, word) in [
            ("qemu:///x", "qemu:///x"),
            ("http://a", "https://"),
            ("https://user@a", "user@a"),
            ("kubevirt://elsewhere", "in-cluster"),
            ("kubevirt://in-cluster?name=x", "namespace"),
            ("kubevirt://in-cluster?namespace=A_b", "namespace"),
            ("kubevirt://in-cluster?deadlineSeconds=0", "from 1"),
            ("kubevirt://in-cluster?imagesNamespace=A", "namespace"),
            ("kubevirt://in-cluster?imageGiB=0", "from 1"),
            ("kubevirt://in-cluster?imageHosts=none", "others or any"),
        ] {
            let error = KubevirtConfig::from_url(url).expect_err(url).to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn a_cluster_elsewhere_needs_a_kubeconfig() {
        let config = KubevirtConfig::from_url("kubevirt://kubeconfig").expect("readable");
        let answer = config.with_credentials(&BTreeMap::new());
        assert_eq!(answer, Err(ConfigError::NoKubeconfig));
        let inside = KubevirtConfig::from_url("kubevirt://in-cluster").expect("readable");
        assert!(inside.with_credentials(&BTreeMap::new()).is_ok());
    }

    #[tokio::test]
    async fn only_the_provider_says_that_a_certificate_is_not_looked_at() {
        let inside = KubevirtConfig::from_url("kubevirt://in-cluster").expect("readable");
        let refused = inside.with_server_check(ServerCheck::Skip);
        assert_eq!(refused, Err(ConfigError::Verified));
        let kubeconfig = br#"{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://a:6443"}}], "users": [{"name": "u", "user": {"token": "t"}}]}"#;
        let credentials = BTreeMap::from([(KUBECONFIG_KEY.to_owned(), kubeconfig.to_vec())]);
        for (check, skips) in [(ServerCheck::Full, false), (ServerCheck::Skip, true)] {
            let config = KubevirtConfig::from_url("kubevirt://kubeconfig").expect("readable");
            let config = config.with_credentials(&credentials).expect("usable");
            let config = config.with_server_check(check).expect("allowed");
            let client = config.client_config().await.expect("usable");
            assert_eq!(client.accept_invalid_certs, skips);
        }
    }
}
