//! How many pods of a provider answer, and why the others do not.

use k8s_openapi::api::apps::v1::DeploymentStatus;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use polyvirt_engine::provider::Pods;
use polyvirt_engine::runtime::key::ObjectKey;

use super::names::selector;
use crate::refusal;

/// Pods that are looked at for a reason.
const LOOKED_AT: u32 = 20;

/// How the pods stand. They are asked only if not all of them answer.
pub async fn look(
    client: &Client,
    provider: &ObjectKey,
    deployment: Option<DeploymentStatus>,
) -> Pods {
    let status = deployment.unwrap_or_default();
    let mut pods = Pods {
        wanted: status.replicas.unwrap_or(0).max(1),
        ready: status.ready_replicas.unwrap_or(0),
        available: status.available_replicas.unwrap_or(0),
        trouble: None,
    };
    if pods.ready == 0 {
        pods.trouble = refusal(&status);
        if pods.trouble.is_none() {
            pods.trouble = trouble(client, provider).await;
        }
    }
    pods
}

/// Why the Deployment gets no pods at all.
fn refusal(status: &DeploymentStatus) -> Option<String> {
    let conditions = status.conditions.iter().flatten();
    let failed = conditions
        .into_iter()
        .find(|c| c.type_ == "ReplicaFailure" && c.status == "True")?;
    failed.message.clone()
}

async fn trouble(client: &Client, provider: &ObjectKey) -> Option<String> {
    let labels: Vec<_> = selector(provider)
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let params = ListParams::default()
        .labels(&labels.join(","))
        .limit(LOOKED_AT);
    let api: Api<Pod> = Api::namespaced(client.clone(), provider.namespace());
    let pods = match api.list(&params).await {
        Ok(pods) => pods,
        Err(error) => {
            let why = refusal::words(&error);
            return Some(format!("they cannot be listed: {why}"));
        }
    };
    let newest = pods
        .items
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .max_by_key(|pod| pod.metadata.creation_timestamp.clone())?;
    excuse(&newest).map(|why| format!("pod {}: {why}", newest.name_any()))
}

/// Why a pod does not answer, in the words of the cluster.
fn excuse(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let waits = containers.into_iter().find_map(waiting);
    waits.or_else(|| {
        let conditions = status.conditions.iter().flatten();
        let open = conditions
            .into_iter()
            .find(|c| c.status == "False" && c.message.is_some())?;
        let reason = open.reason.as_deref().unwrap_or(&open.type_);
        Some(said(reason, open.message.as_deref()))
    })
}

fn waiting(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or("waiting");
        let last = container
            .last_state
            .as_ref()
            .and_then(|s| s.terminated.as_ref());
        let ended = last.map(|l| format!("it ended with code {} before", l.exit_code));
        let why = waiting.message.clone().or(ended);
        return Some(said(reason, why.as_deref()));
    }
    let ended = state.terminated.as_ref()?;
    let reason = ended.reason.as_deref().unwrap_or("ended");
    Some(said(reason, ended.message.as_deref()))
}

fn said(reason: &str, message: Option<&str>) -> String {
    match message {
        Some(message) if !message.is_empty() => format!("{reason}: {message}"),
        _ => reason.to_owned(),
    }
}
