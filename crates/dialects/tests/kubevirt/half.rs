//! A VM whose creation fails half way: its VirtualMachine is in the cluster, and a quota refuses its claim.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use polyvirt_dialects::vitistack::Settings;
use serde_json::{Value, json};

use crate::manager::Manager;
use crate::site::{ALONE, Site, introduce, machine};

const NS: &str = "default";
const QUOTA: &str = "v1/ResourceQuota";

/// As if the controller of quotas had counted: no claim is left.
async fn allow_no_claims(site: &Site) {
    let hard = json!({"persistentvolumeclaims": "0"});
    site.apply(json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": NS},
        "spec": {"hard": hard},
    }))
    .await;
    let status = json!({"status": {"hard": hard, "used": hard}});
    let quotas = site.api(QUOTA, NS);
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    let counted = quotas.patch_status("none", &params, &patch).await;
    counted.unwrap();
}

fn says_quota(machine: &Value) -> bool {
    let text = machine["status"]["message"].as_str().unwrap_or_default();
    text.contains("exceeded quota") && !text.contains("metadata.namespace")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_whose_claim_a_quota_refused_is_completed_when_the_quota_is_gone() {
    let _alone = ALONE.lock().await;
    let site = Site::supervisor().await.with_kubevirt().await;
    let manager = Manager::ready(&site, Settings::default()).await;
    introduce(&site, NS, "cluster-east", &site.kubeconfig()).await;
    allow_no_claims(&site).await;
    let small = json!({"template": "small"});
    site.apply(machine(NS, "half", small)).await;
    site.until("Machine", (NS, "half"), "refused", says_quota)
        .await;
    let vm = site.look("VM", (NS, "vm-half")).await;
    let marked = vm["metadata"]["annotations"]["polyvirt.io/creating"].is_string();
    assert!(marked, "half of it is there: {vm:#}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let still = site.look("Machine", (NS, "half")).await;
    assert!(says_quota(&still), "the error stays: {still:#}");
    drop(manager);
    let _manager = Manager::ready(&site, Settings::default()).await;
    site.delete(QUOTA, (NS, "none")).await;
    site.phase((NS, "half"), "Running").await;
    let whole = site.look("VM", (NS, "vm-half")).await;
    assert_eq!(whole["metadata"]["uid"], vm["metadata"]["uid"]);
}
