use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{GetParams, PostParams};
use kube::core::Request;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};

use crate::assets::Assets;
use crate::error::{Component, Error};
use crate::flags::Accounts;
use crate::pki::Pki;
use crate::ports::Ports;
use crate::process::{Process, log_tail};
use crate::state::{StateDir, write_private};
use crate::{audit, flags, kubeconfig};

const PORT_ATTEMPTS: usize = 5;
const READY_TIMEOUT: Duration = Duration::from_mins(2);
const READY_POLL: Duration = Duration::from_millis(100);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
const ETCD_GRACE: Duration = Duration::from_secs(10);

/// How a control plane is started; made by [`ControlPlane::builder`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Builder {
    state_dir: Option<PathBuf>,
    assets: Option<PathBuf>,
    audit_log: Option<PathBuf>,
    apiserver_args: Vec<String>,
    accounts: Accounts,
    ready_timeout: Option<Duration>,
}

impl Builder {
    /// Keeps everything in `path`: a later start there has the same data, kubeconfig and, if they
    /// are still free, ports. Writes reach the disk.
    pub fn state_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(path.into());
        self
    }

    /// Keeps nothing: a temporary folder, no waiting for the disk. This is the default.
    pub fn ephemeral(mut self) -> Self {
        self.state_dir = None;
        self
    }

    /// Takes the programs from this folder and nowhere else.
    pub fn assets(mut self, folder: impl Into<PathBuf>) -> Self {
        self.assets = Some(folder.into());
        self
    }

    /// Has the API server write its audit log to `path`, which [`audit::read`] understands.
    pub fn audit_log(mut self, path: impl Into<PathBuf>) -> Self {
        self.audit_log = Some(path.into());
        self
    }

    /// Adds one argument of kube-apiserver, such as `--feature-gates=…`.
    pub fn apiserver_arg(mut self, argument: impl Into<String>) -> Self {
        self.apiserver_args.push(argument.into());
        self
    }

    /// Gives every pod the account of its namespace, which a controller manager must make: without one no pod can be created.
    pub fn service_accounts(mut self) -> Self {
        self.accounts = Accounts::Made;
        self
    }

    /// How long the API server may take to become ready; two minutes unless told.
    pub fn ready_timeout(mut self, timeout: Duration) -> Self {
        self.ready_timeout = Some(timeout);
        self
    }

    /// Starts etcd and the API server and returns when the API server is ready.
    pub async fn start(self) -> Result<ControlPlane, Error> {
        // Whoever installed a provider first is right: there is one per process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut plane = self.prepare().await?;
        for _ in 1..PORT_ATTEMPTS {
            match plane.launch().await {
                Err(error) if error.is_port_taken() => plane.move_to_other_ports().await?,
                outcome => return outcome.map(|()| plane),
            }
        }
        plane.launch().await?;
        Ok(plane)
    }

    async fn prepare(self) -> Result<ControlPlane, Error> {
        let assets = Assets::find(self.assets.as_deref())?;
        let state = match &self.state_dir {
            Some(path) => StateDir::persistent(path)?,
            None => StateDir::ephemeral()?,
        };
        let pki = Pki::in_folder(&state.pki())?;
        let ports = state.ports()?.map_or_else(Ports::pick, Ok)?;
        Ok(ControlPlane {
            apiserver: Mutex::default(),
            etcd: Mutex::default(),
            config: announce(&state, &pki, ports).await?,
            apiserver_args: self.extra_args(&state)?,
            accounts: self.accounts,
            ready_timeout: self.ready_timeout.unwrap_or(READY_TIMEOUT),
            assets,
            pki,
            ports,
            state,
        })
    }

    fn extra_args(&self, state: &StateDir) -> Result<Vec<String>, Error> {
        let mut args = self.apiserver_args.clone();
        if let Some(log) = &self.audit_log {
            write_private(&state.audit_policy(), audit::POLICY.as_bytes())?;
            args.extend(flags::audit(&state.audit_policy(), log));
        }
        Ok(args)
    }
}

