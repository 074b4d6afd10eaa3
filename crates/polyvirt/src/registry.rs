//! The hypervisors that are linked in, and how a Provider is reached. A new one is one line here.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use polyvirt_api::infra::{Provider as ProviderObject, ProviderType, RuntimeMode};
use polyvirt_contract::{Provider, ProviderError};
use polyvirt_engine::link::session::Connector;
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_engine::provider::{Place, Runtime, Way};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::{Problem, Reason};
use polyvirt_provider_kubevirt::{Kubevirt, KubevirtConfig};
use polyvirt_provider_mock::{Mock, MockConfig};
use polyvirt_provider_qemu::{Qemu, QemuConfig};
use polyvirt_runtimes::process::Processes;
use polyvirt_runtimes::{External, Remote, Settings};
use tokio::sync::OnceCell;

use crate::cli::RemoteProviders;

/// Where QEMU's VMs are if the Provider does not say.
pub const QEMU_HOME: &str = "qemu:///var/lib/polyvirt/qemu";

/// Where KubeVirt is if the Provider does not say.
pub const OWN_CLUSTER: &str = "kubevirt://in-cluster";

/// Starts the code of a hypervisor; asked once, and again if it failed.
type Open =
    Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Provider>, ProviderError>> + Send + Sync>;
type Make = fn(&ProviderObject) -> Result<Open, Problem>;

/// The hypervisors that run inside the manager.
const LINKED: &[(ProviderType, Make)] = &[
    (ProviderType::Mock, mock),
    (ProviderType::Qemu, qemu),
    (ProviderType::Kubevirt, kubevirt),
];

fn mock(provider: &ProviderObject) -> Result<Open, Problem> {
    let url = provider.spec.endpoint.as_deref().unwrap_or("mock://memory");
    let config = MockConfig::from_url(url).map_err(bad_endpoint)?;
    Ok(Box::new(move || {
        let made: Arc<dyn Provider> = Mock::new(config.clone());
        Box::pin(async { Ok(made) })
    }))
}

fn qemu(provider: &ProviderObject) -> Result<Open, Problem> {
    let url = provider.spec.endpoint.as_deref();
    let config = QemuConfig::from_url(url.unwrap_or(QEMU_HOME)).map_err(bad_endpoint)?;
    Ok(Box::new(move || {
        let config = config.clone();
        Box::pin(async move {
            let made: Arc<dyn Provider> = Qemu::open(config).await?;
            Ok(made)
        })
    }))
}

/// Until the registry hands credentials on, a provider in process reaches the cluster that it runs in.
fn kubevirt(provider: &ProviderObject) -> Result<Open, Problem> {
    let url = provider.spec.endpoint.as_deref();
    let config = KubevirtConfig::from_url(url.unwrap_or(OWN_CLUSTER))
        .and_then(|config| config.with_credentials(&BTreeMap::new()))
        .map_err(bad_endpoint)?;
    Ok(Box::new(move || {
        let config = config.clone();
        Box::pin(async move {
            let made: Arc<dyn Provider> = Kubevirt::open(config).await?;
            Ok(made)
        })
    }))
}

fn bad_endpoint(error: impl std::fmt::Display) -> Problem {
    let text = error.to_string();
    Problem::new(Reason::InvalidConfiguration, "spec.endpoint", text)
}

fn linked(kind: ProviderType) -> Option<Make> {
    LINKED
        .iter()
        .find(|(k, _)| *k == kind)
        .map(|(_, make)| *make)
}

/// Whether a provider can run inside the manager as its object describes it.
pub fn can_run_inside(provider: &ProviderObject) -> Result<(), Problem> {
    let make = linked(provider.spec.type_).ok_or_else(|| not_linked(provider))?;
    make(provider).map(drop)
}

/// What a provider in process was made from, and the provider.
type Made = (String, Arc<InProcess>);

/// Reaches providers wherever their objects say that they run.
pub struct Registry {
    client: Client,
    external: External,
    remote: Remote,
    processes: Processes,
    remote_providers: RemoteProviders,
    /// Providers in process live as long as their object: their VMs may be in memory.
    servers: Mutex<HashMap<ObjectKey, Made>>,
}

