//! Phases, conditions, errors with what cures them, and the end of a Machine.

use serde_json::{Value, json};

use super::{CONFIGS, Lab, NS, at};
use crate::site::introduce;

async fn power(lab: &Lab, name: &str, state: &str) {
    let change = json!({"metadata": {"annotations": {"vitistack.io/power-state": state}}});
    lab.site.merge("Machine", (NS, name), change).await;
}

fn condition(machine: &Value, kind: &str) -> (Value, Value) {
    let found = at(machine, &format!("status/conditions[type={kind}]"));
    (found["status"].clone(), found["reason"].clone())
}

fn says(machine: &Value, rows: &[(&str, &str, &str)]) {
    for (kind, status, reason) in rows {
        let expected = (json!(status), json!(reason));
        assert_eq!(condition(machine, kind), expected, "{kind}: {machine:#}");
    }
}

/// Every phase, and the ways between them.
pub async fn lifecycle(lab: &Lab) {
    let waits = json!({"template": "small", "cloudInit": {"secretRef": {"name": "machine-secrets", "key": "userdata"}}});
    lab.machine("life", waits).await;
    lab.site.phase((NS, "life"), "Pending").await;
    lab.site
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "machine-secrets", "namespace": NS},
            "stringData": {"userdata": "#cloud-config\n{}\n"},
        }))
        .await;
    let running = lab.site.phase((NS, "life"), "Running").await;
    says(
        &running,
        &[
            ("Ready", "True", "ReconcileSuccess"),
            ("VirtualMachineReady", "True", "VMCreated"),
            ("StorageReady", "True", "PVCBound"),
            ("NetworkReady", "True", "NetworkConfigured"),
        ],
    );
    power(lab, "life", "Off").await;
    let stopped = lab.site.phase((NS, "life"), "Stopped").await;
    assert_eq!(stopped["status"]["vmiName"], Value::Null);
    power(lab, "life", "On").await;
    lab.site.phase((NS, "life"), "Running").await;
    let phases = |line: &Value| line["machine"] == "life" && line["phase"] == "Creating";
    assert!(
        lab.manager.log().iter().any(phases),
        "Creating is passed through"
    );
}

/// Each error has its word, its text and its cure.
pub async fn errors(lab: &Lab) {
    template(lab).await;
    network(lab).await;
    storage_class(lab).await;
    capacity(lab).await;
    kubevirt_api(lab).await;
}

fn tells(machine: &Value, words: &str) {
    let message = machine["status"]["failureMessage"]
        .as_str()
        .unwrap_or_default();
    assert!(message.contains(words), "{words}: {machine:#}");
    let ready = at(machine, "status/conditions[type=Ready]");
    assert_eq!(ready["status"], "False");
    assert_eq!(ready["reason"], machine["status"]["failureReason"]);
}

/// Cured, and no word of it is left.
async fn cured(lab: &Lab, name: &str) {
    let machine = lab.site.phase((NS, name), "Running").await;
    let healthy = |m: &Value| m["status"]["failureReason"].is_null();
    assert!(healthy(&machine), "{machine:#}");
}

async fn template(lab: &Lab) {
    lab.machine("huge", json!({"template": "huge"})).await;
    let failed = lab.fails("huge", "TemplateNotFound").await;
    assert_eq!(failed["status"]["phase"], "Failed");
    tells(&failed, "Use small, medium or large");
    says(&failed, &[("VirtualMachineReady", "False", "VMFailed")]);
    lab.machine("huge", json!({"template": "large"})).await;
    cured(lab, "huge").await;
}

async fn network(lab: &Lab) {
    let networks = json!([{"name": "eth0", "networkName": "late-network"}]);
    lab.machine(
        "netless",
        json!({"template": "small", "networks": networks}),
    )
    .await;
    let failed = lab.fails("netless", "NetworkConfigurationNotFound").await;
    tells(&failed, "Create it, or correct the name");
    says(&failed, &[("NetworkReady", "False", "NetworkFailed")]);
    lab.site
        .apply(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
            "metadata": {"name": "late-network", "namespace": NS},
            "spec": {"name": "late-network", "vlan": 7},
        }))
        .await;
    cured(lab, "netless").await;
}

