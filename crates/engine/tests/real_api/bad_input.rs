//! Bad input gets a clear answer, loses nothing, starts no storm, and heals by itself when it is corrected.

use std::time::{Duration, Instant};

use polyvirt_api::infra::{VMPhase, VirtualMachine};
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Mock, MockConfig, Rpc};
use serde_json::{Value, json};

use crate::support::look::{Explained, runs};
use crate::support::rest::calls_but_health;
use crate::support::world::{HYPERVISOR, Manifest, eventually};
use crate::support::{
    World, class, message, network, phase, provider, reason, secret, template, vm,
};

/// Waits for the answer, and sees that it names the field and is a warning.
async fn answered(world: &World, name: &str, why: Reason, path: &str) -> VirtualMachine {
    let told = |vm: &VirtualMachine| reason(vm) == why.as_str();
    let vm = world.vm(name, "gets an answer", told).await;
    assert!(
        message(&vm).starts_with(&format!("{path}: ")),
        "{}",
        message(&vm)
    );
    assert!(world.told(name, why).await.warning);
    vm
}

/// No pass, no call and no write in this time.
async fn no_storm(world: &World, mock: &Mock, name: &str) {
    world.at_rest(mock).await;
    let version = |vm: VirtualMachine| vm.metadata.resource_version;
    let state = async || {
        let version = version(world.get(name).await);
        (calls_but_health(mock), version, world.passes())
    };
    let before = state().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(before, state().await, "calls, version, passes");
}

fn no_vm_yet(vm: &VirtualMachine) -> bool {
    vm.status.as_ref().is_none_or(|status| status.id.is_none())
}

#[tokio::test]
async fn a_class_that_does_not_exist_is_named_and_waited_for() {
    let (world, mock) = World::furnished("no-class", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"classRef": {"name": "large"}})))
        .await;
    let why = Reason::WaitingForDependencies;
    let vm = answered(&world, "web", why, "spec.classRef.name").await;
    assert!(
        message(&vm).contains("VMClass large does not exist"),
        "{}",
        message(&vm)
    );
    assert_eq!(phase(&vm), Some(VMPhase::Pending));
    no_storm(&world, &mock, "web").await;
    world.create(class("large")).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn an_image_that_does_not_exist_is_named_and_waited_for() {
    let (world, mock) = World::furnished("no-image", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"imageRef": {"name": "later"}})))
        .await;
    let why = Reason::WaitingForDependencies;
    let vm = answered(&world, "web", why, "spec.imageRef.name").await;
    assert!(
        message(&vm).contains("VMImage later does not exist"),
        "{}",
        message(&vm)
    );
    assert!(no_vm_yet(&vm) && mock.vms().is_empty());
    world.create(template("later")).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_network_that_does_not_exist_is_named_with_its_place_and_waited_for() {
    let (world, mock) = World::furnished("no-network", MockConfig::default()).await;
    world.create(network("lan")).await;
    let card = |name: &str, to: &str| json!({"name": name, "networkRef": {"name": to}});
    let networks = json!([card("eth0", "lan"), card("eth1", "dmz")]);
    world
        .create(vm("web").spec(json!({ "networks": networks })))
        .await;
    let path = "spec.networks[1].networkRef.name";
    answered(&world, "web", Reason::WaitingForDependencies, path).await;
    assert!(mock.vms().is_empty());
    world.create(network("dmz")).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_provider_that_does_not_exist_is_named_and_waited_for() {
    let (world, _mock) = World::furnished("no-provider", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"providerRef": {"name": "later"}})))
        .await;
    let why = Reason::ProviderNotFound;
    let vm = answered(&world, "web", why, "spec.providerRef.name").await;
    assert!(
        message(&vm).contains("Provider later does not exist"),
        "{}",
        message(&vm)
    );
    let later = world.hypervisor("later", MockConfig::default()).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(later.vms().len(), 1);
}

#[tokio::test]
async fn a_provider_that_is_new_and_not_connected_yet_harms_nobody() {
    let (world, _mock) = World::furnished("fresh", MockConfig::default()).await;
    world.create(provider("unknown")).await;
    world
        .create(vm("web").spec(json!({"providerRef": {"name": "unknown"}})))
        .await;
    world.create(vm("other")).await;
    world.vm("other", "runs", runs).await;
    let misconfigured = |p: &polyvirt_api::infra::Provider| reason(p) == "InvalidConfiguration";
    let object = world
        .until("unknown", "is told what is wrong", misconfigured)
        .await;
    assert!(
        message(&object).starts_with("spec.endpoint: "),
        "{}",
        message(&object)
    );
    let waits = |vm: &VirtualMachine| !vm.conditions().is_empty();
    let vm = world.vm("web", "is told that it waits", waits).await;
    assert_eq!(reason(&vm), Reason::ProviderUnavailable.as_str());
}