impl Registry {
    /// Secrets are read and pods are made through the client; child processes are this program.
    pub fn new(
        client: Client,
        settings: Settings,
        program: PathBuf,
        remote_providers: RemoteProviders,
    ) -> Self {
        Self {
            remote_providers,
            external: External::new(client.clone()),
            remote: Remote::new(client.clone(), settings),
            processes: Processes::new(program),
            client,
            servers: Mutex::default(),
        }
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<ObjectKey, Made>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_process(&self, provider: &ProviderObject) -> Result<Way, Problem> {
        let Some(make) = linked(provider.spec.type_) else {
            return Err(not_linked(provider));
        };
        let made_from = format!("{:?}", provider.spec.endpoint);
        let key = ObjectKey::of(provider);
        let mut servers = self.servers();
        let there = servers
            .get(&key)
            .filter(|(from, _)| *from == made_from)
            .map(|(_, p)| p.clone());
        let server = match there {
            Some(server) => server,
            None => Arc::new(InProcess::new(make(provider)?)),
        };
        servers.insert(key, (made_from.clone(), server.clone()));
        Ok(Way {
            connector: server,
            made_from,
            place: Place {
                mode: Some(RuntimeMode::InProcess),
                ..Place::default()
            },
        })
    }
}

fn not_linked(provider: &ProviderObject) -> Problem {
    let kind = type_word(provider.spec.type_);
    Problem::new(
        Reason::RuntimeUnsupported,
        "spec.runtime.mode",
        format!(
            "Providers of type {kind} are not part of this program. Run one in pods (mode Remote, with its image) or elsewhere (mode External, with its address)"
        ),
    )
}

impl Registry {
    /// The version of the credentials, so that new ones make a new session. Their keys are the provider's business.
    async fn credentials(&self, provider: &ProviderObject) -> Result<String, Problem> {
        let Some(wanted) = &provider.spec.credential_secret_ref else {
            return Ok(String::new());
        };
        let own = provider.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Secret> = Api::namespaced(self.client.clone(), wanted.namespace_or(own));
        let problem = |text: String| {
            Problem::new(Reason::SecretInvalid, "spec.credentialSecretRef.name", text)
        };
        let found = api.get_metadata_opt(&wanted.name).await;
        let found =
            found.map_err(|e| problem(format!("Secret {} cannot be read: {e}", wanted.name)))?;
        let secret = found
            .ok_or_else(|| problem(format!("Secret {} does not exist. Create it", wanted.name)))?;
        Ok(secret.metadata.resource_version.unwrap_or_default())
    }

    async fn reach(&self, provider: &ProviderObject) -> Result<Way, Problem> {
        let mode = match (mode(provider), self.remote_providers) {
            (RuntimeMode::Remote, RemoteProviders::Processes) => RuntimeMode::Process,
            (mode, _) => mode,
        };
        self.leave_others(provider, mode).await?;
        match mode {
            RuntimeMode::InProcess => self.in_process(provider),
            RuntimeMode::External => self.external.way(provider).await,
            RuntimeMode::Process => self.process(provider).await,
            RuntimeMode::Remote => self.remote.way(provider).await,
        }
    }

    async fn process(&self, provider: &ProviderObject) -> Result<Way, Problem> {
        match linked(provider.spec.type_) {
            Some(_) => self.processes.way(provider).await,
            None => Err(not_linked(provider)),
        }
    }

    /// What a Provider had where it no longer is to run goes first, so that two never work side by side.
    async fn leave_others(
        &self,
        provider: &ProviderObject,
        mode: RuntimeMode,
    ) -> Result<(), Problem> {
        let key = ObjectKey::of(provider);
        if mode != RuntimeMode::Process {
            self.processes.end(&key);
        }
        if mode != RuntimeMode::InProcess {
            self.servers().remove(&key);
        }
        let status = provider.status.as_ref().and_then(|s| s.runtime.as_ref());
        let was_remote = status.and_then(|r| r.mode) == Some(RuntimeMode::Remote);
        if mode != RuntimeMode::Remote && was_remote {
            self.remote.remove(provider).await?;
        }
        Ok(())
    }
}

/// Where the Provider's code is to run. One that does not say, and is linked in, needs no pod.
fn mode(provider: &ProviderObject) -> RuntimeMode {
    let said = provider.spec.runtime.as_ref().map(|r| r.mode);
    let unsaid = match linked(provider.spec.type_) {
        Some(_) => RuntimeMode::InProcess,
        None => RuntimeMode::Remote,
    };
    said.unwrap_or(unsaid)
}

#[async_trait]
impl Runtime for Registry {
    async fn way(&self, provider: &ProviderObject) -> Result<Way, Problem> {
        let credentials = self.credentials(provider).await?;
        let mut way = self.reach(provider).await?;
        way.made_from = format!("{} {credentials}", way.made_from);
        Ok(way)
    }

    async fn forget(&self, provider: &ObjectKey) {
        self.processes.end(provider);
        self.remote.forget(provider);
        self.servers().remove(provider);
    }

    fn news(&self) -> BoxStream<'static, ObjectKey> {
        self.remote.news()
    }
}

/// A provider in this process, started at the first connection.
struct InProcess {
    open: Open,
    opened: OnceCell<Arc<dyn Provider>>,
}

impl InProcess {
    fn new(open: Open) -> Self {
        Self {
            open,
            opened: OnceCell::new(),
        }
    }
}

#[async_trait]
impl Connector for InProcess {
    async fn connect(&self) -> Result<Arc<dyn Provider>, ProviderError> {
        let opened = self.opened.get_or_try_init(|| (self.open)()).await?;
        Ok(opened.clone())
    }
}
