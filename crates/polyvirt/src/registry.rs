//! How a Provider is reached, wherever its object says that its code runs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;
use kube::Client;
use polyvirt_api::infra::{Provider as ProviderObject, RuntimeMode};
use polyvirt_contract::{Credentials, Provider, ProviderError};
use polyvirt_engine::link::session::Connector;
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_engine::provider::{NoWay, Place, Runtime, Way};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_pki::Keeper;
use polyvirt_plan::{Problem, Reason};
use polyvirt_runtimes::process::Processes;
use polyvirt_runtimes::{External, Remote, Settings, credentials};
use tokio::sync::OnceCell;

use crate::cli::RemoteProviders;
use crate::hypervisors::{self, Access, Mistake, Open};

fn problem(mistake: Mistake) -> Problem {
    match mistake {
        Mistake::Endpoint(text) => {
            Problem::new(Reason::InvalidConfiguration, "spec.endpoint", text)
        }
        Mistake::Credentials(text) => {
            Problem::new(Reason::SecretInvalid, "spec.credentialSecretRef", text)
        }
        Mistake::ServerCheck(text) => Problem::new(
            Reason::InvalidConfiguration,
            "spec.insecureSkipVerify",
            text,
        ),
    }
}

fn access(provider: &ProviderObject, credentials: Credentials) -> Access {
    Access {
        endpoint: provider.spec.endpoint.clone(),
        credentials,
        instance: provider.metadata.uid.clone().unwrap_or_default(),
        server_check: hypervisors::server_check(provider.spec.insecure_skip_verify),
        ..Access::default()
    }
}

/// Whether a provider can run where its object says, as far as that is known without pods.
pub fn can_run(provider: &ProviderObject, remote: RemoteProviders) -> Result<(), Problem> {
    let runtime = provider.spec.runtime.as_ref();
    let has_image = runtime.is_some_and(|runtime| runtime.image.is_some());
    let linked = hypervisors::find(provider.spec.type_).is_some();
    match (mode(provider), remote) {
        (RuntimeMode::InProcess, _) => can_run_inside(provider),
        (RuntimeMode::External, _) => Ok(()),
        (RuntimeMode::Remote, RemoteProviders::Pods) if has_image || linked => Ok(()),
        (RuntimeMode::Process | RuntimeMode::Remote, _) if linked => Ok(()),
        (RuntimeMode::Process | RuntimeMode::Remote, _) => Err(not_linked(provider, remote)),
    }
}

/// Whether a provider can run inside the manager as its object describes it.
fn can_run_inside(provider: &ProviderObject) -> Result<(), Problem> {
    let linked = hypervisors::find(provider.spec.type_)
        .ok_or_else(|| not_linked(provider, RemoteProviders::Pods))?;
    let checked = linked.check(provider.spec.endpoint.as_deref());
    checked.map_err(problem)
}

