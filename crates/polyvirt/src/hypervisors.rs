//! The hypervisors that are linked in. A new one is one entry of the table here.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use polyvirt_api::infra::{Provider as ProviderObject, ProviderType};
use polyvirt_contract::grpc::ServerCheck;
use polyvirt_contract::{Credentials, Provider, ProviderError};
use polyvirt_provider_kubevirt::{Kubevirt, KubevirtConfig, Place};
use polyvirt_provider_libvirt::{LibvirtConfig, Secret};
use polyvirt_provider_mock::{Mock, MockConfig};
use polyvirt_provider_qemu::{Fleet, FleetConfig, FleetConfigError, Qemu, QemuConfig};

/// Where QEMU's VMs are if the Provider does not say.
pub const QEMU_HOME: &str = "qemu:///var/lib/polyvirt/qemu";
/// The libvirt of a Provider that does not say where it is.
const LIBVIRT_HOME: &str = "qemu:///system";

/// How a hypervisor is reached.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// `Provider.spec.endpoint`.
    pub endpoint: Option<String>,
    /// What proves who asks.
    pub credentials: Credentials,
    /// Whether the hypervisor's certificate is looked at: `Provider.spec.insecureSkipVerify`.
    pub server_check: ServerCheck,
    /// Tells this provider from others of the same hypervisor, in this life and the next; empty if it has no name.
    pub instance: String,
    /// Where words are looked up that an endpoint would say.
    pub environment: Environment,
}

/// What `spec.insecureSkipVerify` asks for.
pub const fn server_check(insecure_skip_verify: bool) -> ServerCheck {
    if insecure_skip_verify {
        ServerCheck::Skip
    } else {
        ServerCheck::Full
    }
}

/// The variables that a provider may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Environment {
    /// None: it shares the process with others.
    #[default]
    Nobodys,
    /// Those of the process, which is the provider's alone.
    Own,
}

impl Environment {
    fn get(self, name: &str) -> Option<String> {
        match self {
            Self::Nobodys => None,
            Self::Own => std::env::var(name).ok(),
        }
    }
}

/// Starts the code of a hypervisor; asked once, and again if it failed.
pub type Open =
    Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Provider>, ProviderError>> + Send + Sync>;

/// Whether a provider of our image has a use in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// It reaches its hypervisor over the network.
    Served,
    /// It runs VMs on the machine that it is on.
    Pointless,
}

/// Who fetches an image from where its URL points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Images {
    /// The provider's own code.
    FetchedByProvider,
    /// The hypervisor, or nobody.
    Elsewhere,
}

/// One kind of hypervisor.
pub struct Hypervisor {
    /// Its word in `Provider.spec.type`.
    pub kind: ProviderType,
    /// Where it may run.
    pub pods: Pods,
    /// Who fetches images.
    pub images: Images,
    check: fn(&str) -> Result<(), Mistake>,
    from_pods: fn(&ProviderObject) -> Result<(), Mistake>,
    prepare: fn(&Access) -> Result<Open, Mistake>,
}

impl Hypervisor {
    /// Says what is wrong with an endpoint, without going there.
    pub fn check(&self, endpoint: Option<&str>) -> Result<(), Mistake> {
        endpoint.map_or(Ok(()), self.check)
    }

    /// Says why pods cannot reach it as the Provider describes it. They have no account in the cluster, and their NetworkPolicy
    /// lets them out to the host of the endpoint alone.
    pub fn check_from_pods(&self, provider: &ProviderObject) -> Result<(), Mistake> {
        (self.from_pods)(provider)
    }

    /// Reads how it is to be reached, without going there. The error says what is wrong with endpoint or credentials.
    pub fn prepare(&self, access: &Access) -> Result<Open, Mistake> {
        (self.prepare)(access)
    }
}

/// What is wrong with the way to a hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// The endpoint.
    #[error("{0}")]
    Endpoint(String),
    /// The credentials.
    #[error("{0}")]
    Credentials(String),
    /// That nobody is to look at the certificate.
    #[error("{0}")]
    ServerCheck(String),
}

fn told<T, E: std::fmt::Display>(read: Result<T, E>) -> Result<T, Mistake> {
    read.map_err(|error| Mistake::Endpoint(error.to_string()))
}

