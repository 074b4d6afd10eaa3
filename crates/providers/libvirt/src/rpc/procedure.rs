//! The calls that are used, by number. Numbers of libvirt's protocol never change; new ones are added.

use std::time::Duration;

use super::frame::{QEMU, REMOTE};

/// How long a call may take, and how many of its kind run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Answered by libvirt alone.
    Quick,
    /// Waits for QEMU, a guest or a disk.
    Slow,
    /// Takes as long as it takes, on a connection of its own; whoever asks sees to it that it goes on.
    Endless,
}

impl Lane {
    /// How long an answer is waited for.
    pub(crate) const fn patience(self) -> Duration {
        match self {
            Self::Quick => Duration::from_secs(60),
            Self::Slow => Duration::from_secs(1800),
            Self::Endless => Duration::from_hours(24 * 7),
        }
    }
}

/// A call that libvirt knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Procedure {
    pub(crate) program: u32,
    pub(crate) number: u32,
    pub(crate) lane: Lane,
}

const fn quick(number: u32) -> Procedure {
    Procedure {
        program: REMOTE,
        number,
        lane: Lane::Quick,
    }
}

const fn slow(number: u32) -> Procedure {
    Procedure {
        program: REMOTE,
        number,
        lane: Lane::Slow,
    }
}

const fn endless(number: u32) -> Procedure {
    Procedure {
        program: REMOTE,
        number,
        lane: Lane::Endless,
    }
}

const fn qemu(number: u32) -> Procedure {
    Procedure {
        program: QEMU,
        number,
        lane: Lane::Slow,
    }
}