/// Whether pods of our image can reach the hypervisor as its object describes it. What others put into their images is theirs.
fn can_run_in_pods(provider: &ProviderObject) -> Result<(), Problem> {
    let runtime = provider.spec.runtime.as_ref();
    let foreign = runtime.is_some_and(|runtime| runtime.image.is_some());
    let linked = hypervisors::find(provider.spec.type_).filter(|_| !foreign);
    linked.map_or(Ok(()), |linked| {
        linked.check_from_pods(provider).map_err(problem)
    })
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
    /// Secrets are read and pods are made through the client, their certificates are signed by the keeper's authority; child
    /// processes are this program.
    pub fn new(
        client: Client,
        settings: Settings,
        keeper: Arc<Keeper>,
        program: PathBuf,
        remote_providers: RemoteProviders,
    ) -> Self {
        Self {
            remote_providers,
            external: External::new(client.clone()),
            remote: Remote::new(client.clone(), settings, keeper),
            processes: Processes::new(client.clone(), program),
            client,
            servers: Mutex::default(),
        }
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<ObjectKey, Made>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn in_process(&self, provider: &ProviderObject) -> Result<Way, NoWay> {
        let Some(linked) = hypervisors::find(provider.spec.type_) else {
            return Err(not_linked(provider, self.remote_providers).into());
        };
        let credentials = credentials::read(&self.client, provider).await?;
        let made_from = format!(
            "{:?} {} {}",
            provider.spec.endpoint,
            provider.spec.insecure_skip_verify,
            credentials::mark(&credentials)
        );
        let key = ObjectKey::of(provider);
        if let Some(server) = self.made(&key, &made_from) {
            return Ok(inside(server, made_from));
        }
        let open = linked.prepare(&access(provider, credentials));
        let server = Arc::new(InProcess::new(open.map_err(problem)?));
        self.servers()
            .insert(key, (made_from.clone(), server.clone()));
        Ok(inside(server, made_from))
    }

    fn made(&self, key: &ObjectKey, made_from: &str) -> Option<Arc<InProcess>> {
        let servers = self.servers();
        let (from, server) = servers.get(key)?;
        (from == made_from).then(|| server.clone())
    }
}

fn inside(server: Arc<InProcess>, made_from: String) -> Way {
    Way {
        connector: server,
        made_from,
        place: Place {
            mode: Some(RuntimeMode::InProcess),
            ..Place::default()
        },
    }
}

/// What to do depends on whether this manager runs pods.
fn not_linked(provider: &ProviderObject, remote: RemoteProviders) -> Problem {
    let kind = type_word(provider.spec.type_);
    let remedy = match remote {
        RemoteProviders::Pods => {
            "Run one in pods (mode Remote, with its image in spec.runtime.image) or elsewhere (mode External, with its address)"
        }
        RemoteProviders::Processes => {
            "This manager runs no pods (polyvirt up). Run one elsewhere (mode External, with its address), or run the manager in a cluster"
        }
    };
    let text = format!("Providers of type {kind} are not part of this program. {remedy}");
    Problem::new(Reason::RuntimeUnsupported, "spec.runtime.mode", text)
}

impl Registry {
    async fn reach(&self, provider: &ProviderObject) -> Result<Way, NoWay> {
        let mode = match (mode(provider), self.remote_providers) {
            (RuntimeMode::Remote, RemoteProviders::Processes) => RuntimeMode::Process,
            (mode, _) => mode,
        };
        self.leave_others(provider, mode).await?;
        match mode {
            RuntimeMode::InProcess => self.in_process(provider).await,
            RuntimeMode::External => self.external.way(provider).await,
            RuntimeMode::Process => self.process(provider).await,
            RuntimeMode::Remote => {
                can_run_in_pods(provider)?;
                self.remote.way(provider).await
            }
        }
    }

    async fn process(&self, provider: &ProviderObject) -> Result<Way, NoWay> {
        match hypervisors::find(provider.spec.type_) {
            Some(_) => self.processes.way(provider).await,
            None => Err(not_linked(provider, self.remote_providers).into()),
        }
    }

    /// What a Provider had where it no longer is to run goes first, so that two never work side by side.
    async fn leave_others(
        &self,
        provider: &ProviderObject,
        mode: RuntimeMode,
    ) -> Result<(), NoWay> {
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
    let unsaid = match hypervisors::find(provider.spec.type_) {
        Some(_) => RuntimeMode::InProcess,
        None => RuntimeMode::Remote,
    };
    said.unwrap_or(unsaid)
}

#[async_trait]
impl Runtime for Registry {
    async fn way(&self, provider: &ProviderObject) -> Result<Way, NoWay> {
        self.reach(provider).await
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

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(kind: &str, runtime: &serde_json::Value) -> ProviderObject {
        let object = serde_json::json!({
            "metadata": {"name": "p", "namespace": "team"},
            "spec": {"type": kind, "endpoint": "https://h", "runtime": runtime},
        });
        serde_json::from_value(object).expect("a Provider")
    }

    /// The advice must not be what the user has done already.
    #[test]
    fn a_type_that_is_not_linked_is_answered_with_what_this_manager_can_do() {
        let remote = serde_json::json!({"mode": "Remote"});
        let image = serde_json::json!({"mode": "Remote", "image": "example.com/p:v1"});
        let bare = provider("vsphere", &remote);
        let in_pods = can_run(&bare, RemoteProviders::Pods).expect_err("no image");
        assert!(in_pods.message.contains("spec.runtime.image"), "{in_pods}");
        let named = provider("vsphere", &image);
        assert!(can_run(&named, RemoteProviders::Pods).is_ok());
        let no_pods = can_run(&named, RemoteProviders::Processes).expect_err("no pods");
        let words = "This manager runs no pods (polyvirt up)";
        assert!(no_pods.message.contains(words), "{no_pods}");
        assert_eq!(no_pods.reason, Reason::RuntimeUnsupported);
        let external = serde_json::json!({"mode": "External"});
        assert!(can_run(&provider("vsphere", &external), RemoteProviders::Processes).is_ok());
        assert!(can_run(&provider("mock", &remote), RemoteProviders::Processes).is_ok());
    }
}