#[tokio::test]
async fn a_provider_that_is_down_is_waited_for() {
    let (world, mock) = World::furnished("down", MockConfig::default()).await;
    mock.faults().parse("fail=*:Unavailable").expect("a rule");
    mock.faults().break_watches();
    let unhealthy = |p: &polyvirt_api::infra::Provider| {
        p.status.as_ref().and_then(|status| status.healthy) == Some(false)
    };
    world.until(HYPERVISOR, "is unhealthy", unhealthy).await;
    world.create(vm("web")).await;
    let waits = |vm: &VirtualMachine| reason(vm) == Reason::ProviderUnavailable.as_str();
    world.vm("web", "waits", waits).await;
    mock.faults().clear();
    world.vm("web", "runs", runs).await;
}

fn with_secret(name: &str) -> Manifest<VirtualMachine> {
    vm(name).spec(json!({"userData": {"cloudInit": {"secretRef": {"name": "user"}}}}))
}

const SECRET: &str = "spec.userData.cloudInit.secretRef.name";

#[tokio::test]
async fn a_secret_that_does_not_exist_is_named_and_waited_for() {
    let (world, mock) = World::furnished("no-secret", MockConfig::default()).await;
    world.create(with_secret("web")).await;
    let vm = answered(&world, "web", Reason::SecretInvalid, SECRET).await;
    assert!(message(&vm).contains("no Secret user"), "{}", message(&vm));
    assert!(mock.vms().is_empty());
    no_storm(&world, &mock, "web").await;
    world
        .create(secret("user", "user-data", "#cloud-config\n"))
        .await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_secret_without_the_key_is_told_with_the_keys_that_would_do() {
    let (world, mock) = World::furnished("no-key", MockConfig::default()).await;
    world.create(secret("user", "password", "hidden")).await;
    world.create(with_secret("web")).await;
    let vm = answered(&world, "web", Reason::SecretInvalid, SECRET).await;
    assert!(message(&vm).contains("it has password"), "{}", message(&vm));
    assert!(mock.vms().is_empty());
    let right = json!({"stringData": {"user-data": "#cloud-config\n"}});
    world
        .edit::<k8s_openapi::api::core::v1::Secret>("user", right)
        .await;
    world.vm("web", "runs", runs).await;
}

/// A document that a guest would ignore in silence, and one that is right.
async fn corrected(topic: &str, path: &str, wrong: Value, right: Value) {
    let (world, mock) = World::furnished(topic, MockConfig::default()).await;
    world.create(vm("web").spec(wrong)).await;
    let vm = answered(&world, "web", Reason::UserDataInvalid, path).await;
    assert_eq!(phase(&vm), Some(VMPhase::Failed));
    assert!(mock.vms().is_empty(), "no VM is made that would not work");
    world.edit_spec("web", right).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn cloud_init_that_is_no_yaml_is_refused_before_the_vm_exists() {
    let inline = |text: &str| json!({"userData": {"cloudInit": {"inline": text}}});
    let wrong = inline("#cloud-config\nusers: [\n");
    let right = inline("#cloud-config\nusers: []\n");
    corrected("cloud-init", "spec.userData.cloudInit.inline", wrong, right).await;
}

#[tokio::test]
async fn ignition_that_is_no_json_is_refused_before_the_vm_exists() {
    let inline = |text: &str| json!({"userData": {"ignition": {"inline": text}}});
    let wrong = inline("{\"ignition\": ");
    let right = inline("{\"ignition\": {\"version\": \"3.4.0\"}}");
    corrected("ignition", "spec.userData.ignition.inline", wrong, right).await;
}

#[tokio::test]
async fn network_data_that_says_nothing_is_refused_before_the_vm_exists() {
    let inline = |text: &str| json!({"networkData": {"cloudInit": {"inline": text}}});
    let wrong = inline("ethernets: [\n");
    let right = inline("version: 2\nethernets: {}\n");
    corrected("netdata", "spec.networkData.cloudInit.inline", wrong, right).await;
}

#[tokio::test]
async fn a_request_that_the_hypervisor_refuses_is_sent_once() {
    let (world, mock) = World::furnished("refused", MockConfig::default()).await;
    mock.faults().parse("fail=Create:Invalid").expect("a rule");
    world.create(vm("web")).await;
    let refused = |vm: &VirtualMachine| reason(vm) == Reason::InvalidRequest.as_str();
    let vm = world.vm("web", "is told of the refusal", refused).await;
    assert_eq!(phase(&vm), Some(VMPhase::Failed));
    no_storm(&world, &mock, "web").await;
    assert_eq!(mock.counts().of(Rpc::Create).calls, 1);
    mock.faults().clear();
    world.edit_spec("web", json!({"tags": ["edited"]})).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_hypervisor_that_keeps_failing_is_asked_with_growing_pauses() {
    let (world, mock) = World::furnished("failing", MockConfig::default()).await;
    mock.faults().parse("fail=Create:Internal").expect("a rule");
    world.create(vm("web")).await;
    let failing = |vm: &VirtualMachine| reason(vm) == Reason::ProviderError.as_str();
    let begin = Instant::now();
    world.vm("web", "is told", failing).await;
    let calls = || mock.counts().of(Rpc::Create).calls;
    eventually("it was asked four times", || calls() >= 4).await;
    // The shortest pauses are three quarters of 0.5, 1 and 2 seconds.
    let passed = begin.elapsed();
    assert!(passed > Duration::from_millis(2600), "{passed:?}");
    let events = world.events("web").await;
    let told = events
        .iter()
        .filter(|e| e.reason == "ProviderError")
        .count();
    assert_eq!(told, 1, "{events:#?}");
    mock.faults().clear();
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_full_hypervisor_is_told_and_used_when_there_is_room() {
    let config = MockConfig::from_url("mock://memory?hosts=1&hostCpus=3&hostMemory=64Gi");
    let (world, mock) = World::furnished("full", config.expect("a configuration")).await;
    world.create(vm("first")).await;
    world.vm("first", "runs", runs).await;
    world.create(vm("second")).await;
    let full = |vm: &VirtualMachine| reason(vm) == Reason::CapacityExhausted.as_str();
    world
        .vm("second", "is told that there is no room", full)
        .await;
    world.delete::<VirtualMachine>("first").await;
    world.gone::<VirtualMachine>("first").await;
    world.vm("second", "runs", runs).await;
    assert_eq!(mock.vms().len(), 1);
}

#[tokio::test]
async fn contradictions_are_refused_by_the_api_server_itself() {
    let world = World::empty("admission").await;
    let both = json!({"classRef": {"name": "a"}, "class": {"cpu": 1, "memory": "1Gi"}});
    let no_source = json!({"imageRef": null});
    let two_guests =
        json!({"userData": {"cloudInit": {"inline": "#!"}, "ignition": {"inline": "{}"}}});
    for (change, word) in [
        (both, "classRef"),
        (no_source, "imageRef"),
        (two_guests, "ignition"),
    ] {
        let refused = world.try_create(vm("web").spec(change)).await;
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains(word), "{text}");
    }
}

#[tokio::test]
async fn fields_that_the_provider_does_not_honour_are_named() {
    let (world, _mock) = World::furnished("ignored", MockConfig::default()).await;
    let disk = json!([{"name": "a", "sizeGiB": 5, "storageClass": "fast"}]);
    let placement = json!({"resourcePool": "gold"});
    world
        .create(vm("web").spec(json!({"disks": disk, "placement": placement})))
        .await;
    let vm = world.vm("web", "runs", runs).await;
    let told = crate::support::look::condition(&vm, "FieldsHonoured").expect("told");
    assert_eq!(
        (told.status.as_str(), told.reason.as_str()),
        ("False", "FieldsIgnored")
    );
    for field in ["spec.disks[].storageClass", "spec.placement.resourcePool"] {
        assert!(told.message.contains(field), "{}", told.message);
    }
    world
        .edit_spec("web", json!({"disks": null, "placement": null}))
        .await;
    let quiet = |vm: &VirtualMachine| {
        runs(vm)
            && crate::support::look::condition(vm, "FieldsHonoured")
                .is_none_or(|c| c.status == "True")
    };
    world.vm("web", "has nothing to say", quiet).await;
}
