//! Work that QEMU does in the background.

use std::time::Duration;

use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::{Value, json};

use crate::qmp::client::Qmp;

/// How often to look, in case the event of the end was missed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

impl Qmp {
    /// Begins a job and waits for its end; `told` hears how far it is, in percent.
    pub(crate) async fn run_job(
        &self,
        command: &str,
        id: &str,
        arguments: Value,
        told: impl FnMut(u8),
    ) -> Result<()> {
        self.execute(command, arguments).await?;
        self.await_job(id, told).await
    }

    /// Waits for the end of a job that was begun.
    pub(crate) async fn await_job(&self, id: &str, mut told: impl FnMut(u8)) -> Result<()> {
        let mut events = self.events();
        loop {
            if let Some(job) = self.job(id).await? {
                told(percent(&job));
                match job["status"].as_str() {
                    Some("concluded") => return self.dismiss(id, &job).await,
                    Some("ready") => {
                        self.execute("job-complete", json!({"id": id})).await?;
                    }
                    _ => {}
                }
            } else {
                return Ok(());
            }
            // An event tells at once; without one there is another look.
            let _ = tokio::time::timeout(LOOK_AGAIN, events.recv()).await;
        }
    }

    async fn job(&self, id: &str) -> Result<Option<Value>> {
        let jobs = self.ask("query-jobs").await?;
        let found = jobs
            .as_array()
            .and_then(|jobs| jobs.iter().find(|job| job["id"] == id));
        Ok(found.cloned())
    }

    async fn dismiss(&self, id: &str, job: &Value) -> Result<()> {
        self.execute("job-dismiss", json!({"id": id})).await?;
        match job["error"].as_str() {
            None => Ok(()),
            Some(reason) if reason.contains("No space left") => {
                Err(crate::errors::disk_full("QEMU"))
            }
            Some(reason) => Err(ProviderError::new(
                ErrorKind::Internal,
                format!("QEMU could not finish: {reason}"),
            )),
        }
    }
}

fn percent(job: &Value) -> u8 {
    let number = |key: &str| job[key].as_u64().unwrap_or(0);
    let whole = number("total-progress").max(1);
    u8::try_from((number("current-progress") * 100 / whole).min(99)).unwrap_or(99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_never_claims_the_end() {
        let of = |current, total| {
            percent(&json!({"current-progress": current, "total-progress": total}))
        };
        assert_eq!(of(0, 0), 0);
        assert_eq!(of(1, 4), 25);
        assert_eq!(of(4, 4), 99);
    }
}
