//! A real local control plane for tests, the benchmark and polyvirt up.
//!
//! [`ControlPlane`] runs etcd and kube-apiserver as child processes on loopback, with TLS, client
//! certificates, RBAC and API aggregation. There is no controller manager: unless [`controllers`] run, nothing collects
//! garbage by owner reference, and a deleted namespace stays in `Terminating`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let plane = polyvirt_testkit::shared().await?;
//! let client = plane.client()?;
//! let namespace = polyvirt_testkit::namespace(&client, "my-test").await?;
//! # Ok(()) }
//! ```

mod assets;
pub mod audit;
mod cluster;
mod control_plane;
pub mod controllers;
pub mod detached;
mod error;
mod flags;
pub mod guest;
mod keeper;
mod kubeconfig;
pub mod kubevirt_sim;
pub mod local;
mod pki;
mod ports;
pub mod proc;
mod process;
pub mod registry;
mod spawner;
mod state;

pub use assets::kubectl;
pub use cluster::{apply_crds, install_crds, namespace, shared};
pub use control_plane::{Builder, ControlPlane, Rss, probe};
pub use error::{Component, Error};
