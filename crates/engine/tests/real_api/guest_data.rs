//! What a guest is given for its first boot: the bytes that the user wrote, and nowhere else.

use std::time::Duration;

use bytes::Bytes;
use polyvirt_api::infra::VirtualMachine;
use polyvirt_contract::Provider;
use polyvirt_contract::model::{ExecRequest, VmRef};
use polyvirt_provider_mock::{Mock, MockConfig, digest};
use serde_json::{Value, json};

use crate::support::fleet::Route;
use crate::support::look::{field, runs};
use crate::support::wire::{Services, WireServer};
use crate::support::world::HYPERVISOR;
use crate::support::{World, network, secret, vm};

const CONFIG: &str = "#cloud-config\npackages: [nginx]\n";
const SCRIPT: &str = "#!/bin/sh\necho hello\n";
const META: &str = "local-hostname: front\n";
const NETWORK: &str = "version: 2\nethernets:\n  eth0:\n    dhcp4: true\n";
const IGNITION: &str = r#"{"ignition": {"version": "3.4.0"}}"#;

/// What the guest reads in one of the files of its seed.
async fn read(mock: &Mock, file: &str) -> String {
    let vm = VmRef {
        id: mock.vms().remove(0).id,
        owner: None,
    };
    let path = format!("/var/lib/cloud/seed/nocloud/{file}");
    let request = ExecRequest {
        command: vec!["cat".to_owned(), path],
        stdin: Bytes::new(),
        timeout: Duration::from_secs(1),
    };
    let output = mock
        .guest_exec(&vm, request)
        .await
        .expect("the guest answers");
    assert_eq!(output.exit_code, 0, "{output:?}");
    String::from_utf8(output.stdout.to_vec()).expect("text")
}

#[tokio::test]
async fn inline_cloud_init_arrives_byte_for_byte() {
    let (world, mock) = World::furnished("inline", MockConfig::default()).await;
    let data = json!({"cloudInit": {"inline": CONFIG}});
    world
        .create(vm("web").spec(json!({ "userData": data })))
        .await;
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!(read(&mock, "user-data").await, CONFIG);
    assert_eq!(field(&vm, "userDataKind"), "cloud-init");
    assert_eq!(field(&vm, "userDataDigest"), digest(CONFIG.as_bytes()));
}

#[tokio::test]
async fn all_three_documents_come_from_secrets() {
    let (world, mock) = World::furnished("secrets", MockConfig::default()).await;
    for (name, key, text) in [
        ("user", "user-data", CONFIG),
        ("meta", "meta-data", META),
        ("net", "network-config", NETWORK),
    ] {
        world.create(secret(name, key, text)).await;
    }
    let from = |name: &str| json!({"cloudInit": {"secretRef": {"name": name}}});
    let spec =
        json!({"userData": from("user"), "metaData": from("meta"), "networkData": from("net")});
    world.create(vm("web").spec(spec)).await;
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!(read(&mock, "user-data").await, CONFIG);
    assert_eq!(read(&mock, "network-config").await, NETWORK);
    let meta = read(&mock, "meta-data").await;
    assert!(
        meta.contains("front") && meta.contains("instance-id"),
        "{meta}"
    );
    assert_eq!(field(&vm, "hostname"), "front");
}

#[tokio::test]
async fn inline_and_secret_are_joined_into_one_message() {
    let (world, mock) = World::furnished("joined", MockConfig::default()).await;
    world.create(secret("user", "userdata", SCRIPT)).await;
    let data = json!({"cloudInit": {"inline": CONFIG, "secretRef": {"name": "user"}}});
    world
        .create(vm("web").spec(json!({ "userData": data })))
        .await;
    world.vm("web", "runs", runs).await;
    let message = read(&mock, "user-data").await;
    assert!(message.contains("multipart/mixed"), "{message}");
    assert!(message.contains("text/cloud-config") && message.contains("text/x-shellscript"));
}

#[tokio::test]
async fn ignition_arrives_inline_and_from_a_secret() {
    let (world, mock) = World::furnished("ignition", MockConfig::default()).await;
    world.create(secret("core", "config.ign", IGNITION)).await;
    let sources = [
        json!({"inline": IGNITION}),
        json!({"secretRef": {"name": "core"}}),
    ];
    for (number, source) in sources.into_iter().enumerate() {
        let name = format!("core-{number}");
        world
            .create(vm(&name).spec(json!({"userData": {"ignition": source}})))
            .await;
        let vm = world.vm(&name, "runs", runs).await;
        assert_eq!(field(&vm, "userDataKind"), "ignition");
        assert_eq!(field(&vm, "userDataDigest"), digest(IGNITION.as_bytes()));
    }
    assert_eq!(mock.vms().len(), 2);
}

