//! What a move is asked to be like, in QEMU's words. Pure.

use polyvirt_contract::model::{MigrateVm, MigrationMode};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::fleet::pace::{Pace, Terms};
use serde_json::{Value, json};

use super::key;
use crate::state::Was;

/// Connections that carry compressed memory side by side.
const CONNECTIONS: u8 = 2;
/// What QEMU takes for no limit.
const NO_LIMIT: u64 = 1 << 40;
/// The least that can be allowed: less does not carry QEMU's own words.
const LEAST: u64 = 64 << 10;
/// Of a limited line, the part that is kept for disks while memory moves.
const FOR_DISKS: u64 = 8;

/// Refuses what can never be honoured.
pub(super) fn check(wish: &MigrateVm) -> Result<()> {
    let refused = |field: &str, why: &str| {
        Err(ProviderError::new(ErrorKind::Unsupported, why.to_owned()).at(field))
    };
    if wish.bandwidth.is_some_and(|bytes| bytes < LEAST) {
        return refused(
            "bandwidth",
            "So slow no guest ever arrives; allow 64 KiB a second (65536 bytes) or more",
        );
    }
    if wish.post_copy && wish.mode == MigrationMode::Cold {
        return refused(
            "postCopy",
            "A guest that is stopped for its move has nothing to fetch afterwards; move it live, or take the wish away",
        );
    }
    Ok(())
}

/// Whether all of memory is compressed, on several connections. QEMU cannot fetch afterwards what came by those, and by those
/// it sends faster than it is allowed to.
const fn by_many(wish: &MigrateVm) -> bool {
    wish.compression && !wish.post_copy && wish.bandwidth.is_none()
}

/// The arguments of `migrate-set-capabilities`, the same on both sides. All are said, for an earlier move may have left others.
pub(super) fn capabilities(wish: &MigrateVm) -> Value {
    let all = [
        ("events", true),
        ("return-path", true),
        ("pause-before-switchover", true),
        ("auto-converge", wish.auto_converge),
        ("postcopy-ram", wish.post_copy),
        ("multifd", by_many(wish)),
        ("xbzrle", wish.compression && !by_many(wish)),
    ];
    let all = all.map(|(capability, state)| json!({"capability": capability, "state": state}));
    json!({"capabilities": all})
}

/// The arguments of `migrate-set-parameters`, the same on both sides.
pub(super) fn parameters(wish: &MigrateVm) -> Value {
    let (compression, channels) = if by_many(wish) {
        ("zstd", CONNECTIONS)
    } else {
        ("none", CONNECTIONS)
    };
    let memory = for_memory(wish);
    json!({
        "tls-creds": if wish.encrypted { key::ID } else { "" },
        "max-bandwidth": memory.unwrap_or(NO_LIMIT),
        "max-postcopy-bandwidth": memory.unwrap_or(0),
        "multifd-compression": compression,
        "multifd-channels": channels,
    })
}

/// What memory may take of the line, in bytes a second; all if absent.
fn for_memory(wish: &MigrateVm) -> Option<u64> {
    wish.bandwidth.map(|all| all - all / FOR_DISKS)
}

/// How fast memory goes: of a guest that stands still all the time, as fast as may be.
pub(super) fn pace(wish: &MigrateVm, was: Was) -> Option<Pace> {
    let live = was == Was::On && wish.mode == MigrationMode::Live;
    live.then(|| Pace::new(for_memory(wish)))
}

/// The arguments of `migrate-set-parameters` by which the source keeps to these terms.
pub(super) fn kept(terms: Terms) -> Value {
    json!({
        "max-bandwidth": terms.speed.unwrap_or(NO_LIMIT),
        "downtime-limit": u64::try_from(terms.downtime.as_millis()).unwrap_or(u64::MAX),
    })
}

/// What a disk may take of the line, in bytes a second; 0 for all. First disks go alone, then beside memory.
pub(super) fn disk_speed(wish: &MigrateVm, disks: usize, beside_memory: bool) -> u64 {
    let disks = u64::try_from(disks).unwrap_or(1).max(1);
    wish.bandwidth.map_or(0, |all| {
        let part = if beside_memory { all / FOR_DISKS } else { all };
        (part / disks).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(change: impl FnOnce(&mut MigrateVm)) -> MigrateVm {
        let mut wish = MigrateVm::default();
        change(&mut wish);
        wish
    }

    fn on(wish: &MigrateVm) -> Vec<String> {
        let said = capabilities(wish);
        let all = said["capabilities"].as_array().expect("a list").iter();
        let on = all.filter(|one| one["state"] == true);
        on.map(|one| one["capability"].as_str().expect("a name").to_owned())
            .collect()
    }

    #[test]
    fn every_wish_has_its_capability_and_nothing_else_has() {
        let always = ["events", "return-path", "pause-before-switchover"];
        for (wish, more) in [
            (MigrateVm::default(), None),
            (asked(|w| w.auto_converge = true), Some("auto-converge")),
            (asked(|w| w.post_copy = true), Some("postcopy-ram")),
            (asked(|w| w.compression = true), Some("multifd")),
            (
                asked(|w| (w.compression, w.bandwidth) = (true, Some(1 << 20))),
                Some("xbzrle"),
            ),
        ] {
            let expected: Vec<_> = always.into_iter().chain(more).map(str::to_owned).collect();
            assert_eq!(on(&wish), expected, "{wish:?}");
        }
        let fetched = on(&asked(|w| (w.compression, w.post_copy) = (true, true)));
        assert!(fetched.contains(&"xbzrle".to_owned()), "{fetched:?}");
        assert!(!fetched.contains(&"multifd".to_owned()), "{fetched:?}");
    }

    #[test]
    fn memory_and_disks_share_what_is_allowed() {
        let wish = asked(|w| w.bandwidth = Some(8 << 20));
        assert_eq!(parameters(&wish)["max-bandwidth"], 7 << 20);
        let pace = pace(&wish, Was::On).expect("it runs");
        assert_eq!(kept(pace.begin())["max-bandwidth"], 7 << 20);
        assert_eq!(kept(pace.begin())["downtime-limit"], 20);
        assert_eq!(disk_speed(&wish, 2, false), 4 << 20);
        assert_eq!(disk_speed(&wish, 2, true), 512 << 10);
        let free = MigrateVm::default();
        assert_eq!(disk_speed(&free, 1, false), 0);
        assert_eq!(parameters(&free)["tls-creds"], "");
        let hidden = asked(|w| w.encrypted = true);
        assert_eq!(parameters(&hidden)["tls-creds"], key::ID);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        let slow = check(&asked(|w| w.bandwidth = Some(1))).expect_err("too slow");
        assert_eq!(slow.field.as_deref(), Some("bandwidth"));
        let senseless = asked(|w| (w.post_copy, w.mode) = (true, MigrationMode::Cold));
        let error = check(&senseless).expect_err("senseless");
        assert_eq!(error.field.as_deref(), Some("postCopy"));
        assert_eq!(check(&MigrateVm::default()), Ok(()));
    }
}
