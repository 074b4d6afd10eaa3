//! What a move is asked to be like, in libvirt's words. Pure.

use polyvirt_contract::model::{MigrateVm, MigrationMode, PowerState};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::fleet::pace::Pace;

use crate::rpc::Parameter;

/// libvirt counts speed in these.
const MIB: u64 = 1 << 20;
/// Connections that carry compressed memory side by side.
const CONNECTIONS: i32 = 2;

/// Bits of a move.
mod bit {
    pub(super) const LIVE: u32 = 1;
    pub(super) const PAUSED: u32 = 1 << 5;
    pub(super) const NON_SHARED_DISK: u32 = 1 << 6;
    pub(super) const CHANGE_PROTECTION: u32 = 1 << 8;
    pub(super) const UNSAFE: u32 = 1 << 9;
    pub(super) const COMPRESSED: u32 = 1 << 11;
    pub(super) const ABORT_ON_ERROR: u32 = 1 << 12;
    pub(super) const AUTO_CONVERGE: u32 = 1 << 13;
    pub(super) const POSTCOPY: u32 = 1 << 15;
    pub(super) const TLS: u32 = 1 << 16;
    pub(super) const PARALLEL: u32 = 1 << 17;
}

/// Where the disks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disks {
    /// Some are copied; what is not is shared.
    Copied,
    /// Both hosts have all of them.
    Shared,
}

/// What both sides are told of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) source: u32,
    pub(super) target: u32,
}

/// Refuses what can never be honoured.
pub(super) fn check(request: &MigrateVm) -> Result<()> {
    let refused = |field: &str, why: &str| {
        Err(ProviderError::new(ErrorKind::Unsupported, why.to_owned()).at(field))
    };
    if request.bandwidth.is_some_and(|bytes| bytes < MIB) {
        return refused(
            "bandwidth",
            "libvirt limits a move to whole MiB a second; allow 1 MiB a second (1048576 bytes) or more",
        );
    }
    if request.post_copy && request.mode == MigrationMode::Cold {
        return refused(
            "postCopy",
            "A guest that is stopped for its move has nothing to fetch afterwards; move it live, or take the wish away",
        );
    }
    Ok(())
}

/// Whether the guest runs while it is moved.
fn is_live(request: &MigrateVm, was: PowerState) -> bool {
    was == PowerState::On && request.mode == MigrationMode::Live
}

/// How fast memory goes: of a guest that stands still all the time, as fast as may be.
pub(super) fn pace(request: &MigrateVm, was: PowerState) -> Option<Pace> {
    is_live(request, was).then(|| Pace::new(request.bandwidth))
}

/// The bits for both sides.
pub(super) fn flags(request: &MigrateVm, was: PowerState, disks: Disks, shared: Shared) -> Flags {
    let live = is_live(request, was);
    // The domain is held for the move. That it becomes one of the target's own was seen to before (`carry`): libvirt would write
    // that down while the guest stands still. An error of a disk ends the move, not the guest.
    let always = bit::CHANGE_PROTECTION | bit::ABORT_ON_ERROR;
    let wishes = [
        (live, bit::LIVE),
        (was != PowerState::On, bit::PAUSED),
        (disks == Disks::Copied, bit::NON_SHARED_DISK),
        // libvirt knows network file systems only; we have seen for ourselves.
        (shared == Shared::Some, bit::UNSAFE),
        (live && request.auto_converge, bit::AUTO_CONVERGE),
        (live && request.post_copy, bit::POSTCOPY),
        (request.encrypted, bit::TLS),
        (request.compression, bit::COMPRESSED),
        (by_many(request), bit::PARALLEL),
    ];
    let source = wishes
        .iter()
        .filter(|(wished, _)| *wished)
        .fold(always, |all, (_, bit)| all | bit);
    Flags {
        source,
        target: source & !(bit::ABORT_ON_ERROR | bit::AUTO_CONVERGE),
    }
}

/// Whether all of memory is compressed, on several connections. QEMU cannot fetch afterwards what came by those, and by those
/// it was seen to send more than twice as fast as it was allowed to.
const fn by_many(request: &MigrateVm) -> bool {
    request.compression && !request.post_copy && request.bandwidth.is_none()
}