pub(crate) const CONNECT_OPEN: Procedure = quick(1);
pub(crate) const CONNECT_GET_VERSION: Procedure = quick(4);
pub(crate) const NODE_GET_INFO: Procedure = quick(6);
pub(crate) const CONNECT_GET_CAPABILITIES: Procedure = quick(7);
pub(crate) const DOMAIN_GET_XML_DESC: Procedure = quick(14);
pub(crate) const DOMAIN_LOOKUP_BY_NAME: Procedure = quick(23);
pub(crate) const DOMAIN_LOOKUP_BY_UUID: Procedure = quick(24);
pub(crate) const DOMAIN_RESUME: Procedure = slow(28);
pub(crate) const DOMAIN_SUSPEND: Procedure = slow(34);
pub(crate) const CONNECT_GET_HOSTNAME: Procedure = quick(59);
pub(crate) const CONNECT_SUPPORTS_FEATURE: Procedure = quick(60);
pub(crate) const AUTH_LIST: Procedure = quick(66);
pub(crate) const AUTH_SASL_INIT: Procedure = quick(67);
pub(crate) const AUTH_SASL_START: Procedure = quick(68);
pub(crate) const AUTH_SASL_STEP: Procedure = quick(69);
pub(crate) const AUTH_POLKIT: Procedure = quick(70);
pub(crate) const STORAGE_POOL_REFRESH: Procedure = slow(83);
pub(crate) const STORAGE_POOL_LOOKUP_BY_NAME: Procedure = quick(84);
pub(crate) const STORAGE_POOL_GET_INFO: Procedure = quick(87);
pub(crate) const STORAGE_POOL_GET_XML_DESC: Procedure = quick(88);
pub(crate) const STORAGE_VOL_CREATE_XML: Procedure = slow(93);
pub(crate) const STORAGE_VOL_DELETE: Procedure = slow(94);
pub(crate) const STORAGE_VOL_LOOKUP_BY_NAME: Procedure = quick(95);
pub(crate) const STORAGE_VOL_LOOKUP_BY_PATH: Procedure = quick(97);
pub(crate) const STORAGE_VOL_GET_XML_DESC: Procedure = quick(99);
pub(crate) const STORAGE_VOL_CREATE_XML_FROM: Procedure = slow(125);
pub(crate) const CONNECT_GET_LIB_VERSION: Procedure = quick(157);
pub(crate) const DOMAIN_ATTACH_DEVICE_FLAGS: Procedure = slow(160);
pub(crate) const DOMAIN_DETACH_DEVICE_FLAGS: Procedure = slow(161);
pub(crate) const DOMAIN_ABORT_JOB: Procedure = quick(164);
pub(crate) const DOMAIN_MIGRATE_SET_MAX_DOWNTIME: Procedure = quick(166);
pub(crate) const DOMAIN_SNAPSHOT_CREATE_XML: Procedure = slow(185);
pub(crate) const DOMAIN_SNAPSHOT_GET_XML_DESC: Procedure = quick(186);
pub(crate) const DOMAIN_SNAPSHOT_CURRENT: Procedure = quick(191);
pub(crate) const DOMAIN_REVERT_TO_SNAPSHOT: Procedure = slow(192);
pub(crate) const DOMAIN_SNAPSHOT_DELETE: Procedure = slow(193);
pub(crate) const DOMAIN_CREATE_WITH_FLAGS: Procedure = slow(196);
pub(crate) const DOMAIN_SET_VCPUS_FLAGS: Procedure = slow(199);
pub(crate) const DOMAIN_OPEN_CONSOLE: Procedure = quick(201);
pub(crate) const DOMAIN_MIGRATE_SET_MAX_SPEED: Procedure = slow(207);
pub(crate) const STORAGE_VOL_UPLOAD: Procedure = quick(208);
pub(crate) const STORAGE_VOL_DOWNLOAD: Procedure = quick(209);
pub(crate) const DOMAIN_GET_STATE: Procedure = quick(212);
pub(crate) const DOMAIN_UNDEFINE_FLAGS: Procedure = slow(231);
pub(crate) const DOMAIN_DESTROY_FLAGS: Procedure = slow(234);
pub(crate) const DOMAIN_RESET: Procedure = slow(245);
pub(crate) const DOMAIN_BLOCK_RESIZE: Procedure = slow(251);
pub(crate) const DOMAIN_SHUTDOWN_FLAGS: Procedure = slow(258);
pub(crate) const STORAGE_VOL_RESIZE: Procedure = slow(260);
pub(crate) const DOMAIN_SET_METADATA: Procedure = slow(264);
pub(crate) const CONNECT_LIST_ALL_DOMAINS: Procedure = quick(273);
pub(crate) const DOMAIN_LIST_ALL_SNAPSHOTS: Procedure = quick(274);
pub(crate) const CONNECT_LIST_ALL_STORAGE_POOLS: Procedure = quick(281);
pub(crate) const STORAGE_POOL_LIST_ALL_VOLUMES: Procedure = quick(282);
pub(crate) const CONNECT_LIST_ALL_NETWORKS: Procedure = quick(283);
pub(crate) const DOMAIN_GET_JOB_STATS: Procedure = quick(298);
pub(crate) const DOMAIN_MIGRATE_BEGIN3_PARAMS: Procedure = slow(302);
pub(crate) const DOMAIN_MIGRATE_PREPARE3_PARAMS: Procedure = slow(303);
pub(crate) const DOMAIN_MIGRATE_PERFORM3_PARAMS: Procedure = endless(305);
pub(crate) const DOMAIN_MIGRATE_FINISH3_PARAMS: Procedure = endless(306);
pub(crate) const DOMAIN_MIGRATE_CONFIRM3_PARAMS: Procedure = slow(307);
pub(crate) const CONNECT_DOMAIN_EVENT_CALLBACK_REGISTER_ANY: Procedure = quick(316);
pub(crate) const DOMAIN_FSFREEZE: Procedure = slow(335);
pub(crate) const DOMAIN_FSTHAW: Procedure = slow(336);
pub(crate) const CONNECT_GET_ALL_DOMAIN_STATS: Procedure = slow(344);
pub(crate) const DOMAIN_DEFINE_XML_FLAGS: Procedure = slow(350);
pub(crate) const DOMAIN_INTERFACE_ADDRESSES: Procedure = slow(353);
pub(crate) const DOMAIN_MIGRATE_START_POST_COPY: Procedure = slow(364);
pub(crate) const DOMAIN_BACKUP_BEGIN: Procedure = slow(421);

pub(crate) const QEMU_MONITOR_COMMAND: Procedure = qemu(1);
pub(crate) const QEMU_AGENT_COMMAND: Procedure = qemu(3);

/// Messages that tell of a domain's life, and of a reboot.
pub(crate) const LIFE_EVENT: u32 = 318;
pub(crate) const REBOOT_EVENT: u32 = 319;

/// The life of a domain, by the number under which it is asked for.
pub(crate) const LIFE: i32 = 0;

/// That a move has begun a pass over the memory of a domain, in the same way.
pub(crate) const PASS: i32 = 20;

/// Events that are listened to, by the number under which they are asked for. Those that only count (the clock, the screen)
/// are left out.
pub(crate) const EVENTS: &[i32] = &[
    LIFE, 1,  // reboot
    3,  // watchdog
    7,  // a disk failed
    16, // a block job ended
    9,  // a disk was changed
    13, // memory was given or taken
    15, // a device has gone
    17, // it was tuned
    18, // the agent came or went
    19, // a device has come
    22, // a device stays
    23, // its metadata
    26, // memory of a device
];