/// Writes down where the control plane will be, and returns how to reach it.
pub(crate) async fn announce(
    state: &StateDir,
    pki: &Pki,
    ports: Ports,
) -> Result<kube::Config, Error> {
    let text = kubeconfig::text(&ports.apiserver_url(), pki)?;
    write_private(&state.kubeconfig(), text.as_bytes())?;
    state.remember_ports(ports)?;
    kubeconfig::parse(&text).await
}

/// The memory that the components occupy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rss {
    /// Bytes of etcd.
    pub etcd: u64,
    /// Bytes of the API server.
    pub apiserver: u64,
}

/// A running etcd and kube-apiserver on loopback.
///
/// They end with this value, and with this process however it ends.
#[derive(Debug)]
pub struct ControlPlane {
    // In the order in which they must go: the folder last.
    apiserver: Mutex<Option<Process>>,
    etcd: Mutex<Option<Process>>,
    assets: Assets,
    pki: Pki,
    ports: Ports,
    config: kube::Config,
    apiserver_args: Vec<String>,
    accounts: Accounts,
    ready_timeout: Duration,
    state: StateDir,
}

impl ControlPlane {
    /// A control plane that keeps nothing, until told otherwise.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A new client of the administrator. It belongs to the current runtime: one that is kept in a
    /// static stops working when the test that made it ends.
    pub fn client(&self) -> Result<Client, Error> {
        Ok(Client::try_from(self.config.clone())?)
    }

