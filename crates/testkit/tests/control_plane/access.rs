//! Who gets in, and with what.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};
use polyvirt_testkit::shared;

use crate::processes_of;

fn refusal(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("an answer of the API server was expected, not: {other}"),
    }
}

#[tokio::test]
async fn refuses_a_wrong_token_and_no_credentials() {
    let plane = shared().await.unwrap();
    for token in [Some("guess".to_owned().into()), None] {
        let mut config = plane.config();
        config.auth_info = kube::config::AuthInfo {
            token,
            ..Default::default()
        };
        let client = Client::try_from(config).unwrap();
        let list = Api::<Secret>::all(client)
            .list(&ListParams::default())
            .await;
        assert_eq!(refusal(list.unwrap_err()), 401);
    }
}

#[tokio::test]
async fn asks_the_roles_what_a_user_may_do() {
    let plane = shared().await.unwrap();
    let nobody = plane
        .client_as("nobody", &["system:authenticated"])
        .unwrap();
    let list = Api::<Secret>::all(nobody)
        .list(&ListParams::default())
        .await;
    assert_eq!(refusal(list.unwrap_err()), 403);
    let master = plane.client_as("somebody", &["system:masters"]).unwrap();
    Api::<Secret>::all(master)
        .list(&ListParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn the_kubeconfig_is_private_and_complete() {
    let plane = shared().await.unwrap();
    let path = plane.kubeconfig_path();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let kubeconfig = kube::config::Kubeconfig::read_from(&path).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    Client::try_from(config)
        .unwrap()
        .apiserver_version()
        .await
        .unwrap();
}

#[tokio::test]
async fn keeps_no_secret_on_a_command_line() {
    let plane = shared().await.unwrap();
    let lines = processes_of(plane.state_path()).join("\n");
    assert!(
        lines.contains("kube-apiserver") && lines.contains("etcd"),
        "{lines}"
    );
    assert!(
        !lines.contains("PRIVATE KEY") && !lines.contains("token"),
        "{lines}"
    );
}
