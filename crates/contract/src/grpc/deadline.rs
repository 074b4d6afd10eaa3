//! How long each call may take, in one table.

use std::time::Duration;

/// A call of either service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `Validate`.
    Validate,
    /// `Create`.
    Create,
    /// `Delete`.
    Delete,
    /// `Power`.
    Power,
    /// `Reconfigure`.
    Reconfigure,
    /// `HardwareUpgrade`.
    HardwareUpgrade,
    /// `Describe`.
    Describe,
    /// `TaskStatus`.
    TaskStatus,
    /// `SnapshotCreate`.
    SnapshotCreate,
    /// `SnapshotDelete`.
    SnapshotDelete,
    /// `SnapshotRevert`.
    SnapshotRevert,
    /// `Clone`.
    Clone,
    /// `ImagePrepare`.
    ImagePrepare,
    /// `GetCapabilities`.
    GetCapabilities,
    /// `ExportDisk`.
    ExportDisk,
    /// `ImportDisk`.
    ImportDisk,
    /// `GetDiskInfo`.
    GetDiskInfo,
    /// `ListVMs` and `ListVms`.
    ListVms,
    /// `GetFeatures`.
    GetFeatures,
    /// `FindVm`.
    FindVm,
    /// `Watch`: the time to the beginning of the stream.
    WatchStart,
    /// `Watch`: the longest silence of the stream.
    WatchSilence,
    /// `Inventory`.
    Inventory,
    /// `DeleteImage`.
    DeleteImage,
    /// `GuestExec`: in addition to the time that the command may run.
    GuestExec,
    /// `Console`: the time to the beginning of the stream.
    ConsoleStart,
    /// `Migrate`.
    Migrate,
    /// `GetMigrationProgress`.
    GetMigrationProgress,
    /// `CancelMigration`.
    CancelMigration,
    /// `GetUsage`.
    GetUsage,
    /// `PackVm`.
    PackVm,
    /// `ReceiveVm`.
    ReceiveVm,
    /// `SendVm`: the time to the beginning of the stream.
    SendStart,
    /// `SendVm`: the longest silence of the stream.
    SendSilence,
    /// `ListMoves`.
    ListMoves,
    /// `SettleMove`.
    SettleMove,
}

const TABLE: [(Call, u64); 36] = [
    (Call::Validate, 30),
    (Call::Create, 5 * 60),
    (Call::Delete, 2 * 60),
    (Call::Power, 2 * 60),
    (Call::Reconfigure, 5 * 60),
    (Call::HardwareUpgrade, 5 * 60),
    (Call::Describe, 30),
    (Call::TaskStatus, 10),
    (Call::SnapshotCreate, 5 * 60),
    (Call::SnapshotDelete, 2 * 60),
    (Call::SnapshotRevert, 5 * 60),
    (Call::Clone, 5 * 60),
    (Call::ImagePrepare, 5 * 60),
    (Call::GetCapabilities, 30),
    (Call::ExportDisk, 30 * 60),
    (Call::ImportDisk, 30 * 60),
    (Call::GetDiskInfo, 2 * 60),
    (Call::ListVms, 2 * 60),
    (Call::GetFeatures, 10),
    (Call::FindVm, 30),
    (Call::WatchStart, 30),
    (Call::WatchSilence, 60),
    (Call::Inventory, 30),
    (Call::DeleteImage, 2 * 60),
    (Call::GuestExec, 30),
    (Call::ConsoleStart, 30),
    (Call::Migrate, 2 * 60),
    (Call::GetMigrationProgress, 10),
    (Call::CancelMigration, 2 * 60),
    (Call::GetUsage, 30),
    (Call::PackVm, 60),
    (Call::ReceiveVm, 2 * 60),
    (Call::SendStart, 60),
    (Call::SendSilence, 30),
    (Call::ListMoves, 10),
    (Call::SettleMove, 60),
];

/// How long a client waits for each call. The default is the table of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlines([Duration; TABLE.len()]);

impl Default for Deadlines {
    fn default() -> Self {
        Self(TABLE.map(|(_, seconds)| Duration::from_secs(seconds)))
    }
}

impl Deadlines {
    /// The time for a call.
    pub const fn of(&self, call: Call) -> Duration {
        self.0[call as usize]
    }

    /// Another time for a call.
    #[must_use]
    pub const fn with(mut self, call: Call, time: Duration) -> Self {
        self.0[call as usize] = time;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_calls() {
        for (position, (call, _)) in TABLE.into_iter().enumerate() {
            assert_eq!(call as usize, position, "{call:?}");
        }
    }

    #[test]
    fn one_call_can_be_given_another_time() {
        let deadlines = Deadlines::default().with(Call::Create, Duration::from_secs(1));
        assert_eq!(deadlines.of(Call::Create), Duration::from_secs(1));
        assert_eq!(deadlines.of(Call::Validate), Duration::from_secs(30));
    }
}