/// All of them.
pub const LINKED: &[Hypervisor] = &[
    Hypervisor {
        kind: ProviderType::Mock,
        pods: Pods::Served,
        images: Images::Elsewhere,
        check: |url| told(MockConfig::from_url(url)).map(drop),
        from_pods: |_| Ok(()),
        prepare: mock,
    },
    Hypervisor {
        kind: ProviderType::Qemu,
        pods: Pods::Pointless,
        images: Images::FetchedByProvider,
        check: check_qemu,
        from_pods: |_| Ok(()),
        prepare: qemu,
    },
    Hypervisor {
        kind: ProviderType::Libvirt,
        pods: Pods::Served,
        images: Images::FetchedByProvider,
        check: |url| told(LibvirtConfig::list_from_url(url)).map(drop),
        from_pods: |_| Ok(()),
        prepare: libvirt,
    },
    Hypervisor {
        kind: ProviderType::Kubevirt,
        pods: Pods::Served,
        images: Images::Elsewhere,
        check: |url| told(KubevirtConfig::from_url(url)).map(drop),
        from_pods: kubevirt_from_pods,
        prepare: kubevirt,
    },
];

/// The hypervisor of that kind, if it is linked in.
pub fn find(kind: ProviderType) -> Option<&'static Hypervisor> {
    LINKED.iter().find(|h| h.kind == kind)
}

/// The kinds that our image serves from pods.
pub fn served() -> Vec<ProviderType> {
    let served = LINKED.iter().filter(|h| h.pods == Pods::Served);
    served.map(|h| h.kind).collect()
}

/// The kinds whose code fetches images, ours and those that others serve.
pub fn fetching() -> Vec<ProviderType> {
    let ours = LINKED
        .iter()
        .filter(|h| h.images == Images::FetchedByProvider);
    let others = [ProviderType::Firecracker];
    ours.map(|h| h.kind).chain(others).collect()
}

/// A hypervisor that asks nobody who they are has no use for a Secret, and shows no certificate.
fn needs_no_credentials(access: &Access) {
    if access.server_check == ServerCheck::Skip {
        tracing::warn!(endpoint = ?access.endpoint, "insecureSkipVerify of this Provider does nothing: its hypervisor shows no certificate");
    }
    if !access.credentials.is_empty() {
        tracing::warn!(endpoint = ?access.endpoint, "the credentials of this Provider are not used: its hypervisor asks for none");
    }
}

fn mock(access: &Access) -> Result<Open, Mistake> {
    needs_no_credentials(access);
    let config = match &access.endpoint {
        Some(url) => MockConfig::from_url(url),
        None => MockConfig::from_env(|name| access.environment.get(name)),
    };
    let config = told(config)?;
    Ok(Box::new(move || {
        let made: Arc<dyn Provider> = Mock::new(config.clone());
        Box::pin(async { Ok(made) })
    }))
}

fn check_qemu(url: &str) -> Result<(), Mistake> {
    if FleetConfig::is_fleet(url) {
        return told(FleetConfig::check(url));
    }
    told(QemuConfig::from_url(url)).map(drop)
}

/// QEMU on this machine, or on others where a provider of it serves.
fn qemu(access: &Access) -> Result<Open, Mistake> {
    let url = access.endpoint.as_deref().unwrap_or(QEMU_HOME);
    if FleetConfig::is_fleet(url) {
        return qemu_fleet(url, access);
    }
    needs_no_credentials(access);
    let config = told(QemuConfig::from_url(url))?;
    Ok(Box::new(move || {
        let config = config.clone();
        Box::pin(async move {
            let made: Arc<dyn Provider> = Qemu::open(config).await?;
            Ok(made)
        })
    }))
}

fn qemu_fleet(url: &str, access: &Access) -> Result<Open, Mistake> {
    let config = FleetConfig::from_url(url, &access.credentials, access.server_check);
    let config = config.map_err(|error| match error {
        FleetConfigError::NoCertificate(_) => Mistake::Credentials(error.to_string()),
        _ => Mistake::Endpoint(error.to_string()),
    })?;
    Ok(Box::new(move || {
        let config = config.clone();
        Box::pin(async move {
            let made: Arc<dyn Provider> = Fleet::open(config)?;
            Ok(made)
        })
    }))
}

fn libvirt(access: &Access) -> Result<Open, Mistake> {
    let url = access.endpoint.as_deref().unwrap_or(LIBVIRT_HOME);
    let secret = |(key, value): (&str, &Bytes)| (key.to_owned(), Secret::new(value.to_vec()));
    let credentials: BTreeMap<String, Secret> = access.credentials.iter().map(secret).collect();
    let config = |one: LibvirtConfig| {
        let one = one
            .with_credentials(credentials.clone())
            .with_instance(&access.instance);
        one.with_server_check(access.server_check)
    };
    let all = told(LibvirtConfig::list_from_url(url))?.into_iter();
    let all: Result<Vec<_>, _> = all.map(config).collect();
    let all = all.map_err(|error| Mistake::ServerCheck(error.to_string()))?;
    Ok(Box::new(move || {
        let all = all.clone();
        Box::pin(async move { Ok(polyvirt_provider_libvirt::open_all(all)) })
    }))
}

