//! Namespace deletion and garbage collection for the control plane, as a process that stays.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use polyvirt_testkit::detached::{Detached, Service, Started, ensure};

/// Its name among the processes of the folder, and of the command that it runs.
pub const NAME: &str = "cluster-controllers";
/// Every step of theirs can be repeated, so they need no time to end.
pub const GRACE: Duration = Duration::from_secs(5);

/// Starts the controllers of this program unless they run already.
pub async fn start(folder: &Path, kubeconfig: &Path) -> anyhow::Result<(Detached, Started)> {
    let kubeconfig = kubeconfig.display().to_string();
    let service = Service {
        name: NAME.to_owned(),
        program: std::env::current_exe().context("Cannot find this program's file")?,
        arguments: vec![NAME.to_owned(), "--kubeconfig".to_owned(), kubeconfig],
        variables: Vec::new(),
    };
    Ok(ensure(folder, &service, GRACE).await?)
}
