//! A real control plane with our CRDs to play with: prints its kubeconfig and runs until it is interrupted.
//!
//! `cargo run -p polyvirt-testkit --example control_plane`

use polyvirt_testkit::{ControlPlane, install_crds};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plane = ControlPlane::builder().start().await?;
    install_crds(&plane.client()?, &polyvirt_api::crds()).await?;
    #[allow(clippy::print_stdout, reason = "the one thing that the user needs")]
    {
        println!("export KUBECONFIG={}", plane.kubeconfig_path().display());
    }
    tokio::signal::ctrl_c().await?;
    plane.stop().await?;
    Ok(())
}
