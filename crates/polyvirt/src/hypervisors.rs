//! The hypervisors that are linked in. A new one is one entry of the table here.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use polyvirt_api::infra::ProviderType;
use polyvirt_contract::grpc::ServerCheck;
use polyvirt_contract::{Credentials, Provider, ProviderError};
use polyvirt_provider_kubevirt::{Kubevirt, KubevirtConfig};
use polyvirt_provider_libvirt::{LibvirtConfig, Secret};
use polyvirt_provider_mock::{Mock, MockConfig};
use polyvirt_provider_qemu::{Qemu, QemuConfig};

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
    prepare: fn(&Access) -> Result<Open, Mistake>,
}

impl Hypervisor {
    /// Says what is wrong with an endpoint, without going there.
    pub fn check(&self, endpoint: Option<&str>) -> Result<(), Mistake> {
        endpoint.map_or(Ok(()), self.check)
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
        prepare: mock,
    },
    Hypervisor {
        kind: ProviderType::Qemu,
        pods: Pods::Pointless,
        images: Images::FetchedByProvider,
        check: |url| told(QemuConfig::from_url(url)).map(drop),
        prepare: qemu,
    },
    Hypervisor {
        kind: ProviderType::Libvirt,
        pods: Pods::Served,
        images: Images::FetchedByProvider,
        check: |url| told(LibvirtConfig::list_from_url(url)).map(drop),
        prepare: libvirt,
    },
    Hypervisor {
        kind: ProviderType::Kubevirt,
        pods: Pods::Served,
        images: Images::Elsewhere,
        check: |url| told(KubevirtConfig::from_url(url)).map(drop),
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

fn qemu(access: &Access) -> Result<Open, Mistake> {
    needs_no_credentials(access);
    let url = access.endpoint.as_deref().unwrap_or(QEMU_HOME);
    let config = told(QemuConfig::from_url(url))?;
    Ok(Box::new(move || {
        let config = config.clone();
        Box::pin(async move {
            let made: Arc<dyn Provider> = Qemu::open(config).await?;
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
fn kubevirt(access: &Access) -> Result<Open, Mistake> {
    let unsaid = if access.credentials.is_empty() {
        "kubevirt://in-cluster"
    } else {
        "kubevirt://kubeconfig"
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
}
