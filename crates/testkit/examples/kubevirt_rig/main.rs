//! KubeVirt's real virt-api and virt-controller on a real API server, with Kubernetes' real controllers and scheduler, and
//! players for all that needs a node. Used by `hack/kubevirt.sh`.
//!
//! ```text
//!   real:    etcd, kube-apiserver, kube-controller-manager, kube-scheduler, virt-api with its webhooks, virt-controller
//!   played:  kubelet and Multus (pods), virt-handler and virt-launcher (guests, cards, moves, server), CDI (imports),
//!            a storage driver with snapshots (disks)
//! ```
//!
//! `kubevirt_rig ASSETS KUBEVIRT STATE` runs until it is interrupted. STATE/kubeconfig appears when all is ready.

mod cards;
mod disks;
mod furnish;
mod guests;
mod imports;
mod install;
mod moves;
mod pods;
mod programs;
mod server;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use polyvirt_testkit::ControlPlane;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use programs::{Failure, Places, Program};
use world::{CLAIM, GUEST, IMPORT, NODE, POD, SNAPSHOT, VOLUME, World, play};

const HANDLER: &str = "system:serviceaccount:kubevirt:kubevirt-handler";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [assets, kubevirt, state] = folders.as_slice() else {
        return Err("usage: kubevirt_rig ASSETS KUBEVIRT STATE".into());
    };
    let plane = ControlPlane::builder()
        .assets(assets)
        .service_accounts()
        .apiserver_arg("--allow-privileged=true")
        .start()
        .await?;
    let pki = plane.state_path().join("pki");
    let mut places = Places {
        assets: assets.clone(),
        kubevirt: kubevirt.clone(),
        state: state.clone(),
        cluster_pki: pki,
        virt_api_port: programs::free_port()?,
        virt_handler_port: 0,
    };
    let (mut programs, _players) = start(&plane, &mut places).await?;
    announce(&plane, state)?;
    until_end(&mut programs).await?;
    drop(programs);
    Ok(plane.stop().await?)
}

async fn start(
    plane: &ControlPlane,
    places: &mut Places,
) -> Result<(Vec<Program>, JoinSet<()>), Failure> {
    let objects = programs::objects(places)?;
    let world = Arc::new(World {
        client: plane.client()?,
        handler: plane.client_as(HANDLER, &["system:masters"])?,
    });
    install::kinds(&world, &objects, &places.kubevirt.join("definitions")).await?;
    furnish::furnish(&world, &version(&places.kubevirt)).await?;
    install::accounts(&world, &objects).await?;
    let (listener, settings) = server::bind(&places.pki()).await?;
    places.virt_handler_port = listener.local_addr()?.port();
    let admin = std::fs::read_to_string(plane.kubeconfig_path())?;
    std::fs::write(places.state.join("admin.kubeconfig"), &admin)?;
    programs::kubeconfig(places, &admin, "kubevirt-apiserver")?;
    programs::kubeconfig(places, &admin, "kubevirt-controller")?;
    let mut running = programs::kubernetes(places)?;
    running.push(programs::virt_api(places)?);
    running.push(programs::virt_controller(places)?);
    let mut players = JoinSet::new();
    players.spawn(server::serve(world.clone(), listener, settings));
    players.spawn(play(world.clone(), NODE, furnish::heartbeat));
    players.spawn(play(world.clone(), POD, pods::pass));
    players.spawn(play(world.clone(), CLAIM, disks::claim));
    players.spawn(play(world.clone(), VOLUME, disks::volume));
    players.spawn(play(world.clone(), SNAPSHOT, disks::snapshot));
    players.spawn(play(world.clone(), IMPORT, imports::pass));
    players.spawn(play(world.clone(), GUEST, guests::pass));
    install::virt_api(&world, &objects, &mut running).await?;
    furnish::handlers(&world).await?;
    Ok((running, players))
}

/// The version in the name of the folder: `kubevirt-VERSION-…`.
fn version(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let version = name.split('-').nth(1).unwrap_or_default();
    format!("v{version}")
}

/// The kubeconfig is there when all is: by one rename.
fn announce(plane: &ControlPlane, state: &Path) -> Result<(), Failure> {
    let (draft, path) = (state.join("kubeconfig.new"), state.join("kubeconfig"));
    std::fs::copy(plane.kubeconfig_path(), &draft)?;
    Ok(std::fs::rename(draft, path)?)
}

async fn until_end(programs: &mut [Program]) -> Result<(), Failure> {
    let mut end = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            _ = end.recv() => return Ok(()),
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        for program in programs.iter_mut() {
            program.check()?;
        }
    }
}