    /// A new client that the API server takes for `user`, to try what its roles permit.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client, Error> {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        config.auth_info.impersonate_groups = Some(groups);
        Ok(Client::try_from(config)?)
    }

    /// The client settings of the administrator.
    pub fn config(&self) -> kube::Config {
        self.config.clone()
    }

    /// A kubeconfig of the administrator that only the owner can read and that needs no other file.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.state.kubeconfig()
    }

    /// The address of the API server.
    pub fn url(&self) -> String {
        self.ports.apiserver_url()
    }

    /// The folder with the data, the certificates and the logs.
    pub fn state_path(&self) -> &Path {
        self.state.root()
    }

    /// The log of one component.
    pub fn log_path(&self, component: Component) -> PathBuf {
        self.state.log(component)
    }

    /// The memory that both components occupy now.
    pub fn rss(&self) -> Result<Rss, Error> {
        let of = |slot, component| match &*held(slot) {
            Some(process) => process.rss_bytes(),
            None => Err(Error::NotRunning { component }),
        };
        Ok(Rss {
            etcd: of(&self.etcd, Component::Etcd)?,
            apiserver: of(&self.apiserver, Component::ApiServer)?,
        })
    }

    /// Kills the API server as a crash would; etcd and its data stay.
    pub fn kill_apiserver(&self) -> Result<(), Error> {
        match held(&self.apiserver).take() {
            Some(mut process) => process.kill(),
            None => Ok(()),
        }
    }

    /// Removes one object from etcd behind the API server's back, whatever finalizers are on it. `place` is where it is kept:
    /// group, plural, namespace and name with slashes between them.
    pub async fn erase(&self, place: &str) -> Result<(), Error> {
        let text = kubeconfig::of_the_store(&self.ports.etcd_url(), &self.pki)?;
        let client = Client::try_from(kubeconfig::parse(&text).await?)?;
        let key = ByteString(format!("/registry/{place}").into_bytes());
        let body = serde_json::json!({ "key": key }).to_string().into_bytes();
        let request = Request::new("/v3/kv/deleterange").create(&PostParams::default(), body);
        let answer: serde_json::Value = client
            .request(request.map_err(kube::Error::BuildRequest)?)
            .await?;
        match answer["deleted"].as_str() {
            Some("1") => Ok(()),
            _ => Err(Error::NotStored {
                place: place.to_owned(),
            }),
        }
    }

    /// Kills the API server if it runs, starts it on the same port and data, and waits until it is
    /// ready.
    pub async fn restart_apiserver(&self) -> Result<(), Error> {
        self.kill_apiserver()?;
        self.start_apiserver()?;
        self.until_ready().await
    }

    /// Ends both components in order, and removes the folder if it is a temporary one.
    pub async fn stop(self) -> Result<(), Error> {
        self.kill_apiserver()?;
        // Taken out first: a lock must not be held while waiting.
        let etcd = held(&self.etcd).take();
        match etcd {
            Some(mut process) if !self.state.is_ephemeral() => process.terminate(ETCD_GRACE).await,
            _ => Ok(()),
        }
    }

    async fn launch(&self) -> Result<(), Error> {
        self.state.clear_logs()?;
        self.start_etcd()?;
        self.start_apiserver()?;
        self.until_ready().await
    }

    async fn move_to_other_ports(&mut self) -> Result<(), Error> {
        held(&self.apiserver).take();
        held(&self.etcd).take();
        let taken = std::mem::replace(&mut self.ports, Ports::pick()?);
        tracing::warn!(?taken, now = ?self.ports, "a port is taken: moving");
        self.config = announce(&self.state, &self.pki, self.ports).await?;
        Ok(())
    }

    fn start_etcd(&self) -> Result<(), Error> {
        let arguments = flags::etcd(&self.state, &self.pki, self.ports);
        *held(&self.etcd) = Some(self.start(Component::Etcd, &arguments)?);
        Ok(())
    }

    fn start_apiserver(&self) -> Result<(), Error> {
        let mut arguments = flags::apiserver(&self.pki, self.ports, self.accounts);
        arguments.extend_from_slice(&self.apiserver_args);
        *held(&self.apiserver) = Some(self.start(Component::ApiServer, &arguments)?);
        Ok(())
    }

    fn start(&self, component: Component, arguments: &[String]) -> Result<Process, Error> {
        let program = self.assets.program(component);
        Process::start(component, &program, arguments, &self.state.log(component))
    }

    async fn until_ready(&self) -> Result<(), Error> {
        let started = Instant::now();
        let client = probing_client(&self.config)?;
        loop {
            self.check_alive()?;
            let Err(reason) = probe(&client).await else {
                return Ok(());
            };
            if started.elapsed() > self.ready_timeout {
                return Err(self.not_ready(started.elapsed(), reason));
            }
            sleep(READY_POLL).await;
        }
    }

    fn check_alive(&self) -> Result<(), Error> {
        // etcd first: without it the API server ends too, which is not the reason.
        for slot in [&self.etcd, &self.apiserver] {
            if let Some(process) = &mut *held(slot) {
                process.check_alive()?;
            }
        }
        Ok(())
    }

    fn not_ready(&self, waited: Duration, reason: String) -> Error {
        let log = self.state.log(Component::ApiServer);
        Error::NotReady {
            waited,
            reason,
            log_tail: log_tail(&log),
            log,
        }
    }
}

/// A client that says at once what it sees.
pub(crate) fn probing_client(config: &kube::Config) -> Result<Client, Error> {
    let mut config = config.clone();
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Fails with the reason why the API server cannot be used yet.
pub async fn probe(client: &Client) -> Result<(), String> {
    let ready = async {
        let request = Request::new("").get("readyz", &GetParams::default());
        client
            .clone()
            .request_text(request.map_err(kube::Error::BuildRequest)?)
            .await?;
        // Made by a controller that /readyz does not wait for, and everybody's first namespace.
        Api::<Namespace>::all(client.clone()).get("default").await
    };
    match timeout(PROBE_TIMEOUT, ready).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer".to_owned()),
    }
}

fn held(slot: &Mutex<Option<Process>>) -> MutexGuard<'_, Option<Process>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
