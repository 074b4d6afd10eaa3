//! Keeps QEMU to the pace of a move.

use std::time::Instant;

use polyvirt_contract::Result;
use polyvirt_provider_kit::fleet::pace::{Look, Pace, Terms};
use serde_json::Value;

use super::wish;
use crate::qmp::Qmp;

/// What QEMU was told, and who says what it is told next.
pub(super) struct Keeper {
    pace: Option<Pace>,
    kept: Option<Terms>,
}

impl Keeper {
    /// Tells QEMU what to begin with. A guest that stands still has no pace.
    pub(super) async fn begin(qmp: &Qmp, pace: Option<Pace>) -> Result<Self> {
        let terms = pace.as_ref().map(Pace::begin);
        let mut keeper = Self { pace, kept: None };
        keeper.keep(qmp, terms).await?;
        Ok(keeper)
    }

    /// Takes in how far memory is, by QEMU's answer to `query-migrate`.
    pub(super) async fn look(&mut self, qmp: &Qmp, migration: &Value) -> Result<()> {
        let pace = self.pace.as_mut();
        let terms = pace
            .zip(looked(migration))
            .map(|(pace, look)| pace.after(look));
        self.keep(qmp, terms).await
    }

    async fn keep(&mut self, qmp: &Qmp, terms: Option<Terms>) -> Result<()> {
        let Some(terms) = terms.filter(|terms| self.kept != Some(*terms)) else {
            return Ok(());
        };
        qmp.execute("migrate-set-parameters", wish::kept(terms))
            .await?;
        self.kept = Some(terms);
        Ok(())
    }
}

fn looked(migration: &Value) -> Option<Look> {
    let number = |key: &str| migration["ram"][key].as_u64();
    Some(Look {
        at: Instant::now(),
        pass: number("dirty-sync-count").filter(|pass| *pass > 0)?,
        left: number("remaining")?,
        sent: number("transferred")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn memory_is_looked_at_when_it_moves() {
        assert!(looked(&json!({"status": "setup"})).is_none());
        let ram = json!({"dirty-sync-count": 2, "remaining": 5, "transferred": 9});
        let look = looked(&json!({ "ram": ram })).expect("it moves");
        assert_eq!((look.pass, look.left, look.sent), (2, 5, 9));
    }
}
