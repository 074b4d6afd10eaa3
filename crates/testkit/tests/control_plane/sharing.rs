//! What tests use every day: the shared one, namespaces, definitions, the audit log.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use polyvirt_testkit::{ControlPlane, audit, install_crds, namespace, shared};
use serde_json::json;

use crate::{keep, kept};

#[tokio::test]
async fn starts_and_gives_each_test_its_namespace() {
    let client = shared().await.unwrap().client().unwrap();
    let first = namespace(&client, "mine").await.unwrap();
    let second = namespace(&client, "mine").await.unwrap();
    assert_ne!(first, second);
    let found = Api::<Namespace>::all(client).get(&first).await.unwrap();
    assert!(found.metadata.name.unwrap().starts_with("mine-"));
}

// Each test has a runtime and a thread of its own: the shared control plane must outlive the first.
#[tokio::test]
async fn the_shared_one_is_one_and_stays() {
    let plane = shared().await.unwrap();
    let url = tokio::task::spawn_blocking(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { shared().await.unwrap().url() })
    });
    assert_eq!(url.await.unwrap(), plane.url());
    tokio::time::sleep(Duration::from_millis(300)).await;
    plane.client().unwrap().apiserver_version().await.unwrap();
}

#[tokio::test]
async fn tells_the_memory_of_its_components() {
    let rss = shared().await.unwrap().rss().unwrap();
    assert!(rss.etcd > 5 << 20, "{rss:?}");
    assert!(rss.apiserver > 50 << 20, "{rss:?}");
}

#[tokio::test]
async fn an_installed_definition_is_served_at_once() {
    let client = shared().await.unwrap().client().unwrap();
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.testkit.polyvirt.io"},
        "spec": {
            "group": "testkit.polyvirt.io",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
            }}],
        },
    }))
    .unwrap();
    for _ in 0..2 {
        install_crds(&client, std::slice::from_ref(&definition))
            .await
            .unwrap();
    }
    let kind = kube::core::GroupVersionKind::gvk("testkit.polyvirt.io", "v1", "Gadget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "gadgets");
    let api = Api::<DynamicObject>::namespaced_with(client, "default", &resource);
    let gadget = DynamicObject::new("first", &resource);
    api.create(&PostParams::default(), &gadget).await.unwrap();
}

#[tokio::test]
async fn the_audit_log_tells_writes_by_caller() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.log");
    let plane = ControlPlane::builder()
        .audit_log(&log)
        .start()
        .await
        .unwrap();
    let mut config = plane.config();
    let agent = ("user-agent".parse().unwrap(), "audited/1".parse().unwrap());
    config.headers.push(agent);
    let client = Client::try_from(config).unwrap();
    keep(&client, "one").await;
    keep(&client, "two").await;
    kept(&client, "one").await;
    plane.stop().await.unwrap();

    let entries = audit::read(&log).unwrap();
    let ours = entries
        .iter()
        .filter(|entry| entry.user_agent == "audited/1");
    assert!(
        ours.clone()
            .any(|entry| entry.verb == "get" && entry.name == "one")
    );
    let counts = audit::count_writes(ours);
    let counts: Vec<_> = counts
        .iter()
        .map(|(k, n)| (&*k.resource, &*k.verb, *n))
        .collect();
    assert_eq!(counts, [("configmaps", "create", 2)]);
}