#[tokio::test]
async fn a_fixed_address_is_the_address_of_the_vm() {
    let (world, mock) = World::furnished("static", MockConfig::default()).await;
    world.create(network("lan")).await;
    let card = json!({
        "name": "eth0", "networkRef": {"name": "lan"}, "ipAddress": "192.0.2.17", "prefix": 24,
        "gateway": "192.0.2.1", "dns": "192.0.2.2,192.0.2.3", "macAddress": "02:00:00:00:00:17",
    });
    world
        .create(vm("web").spec(json!({"networks": [card]})))
        .await;
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!(vm.status.unwrap_or_default().ips, ["192.0.2.17"]);
    let cards = mock.vms().remove(0).nics.expect("cards");
    assert_eq!(
        (cards[0].mac.as_str(), cards[0].ip.as_str()),
        ("02:00:00:00:00:17", "192.0.2.17")
    );
}

/// As much as an object can hold.
fn huge() -> String {
    let line = "# a line of a comment that makes the document long, and nothing else at all\n";
    let mut text = CONFIG.to_owned();
    while text.len() + line.len() < (1 << 20) - 64 {
        text.push_str(line);
    }
    text
}

#[tokio::test]
async fn a_document_of_one_mebibyte_arrives_over_the_wire() {
    let mut world = World::empty("huge").await;
    let mock = world.furnish(MockConfig::default()).await;
    let server = WireServer::start(mock.clone(), Services::Both);
    world
        .fleet
        .put(HYPERVISOR, Route::Wire(server.address.to_string()));
    world.start().await;
    let text = huge();
    world
        .create(vm("web").spec(json!({"userData": {"cloudInit": {"inline": text}}})))
        .await;
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!(field(&vm, "userDataBytes"), text.len().to_string());
    assert_eq!(field(&vm, "userDataDigest"), digest(text.as_bytes()));
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
}

/// Whoever may make VMs in one namespace has no way to a Secret of another, which the manager can read.
#[tokio::test]
async fn a_secret_of_another_namespace_is_out_of_reach() {
    const MARK: &str = "#cloud-config\npassword: not-for-you\n";
    let (world, mock) = World::furnished("reach", MockConfig::default()).await;
    let theirs = World::empty("theirs").await;
    theirs.create(secret("token", "user-data", MARK)).await;
    let other = &theirs.namespace;
    let named = |reference: Value| {
        let data = json!({"cloudInit": {"secretRef": reference}});
        vm("thief").spec(json!({ "userData": data }))
    };
    for name in [
        format!("{other}/token"),
        format!("../{other}/token"),
        format!("../../{other}/secrets/token"),
        "token?x=".to_owned(),
    ] {
        let refused = world.try_create(named(json!({ "name": name }))).await;
        assert!(refused.is_err(), "{name}");
    }
    let aimed = json!({"name": "token", "namespace": other});
    world.create(named(aimed)).await;
    let missing = |vm: &VirtualMachine| crate::support::reason(vm) == "SecretInvalid";
    let vm = world.vm("thief", "finds no such Secret", missing).await;
    assert!(!format!("{vm:?}").contains("not-for-you"));
    assert!(mock.vms().is_empty(), "nothing was made of it");
}

#[tokio::test]
async fn nothing_of_a_secret_is_shown_anywhere() {
    const MARK: &str = "correct-horse-battery-staple";
    let (world, mock) = World::furnished("hidden", MockConfig::default()).await;
    let good = format!("#cloud-config\npassword: {MARK}\n");
    let bad = format!("#cloud-config\npassword: [{MARK}\n");
    world.create(secret("good", "user-data", &good)).await;
    world.create(secret("bad", "user-data", &bad)).await;
    for name in ["good", "bad"] {
        let data = json!({"cloudInit": {"secretRef": {"name": name}}});
        world
            .create(vm(name).spec(json!({ "userData": data })))
            .await;
    }
    world.vm("good", "runs", runs).await;
    let invalid = |vm: &VirtualMachine| crate::support::reason(vm) == "UserDataInvalid";
    world.vm("bad", "is refused", invalid).await;
    assert!(
        read(&mock, "user-data").await.contains(MARK),
        "it did arrive"
    );
    let seen = format!(
        "{:?} {:?} {:?} {}",
        world.list::<VirtualMachine>().await,
        world.events("good").await,
        world.events("bad").await,
        world.metrics(),
    );
    assert!(!seen.contains(MARK), "{seen}");
}
