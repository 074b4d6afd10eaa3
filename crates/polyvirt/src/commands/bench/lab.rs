//! A real control plane, a mock provider behind gRPC in this process, and the manager as another one.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Client, Resource};
use polyvirt_api::infra::VirtualMachine;
use polyvirt_contract::VmId;
use polyvirt_contract::grpc::{self, Listen, ServeOptions};
use polyvirt_provider_mock::{Mock, MockConfig};
use polyvirt_testkit::{ControlPlane, install_crds};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::manager::Manager;
use super::objects::{self, FIRST_VM, NAMESPACE, SCRATCH};
use super::screen::Screen;
use super::writes::Ledger;

/// Creates of the bench in flight: as many as the manager's passes, so that it is never the one that waits.
pub const CREATES_AT_ONCE: usize = 32;
const FIRST_VM_LIMIT: Duration = Duration::from_secs(60);
const SETTLE_LIMIT: Duration = Duration::from_secs(300);
const SAMPLE: Duration = Duration::from_millis(500);

/// Everything that is measured, and what it is measured with.
pub struct Lab {
    // Dropped first: the manager would complain about an API server that went away.
    pub manager: Manager,
    pub client: Client,
    pub mock: Arc<Mock>,
    pub screen: Screen,
    pub ledger: Ledger,
    plane: ControlPlane,
    folder: tempfile::TempDir,
}

impl Lab {
    /// Starts everything, and one VM so that the image is prepared.
    pub async fn start(config: MockConfig) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("Cannot make a temporary folder")?;
        let audit_log = folder.path().join("audit.log");
        tracing::info!("starting etcd and kube-apiserver");
        let plane = ControlPlane::builder()
            .audit_log(&audit_log)
            .start()
            .await?;
        let client = client(&plane)?;
        install_crds(&client, &polyvirt_api::crds()).await?;
        let (mock, address) = serve_mock(config).await?;
        let surroundings = objects::surroundings(&address.to_string());
        declare(&client, &[NAMESPACE, SCRATCH], surroundings).await?;
        let manager = start_manager(&plane, folder.path().join("manager.log")).await?;
        let screen = Screen::open(client.clone(), NAMESPACE);
        let mut lab = Self {
            manager,
            client,
            mock,
            screen,
            ledger: Ledger::new(audit_log),
            plane,
            folder,
        };
        lab.warm_up().await?;
        Ok(lab)
    }

    async fn warm_up(&mut self) -> anyhow::Result<()> {
        create(&self.vms(), &objects::vm(NAMESPACE, FIRST_VM)).await?;
        let ready = self
            .screen
            .until("the first VM is ready", FIRST_VM_LIMIT, |p| {
                p.vm(FIRST_VM).ready
            })
            .await;
        ready.with_context(|| {
            format!(
                "The log of the manager ends with:\n{}",
                self.manager.process.last_words()
            )
        })?;
        self.settle(Duration::from_secs(4)).await
    }

    /// The VirtualMachines that the manager looks after.
    pub fn vms(&self) -> Api<VirtualMachine> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// A client of its own, with connections of its own.
    pub fn another_client(&self) -> anyhow::Result<Client> {
        client(&self.plane)
    }

    /// Declares the VMs of these numbers, many at once.
    pub async fn create_vms(&self, numbers: Range<usize>) -> anyhow::Result<()> {
        let api = &self.vms();
        let creates = stream::iter(numbers).map(|number| async move {
            create(api, &objects::vm(NAMESPACE, &objects::vm_name(number)))
                .await
                .map(drop)
        });
        creates
            .buffer_unordered(CREATES_AT_ONCE)
            .try_collect()
            .await
    }

    /// Edits the spec of a VM as a person would.
    pub async fn edit(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.vms()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("Cannot edit {name}"))?;
        Ok(())
    }

    /// The provider's ids of all VMs, by name.
    pub fn vm_ids(&self) -> HashMap<String, VmId> {
        let owned = self
            .mock
            .vms()
            .into_iter()
            .filter_map(|vm| Some((vm.owner?.name, vm.id)));
        owned.collect()
    }

    /// Returns when no pass, no call to the provider and no write has been seen for the time.
    pub async fn settle(&mut self, quiet: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        let start = self.ledger.mark()?;
        let mut written = None;
        while begin.elapsed() < SETTLE_LIMIT {
            self.until_idle(quiet).await?;
            let now = self.ledger.since(start)?.total();
            if written == Some(now) {
                return Ok(());
            }
            written = Some(now);
        }
        anyhow::bail!(
            "The manager does not come to rest within {} s; its log says why",
            SETTLE_LIMIT.as_secs()
        )
    }

    async fn until_idle(&mut self, quiet: Duration) -> anyhow::Result<()> {
        let mut last = None;
        let mut since = Instant::now();
        while since.elapsed() < quiet {
            sleep(SAMPLE.min(quiet)).await;
            let now = Some((self.manager.activity().await?, self.mock.counts().calls()));
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Kills the manager and starts another one.
    pub async fn restart_manager(&mut self) -> anyhow::Result<()> {
        self.manager.process.kill().await?;
        self.manager = start_manager(&self.plane, self.folder.path().join("manager-2.log")).await?;
        Ok(())
    }
}

/// A client that the audit log knows as the bench.
pub fn client(plane: &ControlPlane) -> anyhow::Result<Client> {
    let mut config = plane.config();
    let agent = format!("polyvirt-bench/{}", env!("CARGO_PKG_VERSION"));
    config.headers.push((
        axum::http::header::USER_AGENT,
        agent.parse().context("Not a header")?,
    ));
    Ok(Client::try_from(config)?)
}

async fn start_manager(plane: &ControlPlane, log: PathBuf) -> anyhow::Result<Manager> {
    Manager::start(&plane.kubeconfig_path(), NAMESPACE, log).await
}

/// Serves a mock on loopback until this process ends.
async fn serve_mock(config: MockConfig) -> anyhow::Result<(Arc<Mock>, SocketAddr)> {
    let mock = Mock::new(config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("No port is free on 127.0.0.1")?;
    let address = listener.local_addr()?;
    let options = ServeOptions::new(Listen::Bound(listener));
    let serving = grpc::serve(mock.clone(), options, std::future::pending());
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "the mock provider is no longer served");
        }
    });
    Ok((mock, address))
}

/// Makes the namespaces, and in the bench's own these objects, each with the plural of its kind.
pub async fn declare(
    client: &Client,
    namespaces: &[&str],
    objects: impl IntoIterator<Item = (&'static str, Value)>,
) -> anyhow::Result<()> {
    for name in namespaces {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some((*name).to_owned());
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await?;
    }
    for (plural, object) in objects {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().unwrap_or_default();
        let kind = GroupVersionKind::try_from(&types)?;
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        Api::namespaced_with(client.clone(), NAMESPACE, &resource)
            .create(&PostParams::default(), &object)
            .await?;
    }
    Ok(())
}

/// Creates one VirtualMachine and returns it as it was stored.
pub async fn create(api: &Api<VirtualMachine>, vm: &Value) -> anyhow::Result<VirtualMachine> {
    let vm: VirtualMachine = serde_json::from_value(vm.clone())?;
    let name = vm.meta().name.clone().unwrap_or_default();
    api.create(&PostParams::default(), &vm)
        .await
        .with_context(|| format!("Cannot create {name}"))
}
