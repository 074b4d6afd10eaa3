//! A create that fails half way is completed, and its error stays in the status until then.

use std::time::Duration;

use polyvirt_api::infra::{VMImage, VMNetworkAttachment, VirtualMachine};
use polyvirt_contract::model::Stage;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{MockConfig, Often, Rpc, Rule, TaskMode};
use serde_json::json;

use crate::support::look::{id, message, ready, runs};
use crate::support::world::HYPERVISOR;
use crate::support::{World, network, reason, vm};

fn exhausted(vm: &VirtualMachine) -> bool {
    reason(vm) == Reason::CapacityExhausted.as_str()
}

#[tokio::test]
async fn a_vm_that_was_left_half_created_is_completed_also_after_a_restart() {
    let config = MockConfig {
        tasks: TaskMode::Async,
        ..MockConfig::default()
    };
    let (mut world, mock) = World::furnished("half", config).await;
    mock.faults().add(Rule::HalfCreate(Often::Always));
    world.create(vm("web")).await;
    let refused = world.vm("web", "is refused", exhausted).await;
    assert!(message(&refused).contains("half created"), "{refused:?}");
    assert_eq!(mock.vms()[0].stage, Stage::Creating);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let still = world.get::<VirtualMachine>("web").await;
    assert!(exhausted(&still), "the error stays: {}", message(&still));
    let tried = mock.counts().of(Rpc::Create).calls;
    assert!((2..=6).contains(&tried), "{tried} creates in 4 s");
    world.stop().await;
    let half = mock.vms()[0].id.clone();
    world.start().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    mock.faults().clear();
    let whole = world.vm("web", "runs", runs).await;
    assert_eq!(id(&whole), half);
    assert_eq!(mock.vms().len(), 1);
}

#[tokio::test]
async fn a_network_of_a_provider_that_does_not_answer_is_not_available() {
    let (world, _mock) = World::furnished("network-silent", MockConfig::default()).await;
    let nowhere = crate::support::provider("nowhere").spec(json!({"type": "mock"}));
    world.create(nowhere).await;
    world.create(network("lan")).await;
    let told = |n: &VMNetworkAttachment| {
        let known = n.status.as_ref().map(|s| s.available_on.clone());
        ready(n) && known == Some(vec![HYPERVISOR.to_owned()])
    };
    let lan = world.until("lan", "is available on one", told).await;
    let entries = lan.status.unwrap_or_default().provider_status;
    assert!(!entries["nowhere"].available, "{entries:?}");
}

#[tokio::test]
async fn an_image_is_not_on_its_way_to_a_provider_that_does_not_exist() {
    let (world, _mock) = World::furnished("image-nowhere", MockConfig::default()).await;
    let source = json!({"http": {"url": "https://images.invalid/a.qcow2"}});
    let image = serde_json::from_value::<VMImage>(json!({
        "metadata": {"name": "far"}, "spec": {"source": source},
    }));
    let params = kube::api::PostParams::default();
    let images = world.api::<VMImage>();
    images
        .create(&params, &image.expect("an image"))
        .await
        .expect("created");
    let spec = json!({"providerRef": {"name": "nowhere"}, "imageRef": {"name": "far"}});
    world.create(vm("web").spec(spec)).await;
    let told = |image: &VMImage| reason(image) == Reason::ProviderNotFound.as_str();
    let image = world.until("far", "says what is missing", told).await;
    let text = message(&image);
    assert!(text.contains("/nowhere does not exist"), "{text}");
}
