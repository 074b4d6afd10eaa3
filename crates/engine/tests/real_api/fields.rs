//! Fields that have no effect: edits that come too late, fields of Providers, kinds without a controller.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use polyvirt_api::infra::{Provider, VMClone, VMSet, VirtualMachine};
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Mock, MockConfig, Offer, Rpc};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::fleet::Route;
use crate::support::liar::{Describes, Liar};
use crate::support::look::{condition, runs};
use crate::support::world::{HYPERVISOR, Manifest, Object, PATIENCE, eventually};
use crate::support::{World, provider, template, vm};

const HONOURED: &str = "FieldsHonoured";

fn names<'a>(field: &'a str) -> impl Fn(&VirtualMachine) -> bool + 'a {
    move |vm| {
        condition(vm, HONOURED).is_some_and(|c| c.status == "False" && c.message.contains(field))
    }
}

fn is_honoured(vm: &VirtualMachine) -> bool {
    condition(vm, HONOURED).is_none() && runs(vm)
}

fn image(vm: &VirtualMachine) -> Option<&str> {
    vm.status.as_ref()?.applied.as_ref()?.image.as_deref()
}

#[tokio::test]
async fn an_edit_that_comes_too_late_is_reported_until_it_is_reverted_also_after_a_restart() {
    let (mut world, mock) = World::furnished("late-edits", MockConfig::default()).await;
    world.create(template("other")).await;
    let user_data = |text: &str| json!({"userData": {"cloudInit": {"inline": text}}});
    world
        .create(vm("web").spec(user_data("#cloud-config")))
        .await;
    let made = world.vm("web", "runs", is_honoured).await;
    let first = image(&made).expect("its image is known").to_owned();
    let before = made.spec.image_ref.clone().expect("an image").name;
    assert_eq!(first, before);

    world
        .edit_spec("web", json!({"imageRef": {"name": "other"}}))
        .await;
    let edited = world
        .vm("web", "says it", names("spec.imageRef (read at creation)"))
        .await;
    assert_eq!(image(&edited), Some(first.as_str()));
    world
        .edit_spec("web", user_data("#cloud-config\nhostname: x"))
        .await;
    world
        .vm(
            "web",
            "says it",
            names("spec.userData (read at the first boot)"),
        )
        .await;

    world.stop().await;
    world
        .edit_spec(
            "web",
            json!({"placement": {"nodeSelector": {"disk": "ssd"}}}),
        )
        .await;
    world.start().await;
    let all = world
        .vm("web", "says it", names("spec.placement.nodeSelector"))
        .await;
    assert!(names("spec.imageRef")(&all));
    assert_eq!(mock.vms().len(), 1);

    world
        .edit_spec(
            "web",
            json!({"imageRef": {"name": before}, "placement": null}),
        )
        .await;
    world.edit_spec("web", user_data("#cloud-config")).await;
    world.vm("web", "is honoured again", is_honoured).await;
}

#[tokio::test]
async fn fields_of_a_provider_that_do_not_act_are_named() {
    let mut world = World::empty("idle-provider").await;
    let idle = json!({
        "defaults": {"storagePod": "pod", "network": "lan"},
        "connectionPooling": {"maxConnections": 3},
        "runtime": {"mode": "InProcess", "replicas": 2, "logLevel": "debug"},
    });
    let manifest = provider(HYPERVISOR).spec(idle);
    let mock = Mock::new(MockConfig::default());
    world.fleet.put(HYPERVISOR, Route::Direct(mock));
    world.create(manifest).await;
    world.start().await;
    let found: Provider = world
        .until(HYPERVISOR, "names them", |p: &Provider| {
            condition(p, HONOURED).is_some_and(|c| c.message.contains("spec.runtime.replicas"))
        })
        .await;
    let message = &condition(&found, HONOURED).expect("there").message;
    assert!(message.contains("spec.runtime.logLevel"), "{message}");
    assert!(
        message.contains("spec.connectionPooling.maxConnections"),
        "{message}"
    );
    assert!(!message.contains("spec.defaults.network"), "{message}");
}