/// Whether any disk is on storage that both hosts have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    Some,
    None,
}

/// Speed and compression.
pub(super) fn parameters(request: &MigrateVm) -> Vec<Parameter> {
    let mut all = Vec::new();
    if let Some(bytes) = request.bandwidth {
        all.push(Parameter::Wide("bandwidth", bytes / MIB));
        if request.post_copy {
            all.push(Parameter::Wide("bandwidth.postcopy", bytes / MIB));
        }
    }
    if request.compression {
        // Of pages that are sent again only the difference, or of all pages less.
        let method = if by_many(request) { "zstd" } else { "xbzrle" };
        all.push(Parameter::Text("compression", method.to_owned()));
        if by_many(request) {
            all.push(Parameter::Int("parallel.connections", CONNECTIONS));
        }
    }
    all
}

/// The address to send the guest to, without a port: libvirt finds a free one.
pub(super) fn address(host: &str) -> Parameter {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    Parameter::Text("migrate_uri", format!("tcp://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(change: impl FnOnce(&mut MigrateVm)) -> MigrateVm {
        let mut request = MigrateVm::default();
        change(&mut request);
        request
    }

    fn bits(request: &MigrateVm, was: PowerState) -> u32 {
        flags(request, was, Disks::Copied, Shared::None).source
    }

    #[test]
    fn every_wish_has_its_bit_and_nothing_else_has() {
        let plain = bits(&MigrateVm::default(), PowerState::On);
        for (request, more) in [
            (asked(|r| r.encrypted = true), bit::TLS),
            (asked(|r| r.auto_converge = true), bit::AUTO_CONVERGE),
            (asked(|r| r.post_copy = true), bit::POSTCOPY),
            (
                asked(|r| r.compression = true),
                bit::COMPRESSED | bit::PARALLEL,
            ),
            (
                asked(|r| (r.compression, r.post_copy) = (true, true)),
                bit::COMPRESSED | bit::POSTCOPY,
            ),
            (
                asked(|r| (r.compression, r.bandwidth) = (true, Some(MIB))),
                bit::COMPRESSED,
            ),
        ] {
            assert_eq!(bits(&request, PowerState::On), plain | more, "{request:?}");
        }
        let cold = asked(|r| r.mode = MigrationMode::Cold);
        assert_eq!(bits(&cold, PowerState::On), plain & !bit::LIVE);
        let live = MigrateVm::default();
        let paused = plain & !bit::LIVE | bit::PAUSED;
        assert_eq!(bits(&live, PowerState::Off), paused);
        assert_eq!(bits(&live, PowerState::Suspended), paused);
    }

    #[test]
    fn shared_disks_are_not_copied() {
        let request = MigrateVm::default();
        let both = flags(&request, PowerState::On, Disks::Shared, Shared::Some);
        assert_eq!(both.source & bit::NON_SHARED_DISK, 0);
        assert_eq!(both.source & bit::UNSAFE, bit::UNSAFE);
        let apart = flags(&request, PowerState::On, Disks::Copied, Shared::None);
        assert_eq!(apart.source & bit::UNSAFE, 0);
        assert_eq!(apart.target & bit::ABORT_ON_ERROR, 0);
    }

    #[test]
    fn speed_is_told_in_whole_mib_and_never_more_than_was_allowed() {
        let request = asked(|r| r.bandwidth = Some(3 * MIB - 1));
        assert_eq!(check(&request), Ok(()));
        assert_eq!(parameters(&request), vec![Parameter::Wide("bandwidth", 2)]);
        let error = check(&asked(|r| r.bandwidth = Some(MIB - 1))).expect_err("too little");
        assert_eq!(error.field.as_deref(), Some("bandwidth"));
        let error = check(&asked(|r| {
            (r.post_copy, r.mode) = (true, MigrationMode::Cold);
        }));
        let error = error.expect_err("senseless");
        assert_eq!(error.field.as_deref(), Some("postCopy"));
    }

    #[test]
    fn addresses_of_both_kinds_can_be_written() {
        let text = |host: &str| match address(host) {
            Parameter::Text(_, text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text("10.0.0.2"), "tcp://10.0.0.2");
        assert_eq!(text("fd00::2"), "tcp://[fd00::2]");
    }
}
