//! The label by which Services find the manager that leads: consoles are served by that one only.
//!
//! A pod is marked when its manager begins to lead, which also unmarks the others: one that died cannot do it itself.
//! Outside a pod nothing is marked, and a manager that may not mark works all the same.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// On the pod of the manager that leads; its value is the name of the Lease, as others may lead beside it in their own right.
const LABEL: &str = "polyvirt.io/leader";
const RETRY: Duration = Duration::from_secs(5);

/// This pod, if it is one.
struct Own {
    pods: Api<Pod>,
    name: String,
    lease: String,
}

/// Unmarks this pod: its manager may have led before it was started again.
pub async fn take_off(client: Client, lease: &str) {
    let Some(own) = Own::find(client, lease) else {
        return;
    };
    if let Err(error) = own.unmark(|pod| pod == own.name).await {
        tracing::warn!(%error, "the label {LABEL} cannot be taken off this pod");
    }
}

/// Marks this pod and unmarks all others, in the background until it is done.
pub fn put_on(client: Client, lease: &str, stop: CancellationToken) {
    let Some(own) = Own::find(client, lease) else {
        return;
    };
    tokio::spawn(async move {
        while let Err(error) = own.mark_alone().await {
            tracing::warn!(%error, "this pod cannot be marked as {LABEL}, so consoles are not reached");
            let waited = stop.run_until_cancelled(tokio::time::sleep(RETRY)).await;
            if waited.is_none() {
                return;
            }
        }
    });
}

impl Own {
    fn find(client: Client, lease: &str) -> Option<Self> {
        let name = std::env::var("POD_NAME").ok()?;
        let namespace = std::env::var("POD_NAMESPACE").ok()?;
        let pods = Api::namespaced(client, &namespace);
        let lease = lease.to_owned();
        Some(Self { pods, name, lease })
    }

    async fn mark_alone(&self) -> Result<(), kube::Error> {
        self.unmark(|pod| pod != self.name).await?;
        self.set(&self.name, json!(self.lease)).await
    }

    /// All marked pods that are meant.
    async fn unmark(&self, is_meant: impl Fn(&str) -> bool) -> Result<(), kube::Error> {
        let marked = ListParams::default().labels(&format!("{LABEL}={}", self.lease));
        for pod in self.pods.list_metadata(&marked).await? {
            if is_meant(&pod.name_any()) {
                self.set(&pod.name_any(), Value::Null).await?;
            }
        }
        Ok(())
    }

    async fn set(&self, pod: &str, value: Value) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"labels": {LABEL: value}}});
        let params = PatchParams::default();
        match self
            .pods
            .patch_metadata(pod, &params, &Patch::Merge(patch))
            .await
        {
            // It has gone meanwhile, and its label with it.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(drop),
        }
    }
}
