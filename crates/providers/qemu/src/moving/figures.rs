//! From what QEMU counts to what is told of a move. Pure.

use std::time::Duration;

use polyvirt_contract::model::{MigrationPhase, MigrationProgress};
use serde_json::Value;

use super::mirror::Copied;

/// Takes in how far disks and memory are. `migration` is QEMU's answer to `query-migrate`.
pub(super) fn take_in(told: &mut MigrationProgress, disks: Copied, migration: &Value) {
    let ram = &migration["ram"];
    let number = |key: &str| ram[key].as_u64();
    let memory = number("total").unwrap_or(0);
    let total = disks.total + memory;
    if total == 0 {
        return;
    }
    if told.phase == MigrationPhase::Preparing {
        told.phase = MigrationPhase::Copying;
    }
    told.total_bytes = Some(total);
    let left = disks.total.saturating_sub(disks.done) + number("remaining").unwrap_or(0);
    told.remaining_bytes = Some(left);
    let megabits = ram["mbps"].as_f64().filter(|speed| *speed > 0.0);
    if let Some(bytes) = megabits.map(|speed| speed * 125_000.0) {
        told.bytes_per_second = whole(bytes);
    }
    if let Some(expected) = migration["expected-downtime"].as_u64() {
        told.downtime = Some(Duration::from_millis(expected));
    }
}

/// Bytes that have gone to the other side, as far as QEMU has counted: if they grow, the link lives.
pub(super) fn moved(disks: Copied, migration: &Value) -> u64 {
    disks.done + migration["ram"]["transferred"].as_u64().unwrap_or(0)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a speed is not negative, and saturates"
)]
fn whole(number: f64) -> Option<u64> {
    number.is_finite().then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_told_as_they_come() {
        let mut told = MigrationProgress::default();
        take_in(&mut told, Copied::default(), &json!({}));
        assert_eq!(told, MigrationProgress::default(), "nothing is known yet");
        let disks = Copied {
            done: 60,
            total: 100,
            ready: false,
        };
        take_in(&mut told, disks, &json!({}));
        assert_eq!(
            (told.total_bytes, told.remaining_bytes),
            (Some(100), Some(40))
        );
        let memory = json!({
            "ram": {"total": 1000, "remaining": 300, "transferred": 700, "mbps": 8.0},
            "expected-downtime": 250,
        });
        take_in(&mut told, disks, &memory);
        assert_eq!(told.phase, MigrationPhase::Copying);
        assert_eq!(
            (told.total_bytes, told.remaining_bytes),
            (Some(1100), Some(340))
        );
        assert_eq!(told.bytes_per_second, Some(1_000_000));
        assert_eq!(told.downtime, Some(Duration::from_millis(250)));
        assert_eq!(moved(disks, &memory), 760);
    }
}
