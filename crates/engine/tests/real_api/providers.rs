//! A Provider is as healthy as its hypervisor answers, and stays while VMs need it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use polyvirt_api::infra::{
    CircuitState, Provider, ProviderCapability, ProviderFeature, RuntimePhase, VirtualMachine,
};
use polyvirt_api::names;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Mock, MockConfig, Rpc};
use serde_json::json;

use crate::support::fleet::Route;
use crate::support::look::{condition, ready, runs, says};
use crate::support::wire::{Services, WireServer};
use crate::support::world::{HYPERVISOR, eventually};
use crate::support::{World, message, provider, reason, vm};

async fn wired(topic: &str, services: Services) -> (World, Arc<Mock>, WireServer) {
    let mut world = World::empty(topic).await;
    let mock = world.furnish(MockConfig::default()).await;
    let server = WireServer::start(mock.clone(), services);
    world
        .fleet
        .put(HYPERVISOR, Route::Wire(server.address.to_string()));
    world.start().await;
    (world, mock, server)
}

fn healthy(provider: &Provider) -> bool {
    ready(provider) && provider.status.as_ref().and_then(|s| s.healthy) == Some(true)
}

fn unhealthy(provider: &Provider) -> bool {
    provider.status.as_ref().and_then(|s| s.healthy) == Some(false)
        && condition(provider, "Ready").is_some_and(|c| c.status == "False")
}

#[tokio::test]
async fn a_connected_provider_tells_what_it_can_do() {
    let (world, _mock) = World::furnished("tells", MockConfig::default()).await;
    let status = world
        .until(HYPERVISOR, "is healthy", healthy)
        .await
        .status
        .unwrap_or_default();
    assert!(status.version.is_some_and(|version| !version.is_empty()));
    assert!(status.connected_since.is_some() && status.last_health_check.is_some());
    assert_eq!(status.circuit, Some(CircuitState::Closed));
    let reported = status.reported_capabilities.expect("capabilities");
    assert!(reported.supports_snapshots && reported.supports_image_import);
    assert!(status.capabilities.contains(&ProviderCapability::Snapshots));
    assert!(status.features.contains(&ProviderFeature::Watch));
    assert!(status.features.contains(&ProviderFeature::Identity));
    assert!(
        status
            .honoured_fields
            .contains(&"spec.powerState".to_owned())
    );
    let usage = status.resource_usage.expect("usage");
    assert!(
        usage
            .cpu
            .and_then(|cpu| cpu.total)
            .is_some_and(|total| total > 0)
    );
    let runtime = status.runtime.expect("runtime");
    assert_eq!(runtime.phase, Some(RuntimePhase::Running));
    world.told(HYPERVISOR, Reason::Connected).await;
}

#[tokio::test]
async fn the_number_of_vms_is_told() {
    let (world, _mock) = World::furnished("count", MockConfig::default()).await;
    for name in ["a", "b", "c"] {
        world.create(vm(name)).await;
    }
    let three = |p: &Provider| p.status.as_ref().and_then(|s| s.connected_vms) == Some(3);
    world.until(HYPERVISOR, "has three", three).await;
}

/// Kills the server, sees it told in time, and brings it back.
async fn dies_and_comes_back(services: Services) {
    let (world, mock, mut server) = wired("dies", services).await;
    let before = world.until(HYPERVISOR, "is healthy", healthy).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    server.kill();
    let begin = Instant::now();
    let object = world.until(HYPERVISOR, "is unhealthy", unhealthy).await;
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );
    let status = object.status.clone().unwrap_or_default();
    assert!(!status.last_error.expect("an error").message.is_empty());
    assert_eq!(
        (status.circuit, status.connected_since),
        (Some(CircuitState::Open), None)
    );
    for kind in ["ProviderAvailable", "ProviderRuntimeReady"] {
        assert!(
            condition(&object, kind).is_some_and(|c| c.status == "False"),
            "{kind}"
        );
    }
    world.told(HYPERVISOR, Reason::ProviderUnavailable).await;
    server.revive();
    let object = world.until(HYPERVISOR, "is healthy again", healthy).await;
    let status = object.status.unwrap_or_default();
    assert_eq!(status.circuit, Some(CircuitState::Closed));
    assert!(status.connected_since > before.status.and_then(|s| s.connected_since));
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    world
        .vm("web", "is served again", crate::support::look::stands)
        .await;
    assert_eq!(mock.vms().len(), 1);
}

