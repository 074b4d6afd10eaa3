//! A manager that starts while a cluster takes connections and never says a word.

use std::time::{Duration, Instant};

use polyvirt_dialects::vitistack::Settings;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::manager::Manager;
use crate::site::{ALONE, Site, introduce, machine};

const NS: &str = "default";
/// Of a Machine whose cluster answers, on a busy machine. A connection is given up later than that.
const SOON: Duration = Duration::from_secs(15);

/// Takes connections, and keeps them.
async fn black_hole() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            kept.push(socket);
        }
    });
    format!("https://{address}")
}

async fn of(site: &Site, name: &str, cluster: &str) {
    let mut object = machine(NS, name, json!({"template": "small"}));
    object["metadata"]["annotations"] = json!({"vitistack.io/kubevirt-config": cluster});
    site.apply(object).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_dead_at_the_start_delays_nobody() {
    let _alone = ALONE.lock().await;
    let site = Site::supervisor().await.with_kubevirt().await;
    let kubeconfig = site.kubeconfig();
    let mut dead: Value = serde_json::from_str(&kubeconfig).unwrap();
    dead["clusters"][0]["cluster"]["server"] = json!(black_hole().await);
    introduce(&site, NS, "north", &dead.to_string()).await;
    introduce(&site, NS, "east", &kubeconfig).await;
    for number in 0..5 {
        of(&site, &format!("north-{number}"), "north").await;
        of(&site, &format!("east-{number}"), "east").await;
    }
    let begin = Instant::now();
    let _manager = Manager::ready(&site, Settings::default()).await;
    for number in 0..5 {
        site.phase((NS, &format!("east-{number}")), "Running").await;
    }
    let took = begin.elapsed();
    println!("the others ran {took:?} after the start");
    assert!(took < SOON, "{took:?}");
    let failed = |config: &Value| config["status"]["phase"] == "Failed";
    site.until("KubevirtConfig", (NS, "north"), "Failed", failed)
        .await;
    let waits = site.look("Machine", (NS, "north-0")).await;
    assert_ne!(waits["status"]["phase"], "Running", "{waits:#}");
}
