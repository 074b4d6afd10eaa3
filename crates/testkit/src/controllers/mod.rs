//! The parts of kube-controller-manager that a control plane without it lacks: deletion of namespaces and garbage collection.
//!
//! ```text
//!   kubectl delete ns x ──► namespaces: delete all objects in x, wait for their finalizers, finalize x
//!   owner deleted       ──► garbage: delete its dependents; foreground and orphan deletion too
//! ```
//!
//! Both act as the service accounts of the real controllers, so that RBAC, admission webhooks and audit logs see what they
//! would see in a cluster.

mod garbage;
mod graph;
mod kinds;
mod namespaces;

use kube::{Client, Config};
use tokio::task::JoinSet;

use crate::Error;

const NAMESPACES: &str = "namespace-controller";
const GARBAGE: &str = "generic-garbage-collector";

/// Runs both controllers until the future is dropped. The configuration must be one of a user who may impersonate others.
pub async fn run(config: Config) -> Result<(), Error> {
    let mut tasks = JoinSet::new();
    tasks.spawn(namespaces::run(client(&config, NAMESPACES)?));
    tasks.spawn(garbage::run(client(&config, GARBAGE)?));
    // Neither ends by itself; a panic in one of them ends both, and the process with them.
    let _ = tasks.join_next().await;
    Ok(())
}

fn client(config: &Config, account: &str) -> Result<Client, Error> {
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:kube-system",
        "system:authenticated",
    ];
    let mut config = config.clone();
    let user = format!("system:serviceaccount:kube-system:{account}");
    config.auth_info.impersonate = Some(user);
    config.auth_info.impersonate_groups = Some(groups.map(str::to_owned).to_vec());
    Ok(Client::try_from(config)?)
}
