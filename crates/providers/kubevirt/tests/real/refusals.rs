//! What the cluster refuses, in its own words.

use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_contract::{ErrorKind, Provider, Retry};

use crate::lab::{Lab, with_options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhooks_text_is_told_and_not_tried_again() {
    let lab = Lab::new().await;
    let options = KubevirtOptions {
        machine_type: Some("pc-i440fx".to_owned()),
        ..KubevirtOptions::default()
    };
    let wish = with_options(lab.wish("old"), &options);
    let error = lab.provider.create(wish).await.expect_err("refused");
    println!("{error}");
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert_eq!(error.kind.retry(), Retry::OnChange);
    assert!(error.message.contains("[q35* pc-q35*]"), "{error}");
    assert!(lab.names("PersistentVolumeClaim").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_is_told_so() {
    let lab = Lab::new().await;
    let plane = polyvirt_testkit::shared().await.expect("a control plane");
    let client = plane.client_as("nobody", &[]).expect("a client");
    let url = polyvirt_provider_kubevirt::KubevirtConfig::from_url("kubevirt://kubeconfig");
    let nobody = polyvirt_provider_kubevirt::Kubevirt::with_client(client, &url.expect("readable"));
    let error = nobody.create(lab.wish("web")).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error}");
    assert!(error.message.contains("nobody"), "{error}");
}
