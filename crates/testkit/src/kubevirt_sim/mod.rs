//! A KubeVirt without machines: its kinds, and controllers that behave as virt-controller and CDI do.
//!
//! ```text
//!   VirtualMachine ─ runStrategy ─► VirtualMachineInstance ─ Scheduling ─► Running, with node and addresses
//!   DataVolume ──► PersistentVolumeClaim ──► Bound ──► Succeeded
//!   VirtualMachineSnapshot ─► ready      VirtualMachineRestore ─► complete      VirtualMachineClone ─► another VirtualMachine
//! ```
//!
//! Disks come to a machine that runs as the feature gates of the KubeVirt object say, which a test may change.
//!
//! It runs against any API server, for tests and for `polyvirt up`. What goes wrong on purpose is said by annotations
//! ([`FAULT`]) and by addresses: an image of a host that ends in `.invalid` cannot be fetched.

mod admission;
mod callers;
mod cards;
mod cluster;
mod copies;
mod crds;
mod hot;
mod instance;
mod machine;
mod metrics;
mod moves;
mod seats;
mod storage;
mod subresources;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::core::DynamicObject;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher;
use tokio::task::JoinSet;

pub use admission::refusal;
pub use crds::definitions;

use crate::Error;
use cluster::{Kind, World};

/// Annotation of a VirtualMachine that says what goes wrong: `Unschedulable`, `SlowStart` for a start of some seconds,
/// `Immovable` for a machine that no node can take over, `Tokenless` for one into which no disk can be plugged, `Staged` for
/// one that hears of another node with its next start only, or `ForgetsRestore` for one whose restore is not looked at again until somebody writes to it.
pub const FAULT: &str = "sim.polyvirt.io/fault";

/// Where the kinds come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kinds {
    /// The simulator's own, which take any field.
    #[default]
    Own,
    /// Somebody has installed them.
    AreThere,
}

/// How the simulator behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the kinds come from.
    pub kinds: Kinds,
    /// How long each step of a machine takes.
    pub step: Duration,
    /// The version that it says it has.
    pub version: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kinds: Kinds::Own,
            step: Duration::from_millis(20),
            version: "v1.8.0".to_owned(),
        }
    }
}

/// A running simulator. It ends when this is dropped; its objects stay.
#[derive(Debug)]
pub struct KubevirtSim {
    _controllers: JoinSet<()>,
}

/// Installs the kinds, nodes and storage, and starts to behave like KubeVirt.
pub async fn start(client: Client, settings: Settings) -> Result<KubevirtSim, Error> {
    if settings.kinds == Kinds::Own {
        crate::install_crds(&client, &definitions()?).await?;
    }
    let world = Arc::new(World {
        client,
        step: settings.step,
    });
    world.furnish().await?;
    world.introduce(&settings.version).await?;
    world.legislate().await?;
    let mut controllers = JoinSet::new();
    let server = subresources::Server::register(world.clone()).await?;
    controllers.spawn(server.serve());
    world.until_served().await?;
    controllers.spawn(run(world.clone(), Kind::Vm));
    controllers.spawn(run(world.clone(), Kind::Vmi));
    controllers.spawn(run(world.clone(), Kind::DataVolume));
    controllers.spawn(run(world.clone(), Kind::Claim));
    controllers.spawn(run(world.clone(), Kind::Snapshot));
    controllers.spawn(run(world.clone(), Kind::Restore));
    controllers.spawn(run(world.clone(), Kind::Clone));
    controllers.spawn(run(world, Kind::Migration));
    Ok(KubevirtSim {
        _controllers: controllers,
    })
}

/// Waits until a simulator, perhaps of another process, has brought its kinds and behaves like KubeVirt in this cluster.
pub async fn until_simulated(client: &Client) -> Result<(), Error> {
    let world = World {
        client: client.clone(),
        step: Duration::ZERO,
    };
    world.until_served().await
}

/// Machines that are changed at the same time.
const AT_ONCE: u16 = 8;
/// A pass that failed is tried again after this time.
const AGAIN: Duration = Duration::from_millis(200);

/// How long a watch that broke is not opened again. The library's own pauses grow to half a minute, and a cluster that was lost
/// and is back would not move for so long.
const REOPEN: Duration = Duration::from_millis(200);

/// The same short pause before each try.
struct Soon;

impl Iterator for Soon {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(REOPEN)
    }
}

impl Backoff for Soon {
    fn reset(&mut self) {}
}

async fn run(world: Arc<World>, kind: Kind) {
    let api = world.all(kind);
    let mut controller = Controller::new_with(api, watcher::Config::default(), kind.resource())
        .with_config(Config::default().concurrency(AT_ONCE))
        .trigger_backoff(Soon);
    if kind == Kind::Vm {
        let config = watcher::Config::default();
        let instances = world.all(Kind::Vmi);
        controller = controller.owns_with(instances, Kind::Vmi.resource(), config);
    }
    let pass = move |object: Arc<DynamicObject>, world: Arc<World>| async move {
        look(kind, &world, &object).await
    };
    let again = |_: Arc<DynamicObject>, error: &kube::Error, _: Arc<World>| {
        tracing::debug!(%error, "a pass of the KubeVirt simulator failed");
        Action::requeue(AGAIN)
    };
    controller
        .run(pass, again, world)
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn look(kind: Kind, world: &World, object: &DynamicObject) -> kube::Result<Action> {
    match kind {
        Kind::Vm => machine::pass(world, object).await,
        Kind::Vmi => instance::pass(world, object).await,
        Kind::DataVolume => storage::volume(world, object).await,
        Kind::Claim => storage::claim(world, object).await,
        Kind::Snapshot => copies::snapshot(world, object).await,
        Kind::Restore => copies::restore(world, object).await,
        Kind::Clone => copies::clone(world, object).await,
        Kind::Migration => moves::pass(world, object).await,
    }
}
