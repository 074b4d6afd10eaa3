//! The hypervisors that are linked in, and how a Provider is reached. A new one is one line here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use polyvirt_api::infra::{Provider as ProviderObject, ProviderType, RuntimeMode};
use polyvirt_contract::grpc::{self, Pem, ServerCheck, Target, TlsFiles};
use polyvirt_contract::{Provider, ProviderError};
use polyvirt_engine::link::session::Connector;
use polyvirt_engine::provider::Runtime;
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::{Problem, Reason};
use polyvirt_provider_mock::{Mock, MockConfig};
use polyvirt_provider_qemu::{Qemu, QemuConfig};
use tokio::sync::OnceCell;

/// Where QEMU's VMs are if the Provider does not say.
pub const QEMU_HOME: &str = "qemu:///var/lib/polyvirt/qemu";

/// Starts the code of a hypervisor; asked once, and again if it failed.
type Open =
    Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Provider>, ProviderError>> + Send + Sync>;
type Make = fn(&ProviderObject) -> Result<Open, Problem>;

/// The hypervisors that run inside the manager.
const LINKED: &[(ProviderType, Make)] = &[(ProviderType::Mock, mock), (ProviderType::Qemu, qemu)];

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

/// Reaches providers in process or at an address.
pub struct Registry {
    client: Client,
    /// Providers in process live as long as their object: their VMs may be in memory.
    servers: Mutex<HashMap<ObjectKey, Made>>,
}

impl Registry {
    /// Secrets are read through the client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            servers: Mutex::default(),
        }
    }

    fn in_process(
        &self,
        provider: &ProviderObject,
    ) -> Result<(Arc<dyn Connector>, String), Problem> {
        let Some(make) = linked(provider.spec.type_) else {
            return Err(not_linked(provider));
        };
        let made_from = format!("{:?}", provider.spec.endpoint);
        let key = ObjectKey::of(provider);
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let there = servers
            .get(&key)
            .filter(|(from, _)| *from == made_from)
            .map(|(_, p)| p.clone());
        let server = match there {
            Some(server) => server,
            None => Arc::new(InProcess::new(make(provider)?)),
        };
        servers.insert(key, (made_from.clone(), server.clone()));
        Ok((server, made_from))
    }

    async fn external(
        &self,
        provider: &ProviderObject,
    ) -> Result<(Arc<dyn Connector>, String), Problem> {
        let Some(endpoint) = provider.spec.endpoint.as_deref() else {
            return Err(Problem::new(
                Reason::InvalidConfiguration,
                "spec.endpoint",
                "Mode External needs the address of the provider, for example grpc://host:9443",
            ));
        };
        let address = endpoint
            .trim_start_matches("grpc://")
            .trim_start_matches("tcp://");
        let (tls, version) = self.tls(provider, address).await?;
        let mut target = Target::new(address);
        target.tls = tls;
        Ok((Arc::new(External(target)), format!("{endpoint} {version}")))
    }

    /// Plain text only where the object says so.
    async fn tls(
        &self,
        provider: &ProviderObject,
        address: &str,
    ) -> Result<(Option<TlsFiles>, String), Problem> {
        let tls = provider
            .spec
            .runtime
            .as_ref()
            .and_then(|r| r.service.as_ref())
            .and_then(|s| s.tls.as_ref());
        if tls.is_some_and(|t| !t.enabled) {
            return Ok((None, "plain".to_owned()));
        }
        let secret = tls.and_then(|t| t.secret_ref.as_ref()).filter(|s| !s.name.is_empty()).ok_or_else(|| {
            let text = "Name a Secret with tls.crt, tls.key and ca.crt, or set spec.runtime.service.tls.enabled to false for plain text";
            Problem::new(Reason::InvalidConfiguration, "spec.runtime.service.tls.secretRef.name", text)
        })?;
        let check = if tls.is_some_and(|t| t.insecure_skip_verify) {
            ServerCheck::Skip
        } else {
            ServerCheck::Full
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        self.tls_files(provider, &secret.name, host, check).await
    }

    async fn tls_files(
        &self,
        provider: &ProviderObject,
        name: &str,
        host: &str,
        check: ServerCheck,
    ) -> Result<(Option<TlsFiles>, String), Problem> {
        let field = "spec.runtime.service.tls.secretRef.name";
        let problem = |text: String| Problem::new(Reason::SecretInvalid, field, text);
        let namespace = provider.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let found = api
            .get_opt(name)
            .await
            .map_err(|e| problem(format!("Secret {name} cannot be read: {e}")))?;
        let secret = found.ok_or_else(|| {
            problem(format!(
                "Secret {name} does not exist. Create it with tls.crt, tls.key and ca.crt"
            ))
        })?;
        let data = secret.data.unwrap_or_default();
        let pem = |key: &str| {
            let value = data
                .get(key)
                .ok_or_else(|| problem(format!("Secret {name} has no key {key}. Add it")))?;
            Ok::<_, Problem>(Pem::Inline(value.0.clone().into()))
        };
        let files = TlsFiles {
            ca: pem("ca.crt")?,
            cert: pem("tls.crt")?,
            key: pem("tls.key")?,
            domain_name: Some(host.to_owned()),
            check,
        };
        Ok((
            Some(files),
            secret.metadata.resource_version.unwrap_or_default(),
        ))
    }
}

fn not_linked(provider: &ProviderObject) -> Problem {
    let kind = type_word(provider.spec.type_);
    Problem::new(
        Reason::RuntimeUnsupported,
        "spec.runtime.mode",
        format!(
            "Providers of type {kind} do not run inside the manager. Run one elsewhere and set mode External with its address"
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

    async fn reach(
        &self,
        provider: &ProviderObject,
    ) -> Result<(Arc<dyn Connector>, String), Problem> {
        let mode = provider.spec.runtime.as_ref().map(|r| r.mode);
        match mode {
            None if linked(provider.spec.type_).is_some() => self.in_process(provider),
            Some(RuntimeMode::InProcess) => self.in_process(provider),
            Some(RuntimeMode::External) => self.external(provider).await,
            Some(RuntimeMode::Remote | RuntimeMode::Process) | None => Err(Problem::new(
                Reason::RuntimeUnsupported,
                "spec.runtime.mode",
                "This version runs providers InProcess or reaches them at an address (External). Choose one of these modes",
            )),
        }
    }
}

#[async_trait]
impl Runtime for Registry {
    async fn connector(
        &self,
        provider: &ProviderObject,
    ) -> Result<(Arc<dyn Connector>, String), Problem> {
        let credentials = self.credentials(provider).await?;
        let (connector, made_from) = self.reach(provider).await?;
        Ok((connector, format!("{made_from} {credentials}")))
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

struct External(Target);

#[async_trait]
impl Connector for External {
    async fn connect(&self) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(Arc::new(grpc::connect(self.0.clone())?))
    }
}
