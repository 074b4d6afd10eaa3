//! What cannot be made, and what is said then.

use kube::api::{PatchParams, PostParams};
use polyvirt_engine::provider::{NoWay, Security};
use polyvirt_plan::{Problem, Reason};
use serde_json::{Value, json};

use crate::lab::{Lab, mock};

async fn problem(lab: &Lab, spec: Value) -> Problem {
    let provider = lab.provider("wrong", spec).await;
    match lab.way(&provider).await {
        Ok(_) => panic!("it was made"),
        Err(NoWay::Wrong(problem)) => problem,
        Err(NoWay::Unknown(problem)) => panic!("it is for ever: {problem}"),
    }
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let lab = Lab::new().await;
    let mut spec = mock();
    spec["credentialSecretRef"] = json!({"name": "nowhere"});
    let told = problem(&lab, spec.clone()).await;
    assert_eq!(told.reason, Reason::SecretInvalid);
    assert!(
        told.to_string().contains("nowhere does not exist"),
        "{told}"
    );

    spec["credentialSecretRef"] = json!({"name": "login", "namespace": "elsewhere"});
    let told = problem(&lab, spec).await;
    assert!(told.to_string().contains("their own namespace"), "{told}");

    let mut spec = mock();
    spec["runtime"]["service"] = json!({"tls": {"secretRef": {"name": "none"}}});
    let told = problem(&lab, spec).await;
    assert!(told.to_string().contains("none does not exist"), "{told}");

    let told = problem(
        &lab,
        json!({"type": "libvirt", "runtime": {"mode": "Remote"}}),
    )
    .await;
    assert!(told.to_string().contains("spec.runtime.image"), "{told}");
}

#[tokio::test]
async fn a_type_that_is_switched_off_needs_an_image_and_one_of_a_type_is_taken() {
    let lab = Lab::tuned(|settings| {
        settings.types = vec!["vsphere".to_owned()];
        let image = "registry.test/vsphere:3".to_owned();
        settings.images.insert("vsphere".to_owned(), image);
    })
    .await;
    let told = problem(&lab, mock()).await;
    assert!(
        told.to_string().contains("providers.mock.enabled"),
        "{told}"
    );
    let mut spec = mock();
    spec["runtime"]["image"] = json!("registry.test/mock:1");
    let provider = lab.provider("named", spec).await;
    lab.way(&provider).await.expect("it names its own");
    let spec = json!({
        "type": "vsphere", "endpoint": "https://vc", "runtime": {"mode": "Remote"},
    });
    let provider = lab.provider("typed", spec).await;
    lab.way(&provider).await.expect("its type has one");
    let text = lab.deployment("typed").await.to_string();
    assert!(text.contains("registry.test/vsphere:3"), "{text}");
}

#[tokio::test]
async fn an_object_of_somebody_else_is_left_alone() {
    let lab = Lab::new().await;
    let name = format!("virtrigaud-provider-{}-wrong", lab.namespace);
    let theirs = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name},
    });
    let api = lab.api("", "ServiceAccount");
    let theirs = serde_json::from_value(theirs).expect("an object");
    api.create(&PostParams::default(), &theirs)
        .await
        .expect("made");
    let told = problem(&lab, mock()).await;
    assert_eq!(told.reason, Reason::NameConflict, "{told}");
    let account = lab
        .find("", "ServiceAccount", "wrong")
        .await
        .expect("there");
    assert_eq!(account["metadata"]["labels"], Value::Null);
}

#[tokio::test]
async fn plain_text_only_where_the_provider_says_so() {
    let lab = Lab::new().await;
    let mut spec = mock();
    spec["runtime"]["service"] = json!({"tls": {"enabled": false}});
    let provider = lab.provider("open", spec).await;
    let way = lab.way(&provider).await.expect("made");
    assert_eq!(way.place.security, Security::Plain);
    let text = lab.deployment("open").await.to_string();
    assert!(text.contains("VIRTRIGAUD_PROVIDER_INSECURE"));
    assert!(!text.contains("provider-tls"));
    assert_eq!(lab.find("", "Secret", "open").await, None);
}

#[tokio::test]
async fn a_pod_that_does_not_come_up_says_why() {
    let lab = Lab::new().await;
    let provider = lab.provider("stuck", mock()).await;
    lab.way(&provider).await.expect("made");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "stuck-1",
            "labels": {
                "app.kubernetes.io/name": "virtrigaud-provider",
                "app.kubernetes.io/instance": "stuck",
            },
        },
        "spec": {"containers": [{"name": "provider", "image": "x"}]},
    });
    let api = lab.api("", "Pod");
    let pod = serde_json::from_value(pod).expect("an object");
    api.create(&PostParams::default(), &pod)
        .await
        .expect("made");
    let status = json!({"status": {"containerStatuses": [{
        "name": "provider", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}},
    }]}});
    let params = PatchParams::default();
    api.patch_status("stuck-1", &params, &kube::api::Patch::Merge(status))
        .await
        .expect("patched");
    let way = lab.way(&provider).await.expect("made");
    let pods = way.place.pods.expect("it has pods");
    assert_eq!(pods.ready, 0);
    assert_eq!(
        pods.trouble.as_deref(),
        Some("pod stuck-1: ErrImagePull: no such image")
    );
}
