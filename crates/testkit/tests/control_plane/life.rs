//! Restarts, coming back, and leaving nothing behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use polyvirt_testkit::{Component, ControlPlane, Error, shared};

use crate::{keep, kept, processes_of};

const FOLDER_FILE: &str = "TESTKIT_WRITE_STATE_FOLDER_TO";

#[tokio::test]
async fn a_restarted_api_server_has_its_port_and_data() {
    let plane = ControlPlane::builder().ephemeral().start().await.unwrap();
    let (client, url) = (plane.client().unwrap(), plane.url());
    keep(&client, "before").await;
    plane.kill_apiserver().unwrap();
    client.apiserver_version().await.unwrap_err();
    assert!(matches!(
        plane.rss(),
        Err(Error::NotRunning {
            component: Component::ApiServer
        })
    ));
    plane.restart_apiserver().await.unwrap();
    assert_eq!(plane.url(), url);
    assert_eq!(kept(&client, "before").await.as_deref(), Some("42"));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_state_folder_brings_back_data_ports_and_kubeconfig() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let start = || ControlPlane::builder().state_dir(&state).start();

    let plane = start().await.unwrap();
    keep(&plane.client().unwrap(), "lasting").await;
    let (url, kubeconfig) = (plane.url(), fs::read(plane.kubeconfig_path()).unwrap());
    assert!(matches!(start().await, Err(Error::InUse { .. })));
    plane.stop().await.unwrap();
    assert_eq!(processes_of(&state), Vec::<String>::new());

    let plane = start().await.unwrap();
    assert_eq!(plane.url(), url);
    assert_eq!(fs::read(plane.kubeconfig_path()).unwrap(), kubeconfig);
    assert_eq!(
        kept(&plane.client().unwrap(), "lasting").await.as_deref(),
        Some("42")
    );
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn two_at_once_do_not_meet_and_leave_nothing() {
    let start = || ControlPlane::builder().ephemeral().start();
    let (one, other) = tokio::join!(start(), start());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_ne!(one.url(), other.url());
    keep(&one.client().unwrap(), "only-here").await;
    assert_eq!(kept(&other.client().unwrap(), "only-here").await, None);

    let folders = [one.state_path().to_owned(), other.state_path().to_owned()];
    one.stop().await.unwrap();
    drop(other);
    for folder in folders {
        assert_eq!(processes_of(&folder), Vec::<String>::new());
        assert!(!folder.exists());
    }
}

#[tokio::test]
async fn a_killed_process_leaves_nothing() {
    match std::env::var_os(FOLDER_FILE) {
        Some(file) => run_until_killed(Path::new(&file)).await,
        None => kill_a_process_of_this_test(),
    }
}

async fn run_until_killed(file: &Path) {
    let plane = shared().await.unwrap();
    fs::write(file, plane.state_path().display().to_string()).unwrap();
    std::future::pending::<()>().await;
}

fn kill_a_process_of_this_test() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("folder");
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::a_killed_process_leaves_nothing"])
        .env(FOLDER_FILE, &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let folder = within(Duration::from_mins(2), || fs::read_to_string(&file).ok());
    let folder = Path::new(&folder).to_owned();
    assert!(processes_of(&folder).len() >= 2);
    victim.kill().unwrap();
    victim.wait().unwrap();
    within(Duration::from_secs(20), || {
        (processes_of(&folder).is_empty() && !folder.exists()).then_some(())
    });
}

fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < limit, "not within {limit:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
