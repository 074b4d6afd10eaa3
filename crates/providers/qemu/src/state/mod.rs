//! What is kept on disk.
//!
//! ```text
//!   STATE/lock                    one provider at a time
//!   STATE/accel.json              what guests run with, by QEMU and kernel
//!   STATE/images/ID/image.json    a prepared image; disk.qcow2 beside it is read-only and shared by overlays
//!   STATE/vms/UUID/vm.json        the record: what the VM is and should be, and whom it belongs to
//!   STATE/vms/UUID/console.log    the last of the serial console
//!   STATE/vms/UUID/qemu.log       what QEMU said when it started last
//!   STATE/vms/UUID/run/           QEMU's working folder, its user's own: disks, seed, sockets
//!   STATE/vms/UUID/run/move/      the key of an encrypted move, while it goes on
//! ```
//!
//! The folders above `run` can be passed through and not listed; records belong to the provider alone, so that a QEMU
//! that was broken out of cannot change them.

mod atomic;
mod blocking;
mod dirs;
mod record;

pub(crate) use atomic::{read_json, write_json};
pub(crate) use blocking::off_worker;
pub(crate) use dirs::{OpenDir, StateDir, VmDir};
pub(crate) use record::{
    CpuPlace, Disk, FirmwareKind, Hardware, HotAdd, ImageRecord, Moving, Nic, Plugged, Record,
    SeedKind, Side, Snapshot, Stage, Was,
};
