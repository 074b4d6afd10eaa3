//! Copies of disks that QEMU has open, all of the same moment.

use polyvirt_contract::Result;
use serde_json::json;

use crate::cmdline::file_node;
use crate::qmp::client::Qmp;

/// A node, the file that it is copied to, and how much of it: `top` or `full`.
pub(crate) type Backup = (String, String, &'static str);

fn target(backup: &Backup) -> String {
    format!("copy-of-{}", backup.0)
}

impl Qmp {
    /// Begins to copy. When it returns, the moment is fixed, and the machine may write again.
    pub(crate) async fn begin_backups(&self, backups: &[Backup]) -> Result<()> {
        for backup in backups {
            let node = file_node(&target(backup), &backup.1);
            if let Err(error) = self.execute("blockdev-add", node).await {
                self.drop_targets(backups).await;
                return Err(error.into());
            }
        }
        let action = |backup: &Backup| {
            let target = target(backup);
            let data = json!({
                "job-id": target, "device": backup.0, "target": target, "sync": backup.2,
                "auto-dismiss": false,
            });
            json!({"type": "blockdev-backup", "data": data})
        };
        let actions: Vec<_> = backups.iter().map(action).collect();
        let begun = self
            .execute("transaction", json!({"actions": actions}))
            .await;
        if begun.is_err() {
            self.drop_targets(backups).await;
        }
        Ok(begun.map(drop)?)
    }

    /// Waits for all copies; the first failure is told.
    pub(crate) async fn finish_backups(&self, backups: &[Backup]) -> Result<()> {
        let mut ended = Ok(());
        for backup in backups {
            let copied = self.await_job(&target(backup), |_| ()).await;
            ended = ended.and(copied);
        }
        self.drop_targets(backups).await;
        ended
    }

    async fn drop_targets(&self, backups: &[Backup]) {
        for backup in backups {
            // One that was never added is none to drop.
            let node = json!({"node-name": target(backup)});
            let _ = self.execute("blockdev-del", node).await;
        }
    }
}
