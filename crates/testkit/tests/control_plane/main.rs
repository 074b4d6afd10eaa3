//! The control plane itself: that it starts, guards its door, survives and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod access;
mod controllers;
mod failures;
mod kubevirt_subresources;
mod life;
mod sharing;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("answer".to_owned(), "42".to_owned())])),
        ..ConfigMap::default()
    }
}

async fn keep(client: &Client, name: &str) {
    let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &config_map(name))
        .await
        .unwrap();
}

async fn kept(client: &Client, name: &str) -> Option<String> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let found = api.get_opt(name).await.unwrap();
    found
        .and_then(|map| map.data)
        .and_then(|mut data| data.remove("answer"))
}

/// The processes that name the folder on their command line.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&folder)).collect()
}
