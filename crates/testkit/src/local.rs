//! The control plane that stays: the same programs as in [`ControlPlane`](crate::ControlPlane), detached.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep};

use crate::assets::Assets;
use crate::control_plane::{announce, probe, probing_client};
use crate::detached::{Detached, Service, Started, ensure};
use crate::error::{Component, Error};
use crate::flags::{self, Accounts};
use crate::pki::Pki;
use crate::ports::Ports;
use crate::proc::listener_on;
use crate::process::log_tail;
use crate::state::StateDir;

const READY_TIMEOUT: Duration = Duration::from_mins(2);
const READY_POLL: Duration = Duration::from_millis(100);
/// How long a component may take to end before it is killed.
pub const GRACE: Duration = Duration::from_secs(15);

/// Where a control plane that stays listens on loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedPorts {
    /// The store.
    pub etcd: u16,
    /// The API server.
    pub apiserver: u16,
}

/// An etcd and a kube-apiserver that outlive this process. While this value lives, no other process starts or stops them.
#[derive(Debug)]
pub struct LocalPlane {
    state: StateDir,
    assets: Assets,
    pki: Pki,
    ports: Ports,
    config: kube::Config,
}

impl LocalPlane {
    /// Opens the folder, makes certificates and kubeconfig at first use, and starts nothing.
    pub async fn open(folder: &Path, ports: FixedPorts) -> Result<Self, Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let assets = Assets::find(None)?;
        let state = StateDir::persistent(folder)?;
        let pki = Pki::in_folder(&state.pki())?;
        let ports = Ports {
            etcd: ports.etcd,
            apiserver: ports.apiserver,
        };
        let config = announce(&state, &pki, ports).await?;
        Ok(Self {
            state,
            assets,
            pki,
            ports,
            config,
        })
    }

    /// The folder, as an absolute path.
    pub fn folder(&self) -> &Path {
        self.state.root()
    }

    /// A kubeconfig of the administrator that only the owner can read and that needs no other file.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.state.kubeconfig()
    }

    /// The address of the API server.
    pub fn url(&self) -> String {
        self.ports.apiserver_url()
    }

    /// A client of the administrator.
    pub fn client(&self) -> Result<Client, Error> {
        Ok(Client::try_from(self.config.clone())?)
    }

    /// Sees to it that etcd runs.
    pub async fn start_etcd(&self) -> Result<(Detached, Started), Error> {
        let arguments = flags::etcd(&self.state, &self.pki, self.ports);
        self.run(Component::Etcd, arguments, self.ports.etcd).await
    }

    /// Sees to it that the API server runs, and returns when it is ready.
    pub async fn start_apiserver(&self) -> Result<(Detached, Started), Error> {
        let arguments = flags::apiserver(&self.pki, self.ports, Accounts::Missing);
        let port = self.ports.apiserver;
        let (mut process, started) = self.run(Component::ApiServer, arguments, port).await?;
        self.until_ready(&mut process).await?;
        Ok((process, started))
    }

    async fn run(
        &self,
        component: Component,
        arguments: Vec<String>,
        port: u16,
    ) -> Result<(Detached, Started), Error> {
        let service = Service {
            name: component.name().to_owned(),
            program: self.assets.program(component),
            arguments,
            variables: Vec::new(),
        };
        claim_port(self.folder(), &service, port)?;
        ensure(self.folder(), &service, GRACE).await
    }

    async fn until_ready(&self, process: &mut Detached) -> Result<(), Error> {
        let started = Instant::now();
        let client = probing_client(&self.config)?;
        loop {
            process.check_alive()?;
            let Err(reason) = probe(&client).await else {
                return Ok(());
            };
            if started.elapsed() > READY_TIMEOUT {
                let log = process.log();
                return Err(Error::NotReady {
                    waited: started.elapsed(),
                    reason,
                    log_tail: log_tail(&log),
                    log,
                });
            }
            sleep(READY_POLL).await;
        }
    }
}

/// Fails if somebody else than the service itself listens on the port that it is going to use.
pub fn claim_port(folder: &Path, service: &Service, port: u16) -> Result<(), Error> {
    if Detached::find(folder, &service.name)?.is_some() {
        return Ok(());
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map(drop)
        .map_err(|source| Error::PortTaken {
            name: service.name.clone(),
            port,
            holder: holder(port),
            source,
        })
}

fn holder(port: u16) -> String {
    listener_on(port).map_or_else(
        || "a process that we may not see".to_owned(),
        |found| found.to_string(),
    )
}

/// Keeps others from starting or stopping what runs in a folder, as long as it lives.
#[derive(Debug)]
pub struct FolderLock(StateDir);

impl FolderLock {
    /// Fails if another process works on the folder.
    pub fn take(folder: &Path) -> Result<Self, Error> {
        StateDir::persistent(folder).map(Self)
    }

    /// The folder, as an absolute path.
    pub fn folder(&self) -> &Path {
        self.0.root()
    }
}
