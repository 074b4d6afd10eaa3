//! Somebody changes a VM in its cluster. Fields that are ours are watched and treated as `spec.driftPolicy` says; fields that are
//! not ours stay as they were made.

use polyvirt_dialects::vitistack::Settings;
use serde_json::{Value, json};

use crate::manager::Manager;
use crate::site::{ALONE, Site, introduce};

const PLACE: (&str, &str) = ("default", "web");

fn vm() -> Value {
    json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
        "metadata": {"name": PLACE.1, "namespace": PLACE.0},
        "spec": {
            "providerRef": {"name": "cluster-east"},
            "class": {"cpu": 2, "memory": "1Gi", "diskDefaults": {"size": "5Gi"}},
            "image": {"blank": {}},
            "powerState": "Off",
        },
    })
}

fn sockets(vm: &Value) -> &Value {
    &vm["spec"]["template"]["spec"]["domain"]["cpu"]["sockets"]
}

fn condition<'a>(vm: &'a Value, kind: &str) -> &'a Value {
    let all = vm["status"]["conditions"].as_array();
    let mut found = all.into_iter().flatten().filter(|c| c["type"] == kind);
    found.next().unwrap_or(&Value::Null)
}

async fn policy(site: &Site, policy: Value) {
    let change = json!({"spec": {"driftPolicy": policy}});
    site.merge("VirtualMachine", PLACE, change).await;
}

/// Fields that we hold by server-side apply, as the API server writes them down.
fn held(vm: &Value) -> String {
    let all = vm["metadata"]["managedFields"].as_array();
    let ours = |entry: &&Value| entry["manager"] == "polyvirt" && entry["operation"] == "Apply";
    let found = all.into_iter().flatten().find(ours);
    found.map(ToString::to_string).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_change_is_treated_as_the_policy_says() {
    let _alone = ALONE.lock().await;
    let site = Site::supervisor().await.with_kubevirt().await;
    introduce(&site, "default", "cluster-east", &site.kubeconfig()).await;
    let _manager = Manager::ready(&site, Settings::default()).await;
    site.apply(vm()).await;
    let settled = |vm: &Value| condition(vm, "Ready")["status"] == "True";
    site.until("VirtualMachine", PLACE, "settled", settled)
        .await;
    let made = site.look("VM", PLACE).await;
    assert_eq!(*sockets(&made), 2, "{made:#}");
    assert!(held(&made).contains("f:sockets"), "{made:#}");

    size(&site).await;
    power(&site).await;
}

async fn size(site: &Site) {
    let theirs = json!({"metadata": {"labels": {"team": "theirs"}}, "spec": {"template": {"spec": {
        "terminationGracePeriodSeconds": 77, "domain": {"cpu": {"sockets": 8}},
    }}}});
    site.merge("VM", PLACE, theirs).await;
    let drifted = |vm: &Value| condition(vm, "Drifted")["status"] == "True";
    let told = site.until("VirtualMachine", PLACE, "drifted", drifted);
    let told = told.await;
    let words = condition(&told, "Drifted")["message"].to_string();
    assert!(words.contains("spec.resources.cpu"), "{words}");
    assert_eq!(
        *sockets(&site.look("VM", PLACE).await),
        8,
        "it is left alone"
    );

    policy(site, json!({"size": "Correct"})).await;
    let back = |vm: &Value| *sockets(vm) == 2;
    let back = site.until("VM", PLACE, "put back", back).await;
    assert!(held(&back).contains("f:sockets"), "{back:#}");
    assert_eq!(back["metadata"]["labels"]["team"], "theirs");
    let grace = &back["spec"]["template"]["spec"]["terminationGracePeriodSeconds"];
    assert_eq!(*grace, 77, "a field that is not ours");
    let over = |vm: &Value| condition(vm, "Drifted")["status"] != "True";
    site.until("VirtualMachine", PLACE, "as declared", over)
        .await;
}

async fn power(site: &Site) {
    let start = || json!({"spec": {"runStrategy": "Always"}});
    site.merge("VM", PLACE, start()).await;
    let drifted = |vm: &Value| condition(vm, "Drifted")["status"] == "True";
    site.until("VirtualMachine", PLACE, "drifted", drifted)
        .await;
    assert_eq!(
        site.look("VM", PLACE).await["spec"]["runStrategy"],
        "Always"
    );
    policy(site, json!({"size": "Correct", "power": "Correct"})).await;
    let halted = |vm: &Value| vm["spec"]["runStrategy"] == "Halted";
    site.until("VM", PLACE, "stopped", halted).await;
    site.until("VMI", PLACE, "gone", Value::is_null).await;
}