/// The condition Ready of an object of a kind that nobody looks after.
async fn ready<K: Object>(world: &World, name: &str) -> Value {
    let api: Api<K> = world.api();
    let until = Instant::now() + PATIENCE;
    loop {
        let found = serde_json::to_value(api.get(name).await.expect("the object")).expect("JSON");
        let status = &found["status"];
        let list = status["conditions"].as_array().cloned().unwrap_or_default();
        let ready = list.into_iter().find(|c| c["type"] == "Ready");
        if let Some(ready) = ready {
            assert_eq!(
                status["observedGeneration"],
                found["metadata"]["generation"]
            );
            return ready;
        }
        assert!(Instant::now() < until, "no condition: {found}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn sets_and_clones_say_that_they_are_not_implemented() {
    let (world, _mock) = World::furnished("not-yet", MockConfig::default()).await;
    let set: Value = json!({
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"providerRef": {"name": HYPERVISOR}, "class": {"cpu": 1, "memory": "1Gi"}, "imageRef": {"name": "x"}}},
    });
    world.create(Manifest::<VMSet>::new("web", set)).await;
    let clone = json!({"source": {"vmRef": {"name": "a"}}, "target": {"name": "b"}});
    world.create(Manifest::<VMClone>::new("copy", clone)).await;
    for ready in [
        ready::<VMSet>(&world, "web").await,
        ready::<VMClone>(&world, "copy").await,
    ] {
        assert_eq!(ready["status"], "False", "{ready}");
        assert_eq!(ready["reason"], "NotImplemented", "{ready}");
    }
    for name in ["web", "copy"] {
        let told = world.told(name, Reason::NotImplemented).await;
        assert!(told.note.contains("does not implement"), "{told:?}");
    }
}

/// A VM whose drift is corrected, on a provider whose list is wrong.
async fn contradicted(topic: &str, describes: Describes) -> (World, Arc<Mock>) {
    let config = MockConfig {
        offer: Offer::Basic,
        ..MockConfig::default()
    };
    let mut world = World::empty(topic).await;
    let mock = world.furnish(config).await;
    let liar = Liar::new(mock.clone(), describes);
    world.fleet.put(HYPERVISOR, Route::Direct(liar));
    world.start().await;
    let policy = json!({"driftPolicy": {"size": "Correct"}});
    world.create(vm("web").spec(policy)).await;
    (world, mock)
}

/// The list is asked for every second here; some more do not lead to another correction.
async fn nothing_more(mock: &Mock, most: u64) {
    let lists = mock.counts().of(Rpc::ListVMs).calls;
    eventually("it is listed again", || {
        mock.counts().of(Rpc::ListVMs).calls > lists + 3
    })
    .await;
    let sent = mock.counts().of(Rpc::Reconfigure).calls;
    assert!(sent <= most, "{sent} corrections");
}

#[tokio::test]
async fn a_provider_that_contradicts_itself_is_reported_once_and_nothing_is_corrected() {
    let (world, mock) = contradicted("contradicts", Describes::Truth).await;
    let told = world.told("web", Reason::ProviderContradicts).await;
    assert!(
        told.note.contains("cpu (Describe: 2, ListVMs: 1)"),
        "{told:?}"
    );
    nothing_more(&mock, 0).await;
    world.vm("web", "runs", runs).await;
    let events = world.events("web").await;
    let word = Reason::ProviderContradicts.as_str();
    assert_eq!(events.iter().filter(|e| e.reason == word).count(), 1);
}

#[tokio::test]
async fn a_correction_that_has_no_effect_is_not_sent_for_ever() {
    let (world, mock) = contradicted("futile", Describes::Nothing).await;
    let told = world.told("web", Reason::ProviderContradicts).await;
    assert!(told.note.contains("spec.resources.cpu 1"), "{told:?}");
    nothing_more(&mock, 2).await;
    let drifted = |vm: &VirtualMachine| condition(vm, "Drifted").is_some();
    world.vm("web", "is reported as drifted", drifted).await;
}
