//! What a person reads when it does not start.

use std::fs;
use std::time::Duration;

use polyvirt_testkit::{Component, ControlPlane, Error};
use serde_json::json;

#[tokio::test]
async fn missing_programs_are_named_with_the_remedy() {
    let empty = tempfile::tempdir().unwrap();
    let error = ControlPlane::builder()
        .assets(empty.path())
        .start()
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::AssetsMissing { .. }));
    assert!(text.contains(&empty.path().display().to_string()), "{text}");
    assert!(
        text.contains("make tools") && text.contains("KUBEBUILDER_ASSETS"),
        "{text}"
    );
}

#[tokio::test]
async fn a_component_that_ends_shows_its_last_words() {
    let start = ControlPlane::builder()
        .apiserver_arg("--no-such-flag")
        .start();
    let error = start.await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Exited {
                component: Component::ApiServer,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("unknown flag: --no-such-flag"),
        "{error}"
    );
}

#[tokio::test]
async fn a_deadline_that_passes_says_what_was_missing() {
    let start = ControlPlane::builder()
        .ready_timeout(Duration::ZERO)
        .start();
    let error = start.await.unwrap_err();
    assert!(matches!(error, Error::NotReady { .. }), "{error}");
    assert!(error.to_string().contains("kube-apiserver.log"), "{error}");
}

#[tokio::test]
async fn moves_when_its_port_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let squatter = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = squatter.local_addr().unwrap().port();
    let ports = json!({"etcd": taken, "apiserver": taken}).to_string();
    fs::write(dir.path().join("ports.json"), ports).unwrap();
    let plane = ControlPlane::builder()
        .state_dir(dir.path())
        .start()
        .await
        .unwrap();
    assert!(
        !plane.url().ends_with(&format!(":{taken}")),
        "{}",
        plane.url()
    );
    plane.client().unwrap().apiserver_version().await.unwrap();
    plane.stop().await.unwrap();
}
