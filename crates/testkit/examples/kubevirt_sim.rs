//! A control plane with a simulated KubeVirt, until it is interrupted.

use polyvirt_testkit::ControlPlane;
use polyvirt_testkit::kubevirt_sim::{self, Settings};

#[tokio::main]
#[allow(clippy::print_stdout, reason = "an example for people")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plane = ControlPlane::builder().start().await?;
    let _sim = kubevirt_sim::start(plane.client()?, Settings::default()).await?;
    println!("export KUBECONFIG={}", plane.kubeconfig_path().display());
    tokio::signal::ctrl_c().await?;
    Ok(plane.stop().await?)
}
