//! What an account must be allowed.

use std::sync::Arc;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use polyvirt_contract::model::{MigrateVm, PowerOp, PowerState, SnapshotRequest, VmRef};
use polyvirt_contract::{ErrorKind, Provider};
use polyvirt_provider_kubevirt::{Kubevirt, KubevirtConfig};
use serde_json::{Value, json};

use crate::lab::{Lab, synced};

const USER: &str = "of-the-go-operator";

/// What the documents of the KubeVirt operator of Viti Stack have people grant it, as far as the cluster of the VMs goes.
fn role() -> Value {
    let all = json!([
        "get", "list", "watch", "create", "update", "patch", "delete"
    ]);
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": USER},
        "rules": [
            {"apiGroups": ["kubevirt.io"], "resources": ["virtualmachines", "virtualmachineinstances"], "verbs": all},
            {"apiGroups": [""], "resources": ["persistentvolumeclaims", "secrets", "configmaps"], "verbs": all},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        ],
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    })
}

async fn grant(client: &Client) {
    for object in [role(), binding()] {
        let kind = object["kind"].as_str().expect("a kind");
        let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        let params = PatchParams::apply("test");
        let applied = api.patch(USER, &params, &Patch::Apply(&object)).await;
        applied.expect("granted");
    }
}

async fn with_those_rights(lab: &Lab) -> Arc<Kubevirt> {
    grant(&lab.client).await;
    let plane = polyvirt_testkit::shared().await.expect("a control plane");
    let client = plane
        .client_as(USER, &["system:authenticated"])
        .expect("a client");
    until_granted(&client).await;
    let config = KubevirtConfig::from_url("kubevirt://kubeconfig").expect("readable");
    Kubevirt::with_client(client, &config)
}

/// The API server's authorizer learns of a role binding by a watch of its own, a moment after the binding was accepted. Each rule
/// of the role is asked for: they come together, but nothing promises that.
async fn until_granted(client: &Client) {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    for (group, resource) in [
        ("kubevirt.io", "virtualmachines"),
        ("", "persistentvolumeclaims"),
    ] {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    verb: Some("list".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let begin = std::time::Instant::now();
        loop {
            let asked = reviews.create(&PostParams::default(), &review).await;
            let answer = asked.expect("an answer").status;
            if answer.is_some_and(|status| status.allowed) {
                break;
            }
            assert!(begin.elapsed() < crate::lab::PATIENCE, "it is not granted");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_the_go_operator_are_enough_to_run_vms() {
    let mut lab = Lab::new().await;
    lab.provider = with_those_rights(&lab).await;
    lab.provider.validate().await.expect("it is KubeVirt");
    drop(synced(&lab.provider).await);
    let mut wish = lab.wish("web");
    wish.user_data = Some(polyvirt_contract::model::UserData::CloudInit(
        "#cloud-config\n".into(),
    ));
    let vm = lab.running(wish).await;
    let listed = lab.provider.list_vms().await.expect("a list");
    assert!(listed.iter().any(|found| found.id == vm.id));
    what_is_kept_is_told(&lab, &vm).await;
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    lab.provider.delete(&vm).await.expect("accepted");
    let begin = std::time::Instant::now();
    while lab
        .provider
        .describe(&vm.id)
        .await
        .expect("an answer")
        .is_some()
    {
        assert!(begin.elapsed() < crate::lab::PATIENCE, "it stays");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A kind that the account may not see is not taken for one that the cluster does not have.
async fn what_is_kept_is_told(lab: &Lab, vm: &VmRef) {
    let request = SnapshotRequest {
        name_hint: "before".to_owned(),
        ..SnapshotRequest::default()
    };
    let snapshot = lab.provider.snapshot_create(vm, request).await;
    let moved = lab.provider.migrate(vm, MigrateVm::default()).await;
    for (error, what) in [
        (
            snapshot.expect_err("refused"),
            "list virtualmachinesnapshots of snapshot.kubevirt.io; grant it get, list, watch, create",
        ),
        (
            moved.expect_err("refused"),
            "list virtualmachineinstancemigrations of kubevirt.io; grant it get, list, watch, create",
        ),
    ] {
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error}");
        assert!(error.message.contains(what), "{error}");
    }
}
