//! Which cluster a Machine goes to, and what is said where none can be told.

use serde_json::{Value, json};

use super::{CONFIGS, Lab, NS};
use crate::site::introduce;

async fn undecided(lab: &Lab, name: &str, words: &str) {
    lab.machine(name, json!({"template": "small"})).await;
    let failed = lab.fails(name, "KubevirtConfigNotFound").await;
    let message = failed["status"]["message"].as_str().unwrap();
    assert!(message.contains(words), "{message}");
    assert_eq!(failed["status"]["phase"], "Failed");
}

pub async fn no_cluster(lab: &Lab) {
    let words = "has no KubevirtConfig reference and no KubevirtConfigs are available";
    undecided(lab, "lonely", words).await;
}

/// With one cluster a Machine needs to say nothing: it goes there, and that is written down and logged.
pub async fn one_cluster(lab: &Lab) {
    let ready = |c: &Value| c["status"]["phase"] == "Ready" && c["status"]["status"] == "Connected";
    lab.site
        .until("KubevirtConfig", (CONFIGS, "cluster-east"), "Ready", ready)
        .await;
    let machine = lab.site.phase((NS, "lonely"), "Running").await;
    let chosen = &machine["metadata"]["annotations"]["vitistack.io/kubevirt-config"];
    assert_eq!(chosen, "cluster-east");
    let said = |line: &Value| {
        line["message"] == "Automatically assigned KubevirtConfig to machine"
            && line["machine"] == "lonely"
            && line["kubevirtConfig"] == "cluster-east"
    };
    assert!(lab.manager.log().iter().any(said));
}

/// With two of which neither has the VM nobody can tell. The second cluster is the same one again, so a VM that is there is in
/// both.
pub async fn two_clusters(lab: &Lab) {
    introduce(&lab.site, CONFIGS, "cluster-west", &lab.site.kubeconfig()).await;
    let ready = |c: &Value| c["status"]["phase"] == "Ready";
    lab.site
        .until("KubevirtConfig", (CONFIGS, "cluster-west"), "Ready", ready)
        .await;
    undecided(
        lab,
        "torn",
        "and 2 configs are available - cannot determine placement",
    )
    .await;
    let wrong = json!({"metadata": {"annotations": {"vitistack.io/kubevirt-config": "nowhere"}}});
    lab.site.merge("Machine", (NS, "torn"), wrong).await;
    let missing = |m: &Value| {
        let message = m["status"]["message"].as_str().unwrap_or_default();
        message.contains("There is no KubevirtConfig nowhere") && m["status"]["phase"] == "Failed"
    };
    lab.site
        .until("Machine", (NS, "torn"), "lost", missing)
        .await;
    let right =
        json!({"metadata": {"annotations": {"vitistack.io/kubevirt-config": "cluster-west"}}});
    lab.site.merge("Machine", (NS, "torn"), right).await;
    lab.site.phase((NS, "torn"), "Running").await;
}