/// Without credentials it is the KubeVirt of the cluster that the provider runs in.
const KUBEVIRT_HERE: &str = "kubevirt://in-cluster";
/// With them, that of the cluster which they name.
const KUBEVIRT_NAMED: &str = "kubevirt://kubeconfig";

fn kubevirt_from_pods(provider: &ProviderObject) -> Result<(), Mistake> {
    let unsaid = match provider.spec.credential_secret_ref {
        None => KUBEVIRT_HERE,
        Some(_) => KUBEVIRT_NAMED,
    };
    let endpoint = provider.spec.endpoint.as_deref().unwrap_or(unsaid);
    let text = match told(KubevirtConfig::from_url(endpoint))?.place {
        Place::Address(_) => return Ok(()),
        Place::InCluster => {
            "The pods of providers have no account in the cluster. Choose mode InProcess; or make a Secret with a kubeconfig, name it in spec.credentialSecretRef, and write the address of the API server here: https://SERVER:6443"
        }
        Place::Kubeconfig => {
            "The pods of providers are let out to the host of spec.endpoint alone, and this names none. Write the address of the API server here, https://SERVER:6443; the rest is taken from the kubeconfig. Or choose mode InProcess"
        }
    };
    Err(Mistake::Endpoint(text.to_owned()))
}

fn kubevirt(access: &Access) -> Result<Open, Mistake> {
    let unsaid = if access.credentials.is_empty() {
        KUBEVIRT_HERE
    } else {
        KUBEVIRT_NAMED
    };
    let config = told(KubevirtConfig::from_url(
        access.endpoint.as_deref().unwrap_or(unsaid),
    ))?;
    let credentials = access.credentials.iter();
    let credentials = credentials.map(|(key, value)| (key.to_owned(), value.to_vec()));
    let config = config.with_credentials(&credentials.collect());
    let config = config.map_err(|error| Mistake::Credentials(error.to_string()))?;
    let config = config.with_server_check(access.server_check);
    let config = config.map_err(|error| Mistake::ServerCheck(error.to_string()))?;
    Ok(Box::new(move || {
        let config = config.clone();
        Box::pin(async move {
            let made: Arc<dyn Provider> = Kubevirt::open(config).await?;
            Ok(made)
        })
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_certificate_that_nobody_looks_at_is_possible_where_there_is_one() {
        for (kind, endpoint, allowed) in [
            (ProviderType::Libvirt, "qemu+tls://h/system", true),
            (ProviderType::Libvirt, "qemu+ssh://root@h/system", false),
            (ProviderType::Libvirt, "qemu:///system", false),
            (ProviderType::Kubevirt, "kubevirt://in-cluster", false),
        ] {
            let access = Access {
                endpoint: Some(endpoint.to_owned()),
                server_check: ServerCheck::Skip,
                ..Access::default()
            };
            let prepared = find(kind).expect("linked").prepare(&access);
            assert_eq!(prepared.is_ok(), allowed, "{endpoint}");
            let mistake = prepared.err();
            let told = mistake.is_none_or(|m| matches!(m, Mistake::ServerCheck(_)));
            assert!(told, "{endpoint}");
        }
    }

    #[test]
    fn a_pod_reaches_kubevirt_by_an_address_alone() {
        let secret = || json!({"name": "east-kubeconfig"});
        for (endpoint, secret, said) in [
            (Some("kubevirt://in-cluster"), None, "have no account"),
            (None, None, "have no account"),
            (
                Some("kubevirt://kubeconfig"),
                Some(secret()),
                "let out to the host",
            ),
            (None, Some(secret()), "let out to the host"),
            (Some("https://east.example:6443"), Some(secret()), ""),
        ] {
            let spec =
                json!({"type": "kubevirt", "endpoint": endpoint, "credentialSecretRef": secret});
            let spec = serde_json::from_value(spec).expect("a spec");
            let provider = ProviderObject::new("east", spec);
            let kubevirt = find(ProviderType::Kubevirt).expect("linked");
            let answer = kubevirt
                .check_from_pods(&provider)
                .err()
                .map(|m| m.to_string());
            let answer = answer.unwrap_or_default();
            assert!(answer.contains(said), "{endpoint:?}: {answer}");
            assert_eq!(answer.is_empty(), said.is_empty(), "{endpoint:?}: {answer}");
        }
    }
}
