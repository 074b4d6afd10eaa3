//! What a provider can do: the flags of `provider.v1`, and what it says through the extensions.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The answer of `GetCapabilities`. An empty list of back ends means `pvc`, an empty list of transfer modes `relay`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each flag is one field of the wire contract"
)]
pub struct Capabilities {
    /// CPU and memory can change while the VM runs.
    pub reconfigure_online: bool,
    /// Disks can grow while the VM runs.
    pub disk_expansion_online: bool,
    /// Snapshots of disks.
    pub snapshots: bool,
    /// Snapshots with memory.
    pub memory_snapshots: bool,
    /// Clones that share the disk of their source.
    pub linked_clones: bool,
    /// Images can be brought in from elsewhere.
    pub image_import: bool,
    /// Values for the type of a disk.
    pub disk_types: Vec<String>,
    /// Values for the type of a network.
    pub network_types: Vec<String>,
    /// Disks can be written to a staging place.
    pub disk_export: bool,
    /// Disks can be read from a staging place.
    pub disk_import: bool,
    /// Formats that an export can write.
    pub export_formats: Vec<String>,
    /// Formats that an import can read.
    pub import_formats: Vec<String>,
    /// Exports can be compressed.
    pub export_compression: bool,
    /// Staging back ends for export.
    pub export_backends: Vec<String>,
    /// Staging back ends for import.
    pub import_backends: Vec<String>,
    /// Ways to carry the data.
    pub transfer_modes: Vec<String>,
    /// Hosts are listed, and a VM is created on the one that is named.
    pub clustering: bool,
    /// An imported image is found by its VMImage and the digest of its source, never by its name.
    pub image_artifact_identity: bool,
    /// What of a change waits for a restart is reported.
    pub honest_reconfigure: bool,
}

/// A part of the extension service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Extension {
    /// Mutations carry an identity, `Create` is find-or-create by it, and `find` answers by it.
    Identity,
    /// Changes of VMs and tasks are streamed.
    Watch,
    /// Hosts, datastores and networks can be listed.
    Inventory,
    /// Commands can be run in the guest.
    GuestExec,
    /// A console can be attached.
    Console,
    /// VMs can be moved to another host.
    Migrate,
    /// What VMs use can be asked.
    Usage,
    /// A VM that runs can be paused.
    Pause,
}

impl Extension {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Identity,
        Self::Watch,
        Self::Inventory,
        Self::GuestExec,
        Self::Console,
        Self::Migrate,
        Self::Usage,
        Self::Pause,
    ];

    /// The name on the wire and in `Provider.status.features`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "Identity",
            Self::Watch => "Watch",
            Self::Inventory => "Inventory",
            Self::GuestExec => "GuestExec",
            Self::Console => "Console",
            Self::Migrate => "Migrate",
            Self::Usage => "Usage",
            Self::Pause => "Pause",
        }
    }

    /// The extension of that name; an unknown one is of a newer provider and is ignored by the caller.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|e| e.name() == name)
    }
}

/// What a provider says about itself beyond `provider.v1`. The default is a provider without extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The provider's type, for example `qemu`. Empty where it does not say.
    pub provider_type: String,
    /// The provider's version. Empty where it does not say.
    pub version: String,
    /// The extensions that it offers.
    pub extensions: BTreeSet<Extension>,
    /// Paths of the fields that it honours (`spec.disks[].type`, `class.firmware`); a trailing `.*` covers all below.
    /// `None` where it does not say: then nothing is known to be ignored.
    pub honoured_fields: Option<BTreeSet<String>>,
}

impl Features {
    /// Whether the provider offers the extension.
    pub fn has(&self, extension: Extension) -> bool {
        self.extensions.contains(&extension)
    }

    /// Whether a field at this path acts on this provider, as far as it has told.
    pub fn honours(&self, path: &str) -> bool {
        let Some(fields) = &self.honoured_fields else {
            return true;
        };
        fields.contains(path)
            || fields.iter().any(|f| {
                f.strip_suffix(".*").is_some_and(|p| {
                    path.strip_prefix(p)
                        .is_some_and(|rest| rest.starts_with(['.', '[']))
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honoured_fields_match_exactly_or_below_a_star() {
        let says = |list: &[&str]| Features {
            honoured_fields: Some(list.iter().map(ToString::to_string).collect()),
            ..Features::default()
        };
        let features = says(&["spec.tags", "class.performanceProfile.*"]);
        assert!(features.honours("spec.tags"));
        assert!(features.honours("class.performanceProfile.nestedVirtualization"));
        assert!(!features.honours("class.performanceProfileX.a"));
        assert!(!features.honours("spec.placement.host"));
        assert!(Features::default().honours("anything"));
    }

    #[test]
    fn extension_names_round_trip() {
        for extension in Extension::ALL {
            assert_eq!(Extension::parse(extension.name()), Some(extension));
        }
        assert_eq!(Extension::parse("Teleport"), None);
    }
}
