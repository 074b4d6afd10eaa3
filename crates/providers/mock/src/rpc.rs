//! The calls of the contract by name, and how often each was made.

use std::fmt;

macro_rules! rpcs {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A call of the contract. The names are those of the wire, so that faults read like the traffic they disturb.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rpc { $($(#[$doc])* $name),* }

        impl Rpc {
            /// All calls.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }
    };
}

rpcs! {
    /// `validate`
    Validate,
    /// `capabilities`
    GetCapabilities,
    /// `create`
    Create,
    /// `delete`
    Delete,
    /// `power`
    Power,
    /// `reconfigure`
    Reconfigure,
    /// `hardware_upgrade`
    HardwareUpgrade,
    /// `describe`
    Describe,
    /// `task_status`
    TaskStatus,
    /// `snapshot_create`
    SnapshotCreate,
    /// `snapshot_delete`
    SnapshotDelete,
    /// `snapshot_revert`
    SnapshotRevert,
    /// `clone_vm`
    Clone,
    /// `image_prepare`
    ImagePrepare,
    /// `export_disk`
    ExportDisk,
    /// `import_disk`
    ImportDisk,
    /// `disk_info`
    GetDiskInfo,
    /// `list_vms`
    ListVMs,
    /// `features`
    Features,
    /// `find`
    Find,
    /// `watch`
    Watch,
    /// `inventory`
    Inventory,
    /// `image_delete`
    DeleteImage,
    /// `guest_exec`
    GuestExec,
    /// `console`
    Console,
    /// `migrate`
    Migrate,
    /// `migration_progress`
    GetMigrationProgress,
    /// `cancel_migration`
    CancelMigration,
    /// `usage`
    GetUsage,
}

impl Rpc {
    /// The call of that name, whatever its case and with or without underscores (`image_prepare`, `ImagePrepare`).
    pub fn parse(name: &str) -> Option<Self> {
        let plain = name.replace('_', "").to_ascii_lowercase();
        Self::ALL
            .iter()
            .copied()
            .find(|rpc| rpc.name().to_ascii_lowercase() == plain)
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often one call was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Times it was called, whatever the answer.
    pub calls: u64,
    /// Times it changed something or started a task.
    pub mutations: u64,
}

/// How often each call was made since the mock began or since the last reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts([Count; Rpc::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self([Count::default(); Rpc::ALL.len()])
    }
}

impl Counts {
    /// One call's count.
    pub const fn of(&self, rpc: Rpc) -> Count {
        self.0[rpc as usize]
    }

    /// Calls of every kind.
    pub fn calls(&self) -> u64 {
        self.0.iter().map(|c| c.calls).sum()
    }

    /// Changes made by calls of every kind.
    pub fn mutations(&self) -> u64 {
        self.0.iter().map(|c| c.mutations).sum()
    }

    /// The calls that were made at least once, in the order of the contract.
    pub fn made(&self) -> impl Iterator<Item = (Rpc, Count)> + '_ {
        Rpc::ALL
            .iter()
            .map(|rpc| (*rpc, self.of(*rpc)))
            .filter(|(_, count)| count.calls > 0)
    }

    pub(crate) const fn called(&mut self, rpc: Rpc) {
        self.0[rpc as usize].calls += 1;
    }

    pub(crate) const fn changed(&mut self, rpc: Rpc) {
        self.0[rpc as usize].mutations += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_both_spellings() {
        for rpc in Rpc::ALL {
            assert_eq!(Rpc::parse(rpc.name()), Some(*rpc));
        }
        assert_eq!(Rpc::parse("image_prepare"), Some(Rpc::ImagePrepare));
        assert_eq!(Rpc::parse("Teleport"), None);
    }

    #[test]
    fn counts_tell_calls_from_changes() {
        let mut counts = Counts::default();
        counts.called(Rpc::Create);
        counts.called(Rpc::Create);
        counts.changed(Rpc::Create);
        let create = Count {
            calls: 2,
            mutations: 1,
        };
        assert_eq!(counts.of(Rpc::Create), create);
        assert_eq!(counts.made().collect::<Vec<_>>(), [(Rpc::Create, create)]);
        assert_eq!((counts.calls(), counts.mutations()), (2, 1));
    }
}
