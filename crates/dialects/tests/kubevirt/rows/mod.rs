//! Every row of the documents of the KubeVirt operator of the Viti Stack, in our words, and whether it holds.
//!
//! One cluster is supervisor and runs the VMs, as in the first of the two documents; the rows of the second, about many clusters,
//! are looked at with more of them in [`crate::many`].

mod fields;
mod place;
mod static_rows;
mod told;
mod troubles;

use std::time::Duration;

use polyvirt_dialects::vitistack::Settings;
use polyvirt_dialects::vitistack::settings::ConfigsNamespace;
use serde_json::{Value, json};

use crate::manager::Manager;
use crate::site::{ALONE, Site, introduce, machine};

pub const NS: &str = "default";
const CONFIGS: &str = "kubevirt-configs";

/// The cluster, the program beside it, and what a row may ask.
pub struct Lab {
    pub site: Site,
    pub manager: Manager,
}

impl Lab {
    pub async fn machine(&self, name: &str, spec: Value) {
        self.site.apply(machine(NS, name, spec)).await;
    }

    pub async fn runs(&self, name: &str, spec: Value) -> Value {
        self.machine(name, spec).await;
        self.site.phase((NS, name), "Running").await
    }

    pub async fn fails(&self, name: &str, reason: &str) -> Value {
        let holds = |m: &Value| m["status"]["failureReason"] == reason;
        self.site.until("Machine", (NS, name), reason, holds).await
    }
}

/// The entry at a path such as `spec/disks[name=root]/size`; null if there is none.
pub fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    const NOTHING: &Value = &Value::Null;
    let mut here = object;
    for step in path.split('/') {
        let (key, wanted) = step.split_once('[').unwrap_or((step, ""));
        here = here.get(key).unwrap_or(NOTHING);
        if let Some((field, value)) = wanted.trim_end_matches(']').split_once('=') {
            let entries = here.as_array().into_iter().flatten();
            let mut fitting = entries.filter(|entry| entry[field] == value);
            here = fitting.next().unwrap_or(NOTHING);
        }
    }
    here
}

async fn networks(site: &Site) {
    for (name, vlan) in [("prod-network", 100), ("storage-network", 200)] {
        site.apply(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
            "metadata": {"name": name, "namespace": NS},
            "spec": {"name": name, "vlan": vlan},
        }))
        .await;
    }
}

fn settings() -> Settings {
    Settings {
        configs_namespace: ConfigsNamespace::One(CONFIGS.to_owned()),
        access_mode: Some("ReadWriteOnce".to_owned()),
        volume_mode: Some("Filesystem".to_owned()),
        resync: Duration::from_secs(2),
        ..Settings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_of_the_documents_holds() {
    let _alone = ALONE.lock().await;
    let site = Site::supervisor().await.with_kubevirt().await;
    site.namespace(CONFIGS).await;
    networks(&site).await;
    let manager = Manager::ready(&site, settings()).await;
    let lab = Lab { site, manager };
    println!("place::no_cluster");
    place::no_cluster(&lab).await;
    introduce(&lab.site, CONFIGS, "cluster-east", &lab.site.kubeconfig()).await;
    println!("place::one_cluster");
    place::one_cluster(&lab).await;
    println!("fields::spec");
    fields::spec(&lab).await;
    println!("fields::sizes");
    fields::sizes(&lab).await;
    println!("fields::claims");
    fields::claims(&lab).await;
    println!("fields::addresses");
    fields::addresses(&lab).await;
    println!("troubles::lifecycle");
    troubles::lifecycle(&lab).await;
    println!("troubles::errors");
    troubles::errors(&lab).await;
    println!("place::two_clusters");
    place::two_clusters(&lab).await;
    println!("told::metrics");
    told::metrics(&lab);
    println!("told::clusters");
    told::clusters(&lab);
    println!("told::log_lines");
    told::log_lines(&lab);
    println!("told::commands");
    told::commands(&lab).await;
    println!("troubles::cleanup");
    troubles::cleanup(&lab).await;
}
