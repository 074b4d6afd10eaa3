//! Nobody speaks to the simulated virt-api but through the API server, and only who may.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of tests"
)]

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use polyvirt_testkit::ControlPlane;
use polyvirt_testkit::kubevirt_sim::{self, Settings};
use serde_json::json;

const STOP: &str = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/web/stop";

fn vms(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("kubevirt.io", "v1", "VirtualMachine");
    Api::default_namespaced_with(client.clone(), &ApiResource::from_gvk(&kind))
}

async fn machine(client: &Client) {
    let object = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "web"},
        "spec": {"runStrategy": "Always", "template": {"spec": {"domain": {"devices": {}}}}},
    });
    let object = serde_json::from_value(object).unwrap();
    vms(client)
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

async fn strategy(client: &Client) -> String {
    let found = vms(client).get("web").await.unwrap();
    found.data["spec"]["runStrategy"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The HTTP status of a request to stop the VM; the error where there is none.
async fn stop(client: &Client) -> Result<u16, String> {
    let request = axum::http::Request::put(STOP).body(kube::client::Body::empty());
    let answer = client.send(request.unwrap()).await;
    answer
        .map(|a| a.status().as_u16())
        .map_err(|e| format!("{e:?}"))
}

/// Straight to the simulator's port, past the API server.
async fn around(client: &Client, mut config: kube::Config) -> Client {
    let api: Api<APIService> = Api::all(client.clone());
    let found = api.get("v1.subresources.kubevirt.io").await.unwrap();
    let port = found.spec.unwrap().service.unwrap().port.unwrap();
    config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
    config.accept_invalid_certs = true;
    config.root_cert = None;
    Client::try_from(config).unwrap()
}

async fn grant(client: &Client, user: &str) {
    for object in [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user},
            "rules": [{
                "apiGroups": ["subresources.kubevirt.io"], "resources": ["virtualmachines/stop"], "verbs": ["update"],
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }),
    ] {
        let kind = object["kind"].as_str().unwrap();
        let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        let params = PatchParams::apply("test");
        api.patch(user, &params, &Patch::Apply(&object))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_api_server_is_let_in_and_only_for_who_may() {
    let plane = ControlPlane::builder().ephemeral().start().await.unwrap();
    let admin = plane.client().unwrap();
    let _sim = kubevirt_sim::start(admin.clone(), Settings::default())
        .await
        .unwrap();
    machine(&admin).await;

    let known = plane.config();
    let mut bare = kube::Config::new(known.cluster_url.clone());
    bare.headers = vec![(
        "x-remote-user".parse().unwrap(),
        "polyvirt-admin".parse().unwrap(),
    )];
    for config in [bare, known] {
        let answer = stop(&around(&admin, config).await).await;
        assert!(answer.is_err(), "past the API server: {answer:?}");
    }
    assert_eq!(strategy(&admin).await, "Always");

    let ada = plane.client_as("ada", &[]).unwrap();
    assert_eq!(stop(&ada).await, Ok(403));
    grant(&admin, "ada").await;
    let begin = std::time::Instant::now();
    while stop(&ada).await != Ok(202) {
        assert!(begin.elapsed().as_secs() < 20, "she may, and is refused");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(strategy(&admin).await, "Halted");
    assert_eq!(stop(&admin).await, Ok(202));
}