#[tokio::test]
async fn a_provider_that_dies_is_told_and_one_that_comes_back_too() {
    dies_and_comes_back(Services::Both).await;
}

#[tokio::test]
async fn a_foreign_provider_that_dies_is_told_and_one_that_comes_back_too() {
    dies_and_comes_back(Services::Basic).await;
}

/// The calls that count against a limit.
fn counted(mock: &Mock) -> u32 {
    let counts = mock.counts();
    let free = [
        Rpc::Validate,
        Rpc::GetCapabilities,
        Rpc::Features,
        Rpc::Watch,
    ];
    let free: u64 = free.into_iter().map(|rpc| counts.of(rpc).calls).sum();
    u32::try_from(counts.calls() - free).expect("few calls")
}

#[tokio::test]
async fn a_provider_gets_no_more_calls_than_its_limit() {
    let (world, mock) = World::furnished("rate", MockConfig::default()).await;
    world.until(HYPERVISOR, "is healthy", healthy).await;
    let limit = json!({"spec": {"rateLimit": {"qps": 5, "burst": 1}}});
    world.edit::<Provider>(HYPERVISOR, limit).await;
    let limited = |p: &Provider| {
        let limits = p.status.as_ref().and_then(|s| s.limits.clone());
        limits.is_some_and(|l| l.calls_per_second == Some(5) && l.concurrency > 0)
    };
    world.until(HYPERVISOR, "tells its limit", limited).await;
    let (begin, before) = (Instant::now(), counted(&mock));
    for name in ["a", "b", "c"] {
        world.create(vm(name)).await;
    }
    for name in ["a", "b", "c"] {
        world.vm(name, "runs", runs).await;
    }
    let calls = counted(&mock) - before;
    assert!(calls >= 6, "{calls}");
    let least = Duration::from_millis(200) * (calls - 2);
    assert!(
        begin.elapsed() >= least,
        "{calls} calls in {:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn a_question_that_nobody_can_answer_now_ends_no_healthy_link() {
    let (world, mock) = World::furnished("no-word", MockConfig::default()).await;
    let before = world.until(HYPERVISOR, "is healthy", healthy).await;
    world.fleet.put(HYPERVISOR, Route::Unknown);
    let passes = world.passes();
    world
        .edit::<Provider>(
            HYPERVISOR,
            json!({"metadata": {"labels": {"seen": "again"}}}),
        )
        .await;
    eventually("the Provider is looked at", || world.passes() > passes).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(mock.vms().len(), 1);
    let after: Provider = world.get(HYPERVISOR).await;
    assert!(healthy(&after));
    let since = |p: &Provider| p.status.as_ref().and_then(|s| s.connected_since.clone());
    assert_eq!(since(&after), since(&before));
}

#[tokio::test]
async fn a_provider_whose_hypervisor_does_not_answer_is_not_healthy() {
    let (world, mock) = World::furnished("no-answer", MockConfig::default()).await;
    world.until(HYPERVISOR, "is healthy", healthy).await;
    mock.faults()
        .parse("fail=Validate:Unauthenticated")
        .expect("a rule");
    let refused = |p: &Provider| says(p, "Ready", "False", Reason::CredentialsRefused);
    world
        .until(HYPERVISOR, "has its credentials refused", refused)
        .await;
    mock.faults().clear();
    world.until(HYPERVISOR, "is healthy again", healthy).await;
}

#[tokio::test]
async fn a_provider_whose_calls_fail_is_looked_at_before_the_next_check() {
    let (world, mock) = World::furnished("suspicion", MockConfig::default()).await;
    let slow = json!({"spec": {"healthCheck": {"interval": "10m"}}});
    world.edit::<Provider>(HYPERVISOR, slow).await;
    world.until(HYPERVISOR, "is healthy", healthy).await;
    mock.faults()
        .parse("fail=Create:Unavailable fail=Validate:Unavailable")
        .expect("rules");
    for number in 0..8 {
        world.create(vm(&format!("vm-{number}"))).await;
    }
    world.until(HYPERVISOR, "is unhealthy", unhealthy).await;
    let calls = mock.counts().of(Rpc::Create).calls;
    world.reconciled_again("vm-0").await;
    assert_eq!(
        mock.counts().of(Rpc::Create).calls,
        calls,
        "an open circuit lets nothing through"
    );
}

#[tokio::test]
async fn an_edited_provider_is_connected_anew() {
    let (world, _old) = World::furnished("moves", MockConfig::default()).await;
    world.until(HYPERVISOR, "is healthy", healthy).await;
    let new = Mock::new(MockConfig::default());
    let server = WireServer::start(new.clone(), Services::Both);
    world
        .fleet
        .put(HYPERVISOR, Route::Wire(server.address.to_string()));
    let edit = json!({"spec": {"endpoint": "mock://elsewhere"}});
    world.edit::<Provider>(HYPERVISOR, edit).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(new.vms().len(), 1);
}

#[tokio::test]
async fn a_provider_in_use_is_not_deleted_and_says_by_whom() {
    let (world, mock) = World::furnished("in-use", MockConfig::default()).await;
    for name in ["a", "b"] {
        world.create(vm(name)).await;
        world.vm(name, "runs", runs).await;
    }
    let marked = |p: &Provider| {
        let marks = p.metadata.finalizers.as_deref().unwrap_or_default();
        marks.iter().any(|mark| mark == names::IN_USE_FINALIZER)
    };
    world.until(HYPERVISOR, "is marked as used", marked).await;
    world.delete::<Provider>(HYPERVISOR).await;
    let blocked = |p: &Provider| says(p, "Deleting", "True", Reason::InUse);
    let object = world.until(HYPERVISOR, "is held", blocked).await;
    let text = &condition(&object, "Deleting").expect("told").message;
    for name in ["a", "b"] {
        assert!(
            text.contains(&format!("{}/{name}", world.namespace)),
            "{text}"
        );
    }
    world.edit_spec("a", json!({"powerState": "Off"})).await;
    world
        .vm("a", "is still served", crate::support::look::stands)
        .await;
    for name in ["a", "b"] {
        world.delete::<VirtualMachine>(name).await;
        world.gone::<VirtualMachine>(name).await;
    }
    world.gone::<Provider>(HYPERVISOR).await;
    assert!(mock.vms().is_empty());
}

#[tokio::test]
async fn a_provider_that_nobody_uses_goes_at_once_and_leaves_no_series_behind() {
    let (world, _mock) = World::furnished("unused", MockConfig::default()).await;
    world.until(HYPERVISOR, "is healthy", healthy).await;
    let series = format!("provider=\"{}/{HYPERVISOR}\"", world.namespace);
    let circuits = |text: String| {
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines
            .iter()
            .filter(|l| l.contains("circuit_breaker") && l.contains(&series))
            .count()
    };
    assert!(circuits(world.metrics()) > 0, "{}", world.metrics());
    world.delete::<Provider>(HYPERVISOR).await;
    world.gone::<Provider>(HYPERVISOR).await;
    let gone = || circuits(world.metrics()) == 0;
    crate::support::world::eventually("its series are gone", gone).await;
}

#[tokio::test]
async fn a_provider_that_is_deleted_and_made_anew_serves_its_vms_again() {
    let (mut world, mock) = World::furnished("anew", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world.stop().await;
    world
        .edit::<Provider>(HYPERVISOR, json!({"metadata": {"finalizers": null}}))
        .await;
    world.delete::<Provider>(HYPERVISOR).await;
    world.gone::<Provider>(HYPERVISOR).await;
    world.start().await;
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    let lost = |vm: &VirtualMachine| reason(vm) == Reason::ProviderNotFound.as_str();
    let vm = world.vm("web", "has lost its Provider", lost).await;
    assert!(
        message(&vm).starts_with("spec.providerRef.name: "),
        "{}",
        message(&vm)
    );
    world.create(provider(HYPERVISOR)).await;
    world
        .vm("web", "is off", crate::support::look::stands)
        .await;
    assert_eq!(mock.vms().len(), 1);
}
