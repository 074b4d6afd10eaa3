//! Whose Secrets a Provider may use, and when they are new.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use polyvirt_engine::provider::NoWay;
use polyvirt_runtimes::credentials::{self, SHARED_WITH, mark};
use polyvirt_testkit::namespace;
use serde_json::{Value, json};

use crate::lab::{Lab, mock};

async fn note(lab: &Lab, namespace: &str, change: Value) {
    let api: Api<Secret> = Api::namespaced(lab.client.clone(), namespace);
    let patch = Patch::Merge(json!({"metadata": change}));
    api.patch("login", &PatchParams::default(), &patch)
        .await
        .expect("noted");
}

#[tokio::test]
async fn a_label_on_the_secret_is_nothing_new_and_another_password_is() {
    let lab = Lab::new().await;
    lab.secret("login", &[("password", "a")]).await;
    let mut spec = mock();
    spec["credentialSecretRef"] = json!({"name": "login"});
    let provider = lab.provider("p", spec).await;
    let read = async || {
        mark(
            &credentials::read(&lab.client, &provider)
                .await
                .expect("read"),
        )
    };
    let first = read().await;
    note(&lab, &lab.namespace, json!({"labels": {"team": "x"}})).await;
    assert_eq!(read().await, first);
    lab.secret("login", &[("password", "b")]).await;
    assert_ne!(read().await, first);
}

#[tokio::test]
async fn the_secret_of_another_namespace_is_read_only_if_its_owner_shares_it() {
    let (lab, other) = (Lab::new().await, Lab::new().await);
    other.secret("login", &[("password", "theirs")]).await;
    let mut spec = mock();
    spec["credentialSecretRef"] = json!({"name": "login", "namespace": other.namespace});
    let provider = lab.provider("thief", spec).await;
    let read = async || credentials::read(&lab.client, &provider).await;
    let Err(NoWay::Wrong(refused)) = read().await else {
        panic!("it was read");
    };
    assert!(refused.to_string().contains(SHARED_WITH), "{refused}");
    assert!(!refused.to_string().contains("theirs"), "{refused}");
    let with_others = namespace(&lab.client, "third").await.expect("made");
    for (list, readable) in [
        (with_others.as_str(), false),
        (lab.namespace.as_str(), true),
    ] {
        let annotation = json!({"annotations": {SHARED_WITH: list}});
        note(&lab, &other.namespace, annotation).await;
        assert_eq!(read().await.is_ok(), readable, "{list}");
    }
}