async fn storage_class(lab: &Lab) {
    let disks = json!([{"name": "data", "size": "1Gi", "storageClass": "fast-ssd"}]);
    lab.machine("classless", json!({"template": "small", "disks": disks}))
        .await;
    let failed = lab.fails("classless", "StorageClassNotFound").await;
    assert_eq!(failed["status"]["phase"], "Failed");
    tells(
        &failed,
        "Failed to create VirtualMachine in remote cluster: ",
    );
    tells(&failed, "Create it, or name another one");
    says(
        &failed,
        &[("StorageReady", "False", "StorageClassNotFound")],
    );
    lab.site
        .apply(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": "fast-ssd"}, "provisioner": "sim.polyvirt.io/storage",
        }))
        .await;
    cured(lab, "classless").await;
}

/// A VM that finds no node.
async fn capacity(lab: &Lab) {
    lab.runs("crowded", json!({"template": "small"})).await;
    power(lab, "crowded", "Off").await;
    lab.site.phase((NS, "crowded"), "Stopped").await;
    let fault =
        |value: Value| json!({"metadata": {"annotations": {"sim.polyvirt.io/fault": value}}});
    lab.site
        .merge("VM", (NS, "vm-crowded"), fault(json!("Unschedulable")))
        .await;
    power(lab, "crowded", "On").await;
    let failed = lab.fails("crowded", "InsufficientResources").await;
    tells(&failed, "0/2 nodes are available");
    assert_eq!(failed["status"]["state"], "ErrorUnschedulable");
    lab.site
        .merge("VM", (NS, "vm-crowded"), fault(Value::Null))
        .await;
    lab.site.delete("VMI", (NS, "vm-crowded")).await;
    cured(lab, "crowded").await;
}

/// A cluster that does not answer.
async fn kubevirt_api(lab: &Lab) {
    let address = lab.site.plane.url();
    let nobody = lab
        .site
        .kubeconfig()
        .replace(&address, "https://127.0.0.1:9");
    introduce(&lab.site, CONFIGS, "cluster-gone", &nobody).await;
    let mut manifest = crate::site::machine(NS, "cut-off", json!({"template": "small"}));
    manifest["metadata"]["annotations"] = json!({"vitistack.io/kubevirt-config": "cluster-gone"});
    lab.site.apply(manifest).await;
    let failed = lab.fails("cut-off", "KubeVirtApiError").await;
    tells(&failed, "Failed to get KubeVirt client for machine: ");
    tells(&failed, "does not answer");
    let config =
        |c: &Value| c["status"]["phase"] == "Failed" && c["status"]["status"] == "Disconnected";
    lab.site
        .until(
            "KubevirtConfig",
            (CONFIGS, "cluster-gone"),
            "Failed",
            config,
        )
        .await;
    introduce(&lab.site, CONFIGS, "cluster-gone", &lab.site.kubeconfig()).await;
    cured(lab, "cut-off").await;
    lab.site.delete("Machine", (NS, "cut-off")).await;
    lab.site
        .until("Machine", (NS, "cut-off"), "gone", Value::is_null)
        .await;
    lab.site
        .delete("KubevirtConfig", (CONFIGS, "cluster-gone"))
        .await;
}

/// What is made for a Machine goes with it, the VM first, and nothing is left.
pub async fn cleanup(lab: &Lab) {
    lab.site.delete("Machine", (NS, "full")).await;
    lab.site
        .until("Machine", (NS, "full"), "gone", Value::is_null)
        .await;
    for (kind, name) in [
        ("VM", "vm-full"),
        ("VMI", "vm-full"),
        ("VirtualMachine", "full"),
        ("NetworkConfiguration", "full"),
    ] {
        assert_eq!(
            lab.site.look(kind, (NS, name)).await,
            Value::Null,
            "{kind} {name}"
        );
    }
    for claim in ["full-root", "full-data"] {
        lab.site
            .until("PVC", (NS, claim), "gone", Value::is_null)
            .await;
    }
}
