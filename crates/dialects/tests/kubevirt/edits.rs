//! A Machine that is edited field by field: each edit alone reaches its VM, or the Machine says why not.

use polyvirt_dialects::vitistack::Settings;
use serde_json::{Value, json};

use crate::manager::Manager;
use crate::site::{ALONE, Site, introduce, machine};

const NS: &str = "default";
const PLACE: (&str, &str) = (NS, "web");
const VM: (&str, &str) = (NS, "vm-web");
const DOMAIN: &str = "/spec/template/spec/domain";

async fn edit(site: &Site, change: Value) {
    site.merge("Machine", PLACE, json!({ "spec": change }))
        .await;
}

/// Waits until the VirtualMachine of KubeVirt has the value there.
async fn reaches(site: &Site, path: &str, value: Value) {
    let path = path.replace("DOMAIN", DOMAIN);
    let has = |vm: &Value| vm.pointer(&path) == Some(&value);
    let what = format!("{path} = {value}");
    site.until("VM", VM, &what, has).await;
}

fn condition<'a>(machine: &'a Value, kind: &str) -> &'a Value {
    let all = machine["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    all.find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_edit_reaches_the_vm_or_is_told() {
    let _alone = ALONE.lock().await;
    let site = Site::supervisor().await.with_kubevirt().await;
    introduce(&site, NS, "cluster-east", &site.kubeconfig()).await;
    let _manager = Manager::ready(&site, Settings::default()).await;
    let os = json!({"imageID": "docker://images.example/installer"});
    let mut object = machine(NS, PLACE.1, json!({"template": "small", "os": os}));
    object["metadata"]["annotations"] = json!({"kubevirt.io/boot-source": "datavolume"});
    site.apply(object).await;
    site.phase(PLACE, "Running").await;
    hardware(&site).await;
    disks(&site).await;
    medium(&site).await;
    wrong(&site).await;
}

async fn hardware(site: &Site) {
    let loader = |efi: bool| json!({"domain": {"firmware": {"bootloader": {"efi": efi}}}});
    edit(site, loader(false)).await;
    reaches(site, "DOMAIN/firmware/bootloader", json!({"bios": {}})).await;
    let waits = |m: &Value| condition(m, "RestartRequired")["status"] == "True";
    site.until("Machine", PLACE, "told to restart", waits).await;
    edit(site, loader(true)).await;
    let done = |m: &Value| condition(m, "RestartRequired").is_null();
    site.until("Machine", PLACE, "as it was", done).await;

    edit(site, json!({"domain": {"features": {"hyperv": true}}})).await;
    reaches(site, "DOMAIN/features/hyperv/relaxed/enabled", json!(true)).await;
    edit(site, json!({"domain": {"machine": {"type": "pc-q35"}}})).await;
    reaches(site, "DOMAIN/machine/type", json!("pc-q35")).await;
    edit(site, json!({"bootOrder": ["network", "disk"]})).await;
    reaches(site, "DOMAIN/devices/disks/0/bootOrder", json!(2)).await;
    edit(site, json!({"tags": {"tier": "gold"}})).await;
    let tags = "/metadata/annotations/polyvirt.io~1tags";
    reaches(site, tags, json!("tier=gold")).await;
    let card = json!([{"name": "default", "model": "e1000"}]);
    edit(site, json!({ "networks": card })).await;
    reaches(site, "DOMAIN/devices/interfaces/0/model", json!("e1000")).await;
}

async fn disks(site: &Site) {
    let root = |size: &str| json!({"disks": [{"name": "root", "size": size}]});
    edit(site, root("30Gi")).await;
    let asks = |claim: &Value| claim["spec"]["resources"]["requests"]["storage"] == "30Gi";
    site.until("PVC", (NS, "web-root"), "bigger", asks).await;
    edit(site, root("10Gi")).await;
    let told = |m: &Value| m["status"]["failureReason"] == "InvalidSpec";
    let told = site.until("Machine", PLACE, "told", told).await;
    let text = told["status"]["message"].as_str().unwrap();
    assert!(text.starts_with("spec.disks[0].size: "), "{text}");
    assert!(text.contains("30Gi"), "{text}");
    assert_eq!(told["status"]["phase"], "Running");
    edit(site, json!({"disks": null})).await;
    let well = |m: &Value| m["status"]["failureReason"].is_null();
    site.until("Machine", PLACE, "well again", well).await;
    let claim = site.look("PVC", (NS, "web-root")).await;
    assert!(asks(&claim), "the template's size is no wish to shrink");
}

/// The system is installed, and its medium goes; its claim when the machine that runs does no longer use it.
async fn medium(site: &Site) {
    let has = |vm: &Value| vm.to_string().contains("cdrom-iso");
    assert!(has(&site.look("VM", VM).await));
    let done = json!({"metadata": {"annotations": {"vitistack.io/os-installed": "true"}}});
    site.merge("Machine", PLACE, done).await;
    site.until("VM", VM, "without its medium", |vm| !has(vm))
        .await;
    let power =
        |word: &str| json!({"metadata": {"annotations": {"vitistack.io/power-state": word}}});
    site.merge("Machine", PLACE, power("Off")).await;
    site.until("PVC", (NS, "vm-web-iso"), "gone", Value::is_null)
        .await;
    site.merge("Machine", PLACE, power("On")).await;
    site.phase(PLACE, "Running").await;
}

/// An edit that cannot be lowered says nothing new of networks that are there.
async fn wrong(site: &Site) {
    edit(site, json!({"template": "huge"})).await;
    let told = |m: &Value| m["status"]["failureReason"] == "TemplateNotFound";
    let told = site.until("Machine", PLACE, "told", told).await;
    assert_eq!(condition(&told, "NetworkReady")["status"], "True");
    edit(site, json!({"template": "small"})).await;
    let well = |m: &Value| m["status"]["failureReason"].is_null();
    site.until("Machine", PLACE, "well again", well).await;
}
