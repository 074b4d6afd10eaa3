//! Disks that are copied while they are used: QEMU at the source writes to QEMU at the target.

use polyvirt_contract::model::{Handover, Landing, MoveSecret};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{key, wish};
use crate::qmp::Qmp;

/// The file of a node.
pub(super) fn file(node: &str) -> String {
    format!("{node}.qcow2")
}

/// The name under which a disk is offered: only who knows the secret can ask for it.
pub(super) fn export(secret: &MoveSecret, node: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(&secret.0);
    hash.update(node);
    format!("{node}-{}", &key::hex(&hash.finalize())[..32])
}

/// The job and the node of a copy.
fn id(node: &str) -> String {
    format!("move-{node}")
}

/// The copies of one move.
pub(super) struct Mirror<'a> {
    pub(super) qmp: &'a Qmp,
    pub(super) nodes: Vec<String>,
}

/// How far all copies are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) done: u64,
    pub(super) total: u64,
    /// What is not copied yet follows the guest.
    pub(super) ready: bool,
}

impl Mirror<'_> {
    /// Begins to copy all disks.
    pub(super) async fn begin(&self, handover: &Handover, landing: &Landing) -> Result<()> {
        let speed = wish::disk_speed(&handover.wish, self.nodes.len(), false);
        for node in &self.nodes {
            let mut there = json!({
                "node-name": id(node), "driver": "nbd", "export": export(&handover.secret, node),
                "server": {"type": "inet", "host": landing.address, "port": landing.disk_port.to_string()},
                "discard": "unmap",
            });
            if handover.wish.encrypted {
                there["tls-creds"] = json!(key::ID);
            }
            self.qmp.execute("blockdev-add", there).await?;
            let job = json!({
                "job-id": id(node), "device": node, "target": id(node), "sync": "full",
                "speed": speed, "auto-dismiss": false, "auto-finalize": true,
                "on-source-error": "report", "on-target-error": "report",
            });
            self.qmp.execute("blockdev-mirror", job).await?;
        }
        Ok(())
    }

    /// How far they are; an error if one of them has ended before it was told to.
    pub(super) async fn look(&self) -> Result<Copied> {
        let mut all = Copied {
            ready: true,
            ..Copied::default()
        };
        let jobs = self.jobs().await?;
        for node in &self.nodes {
            let job = jobs.iter().find(|job| job["id"] == id(node).as_str());
            let status = job.map_or("", |job| job["status"].as_str().unwrap_or_default());
            if matches!(status, "" | "concluded" | "aborting" | "null") {
                return Err(broken(node, job));
            }
            let number = |key: &str| job.and_then(|job| job[key].as_u64()).unwrap_or(0);
            all.done += number("current-progress");
            all.total += number("total-progress");
            all.ready &= status == "ready";
        }
        Ok(all)
    }

    /// From here on memory has most of the line.
    pub(super) async fn beside_memory(&self, handover: &Handover) -> Result<()> {
        let speed = wish::disk_speed(&handover.wish, self.nodes.len(), true);
        self.limit(speed).await
    }

    async fn limit(&self, speed: u64) -> Result<()> {
        for node in &self.nodes {
            let job = json!({"device": id(node), "speed": speed});
            self.qmp.execute("block-job-set-speed", job).await?;
        }
        Ok(())
    }

    /// The guest stands still: what is left is copied, and then both sides are equal.
    pub(super) async fn finish(&self, handover: &Handover) -> Result<()> {
        let mut events = self.qmp.events();
        if handover.wish.bandwidth.is_some() {
            self.limit(0).await?;
        }
        for node in &self.nodes {
            let job = json!({"device": id(node)});
            self.qmp.execute("block-job-cancel", job).await?;
        }
        for node in &self.nodes {
            while !self.is_over(node).await? {
                let soon = std::time::Duration::from_millis(100);
                let _ = tokio::time::timeout(soon, events.recv()).await;
            }
        }
        Ok(())
    }

    async fn is_over(&self, node: &str) -> Result<bool> {
        let jobs = self.jobs().await?;
        let job = jobs.iter().find(|job| job["id"] == id(node).as_str());
        let Some(job) = job else { return Ok(true) };
        if job["status"] != "concluded" {
            return Ok(false);
        }
        if job["error"].is_string() {
            return Err(broken(node, Some(job)));
        }
        Ok(true)
    }

    async fn jobs(&self) -> Result<Vec<Value>> {
        let jobs = self.qmp.ask("query-jobs").await?;
        Ok(jobs.as_array().cloned().unwrap_or_default())
    }

    /// Ends all copies at once, whatever became of the link, and leaves nothing of them.
    pub(super) async fn abandon(&self) {
        for node in &self.nodes {
            let instance = json!({"instances": [{"type": "block-node", "node-name": id(node)}]});
            // What is not there needs no end.
            let _ = self.qmp.execute("yank", instance).await;
            let job = json!({"device": id(node), "force": true});
            let _ = self.qmp.execute("block-job-cancel", job).await;
        }
        self.clear().await;
    }

    /// Takes away jobs that are over and the nodes that they wrote to.
    pub(super) async fn clear(&self) {
        for node in &self.nodes {
            for _ in 0..100 {
                let _ = self
                    .qmp
                    .execute("job-dismiss", json!({"id": id(node)}))
                    .await;
                let jobs = self.jobs().await.unwrap_or_default();
                if !jobs.iter().any(|job| job["id"] == id(node).as_str()) {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            let _ = self
                .qmp
                .execute("blockdev-del", json!({"node-name": id(node)}))
                .await;
        }
    }
}

fn broken(node: &str, job: Option<&Value>) -> ProviderError {
    let why = job.and_then(|job| job["error"].as_str());
    let message = format!(
        "The disk {node} could not be copied to the target: {}",
        why.unwrap_or("the copy ended")
    );
    ProviderError::new(ErrorKind::Unavailable, message)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_disk_is_offered_to_who_knows_the_secret() {
        let secret = |text: &'static str| MoveSecret(Bytes::from_static(text.as_bytes()));
        let name = export(&secret("one"), "root");
        assert_eq!(name, export(&secret("one"), "root"));
        assert_ne!(name, export(&secret("two"), "root"));
        assert_ne!(name, export(&secret("one"), "data-1"));
        assert!(!name.contains("one"), "{name}");
    }
}
