//! The fields of every kind of `infra.virtrigaud.io`: those that act, and those that do not in this version.
//!
//! A test walks the schemas: each field is listed once, so a new one cannot be forgotten. VirtualMachine, VMClass and
//! VMNetworkAttachment have their lists in [`super::FIELDS`] and [`super::ENGINE_FIELDS`], Provider in [`super::provider`].

use serde_json::Value;

use super::{Counts, values};

/// A field that never acts.
#[derive(Clone, Copy, Debug)]
pub struct Never {
    /// Its path.
    pub path: &'static str,
    /// When it is in use.
    pub counts: Counts,
    /// Why it does not act.
    pub why: &'static str,
}

/// The fields of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// The kind, with its group if it is not ours.
    pub kind: &'static str,
    /// Fields, and groups of them, that act.
    pub acts: &'static [&'static str],
    /// Fields that do not, also inside groups that do.
    pub never: &'static [Never],
    /// Fields that act, but not always: each with when it has no effect. The condition of the object says so then.
    pub sometimes: &'static [(&'static str, &'static str)],
}

impl Fields {
    /// The fields of this kind that are set and do not act.
    pub fn idle(&self, spec: &Value) -> Vec<&'static Never> {
        let in_use = |never: &&Never| {
            let path = never.path.split_once('.').map_or("", |(_, path)| path);
            let mut set = values(spec, path).into_iter();
            set.any(|value| never.counts.says(value))
        };
        self.never.iter().filter(in_use).collect()
    }

    /// An admission warning for each field that is set and does not act.
    pub fn warnings(&self, spec: &impl serde::Serialize) -> Vec<String> {
        let idle = self.idle(&super::json(spec)).into_iter();
        idle.map(|n| format!("{}: has no effect: {}", n.path, n.why))
            .collect()
    }
}

/// A field that counts whenever it is set.
pub const fn set(path: &'static str, why: &'static str) -> Never {
    let counts = Counts::WhenSet;
    Never { path, counts, why }
}

/// A field that counts unless it has one of these values.
pub const fn unless(
    path: &'static str,
    words: &'static [&'static str],
    why: &'static str,
) -> Never {
    let counts = Counts::Unless(words);
    Never { path, counts, why }
}

const fn enabled(path: &'static str, why: &'static str) -> Never {
    let counts = Counts::WhenEnabled;
    Never { path, counts, why }
}

const NO_INVENTORY: &str = "no provider reports what to compare it with";
const OFF: &[&str] = &["false"];
const AS_IT_IS: &str = "images are stored as they are";
const HYPERVISOR: &str = "the provider decides";
const DISKS: &str =
    "it concerns disks that are carried to another Provider, which this version does not do";

/// VMImage.
pub const IMAGE: Fields = Fields {
    kind: "VMImage",
    acts: &[
        "spec.source",
        "spec.consumerNamespaceSelector",
        // For people.
        "spec.metadata",
        "spec.distribution",
        "spec.prepare.onMissing",
        "spec.prepare.force",
        "spec.prepare.retries",
        "spec.prepare.timeout",
        "spec.prepare.validateChecksum",
        "spec.prepare.storage.libvirt.storagePool",
        "spec.prepare.storage.vsphere.datastore",
    ],
    never: &[
        set("spec.prepare.optimization.convertFormat", AS_IT_IS),
        unless("spec.prepare.optimization.enableCompression", OFF, AS_IT_IS),
        unless("spec.prepare.optimization.enableDeltaSync", OFF, AS_IT_IS),
        unless("spec.prepare.optimization.removeUnusedSpace", OFF, AS_IT_IS),
        unless("spec.prepare.storage.compression", OFF, AS_IT_IS),
        set("spec.prepare.storage.preferredFormat", AS_IT_IS),
        set("spec.prepare.storage.libvirt.allocationPolicy", HYPERVISOR),
        set("spec.prepare.storage.libvirt.preallocation", HYPERVISOR),
        set("spec.prepare.storage.vsphere.folder", HYPERVISOR),
        set("spec.prepare.storage.vsphere.diskType", HYPERVISOR),
        set("spec.prepare.storage.vsphere.thinProvisioned", HYPERVISOR),
    ],
    sometimes: &[],
};

/// VMSnapshot. Fields that act only with a schedule, or only without one, are in its report.
pub const SNAPSHOT: Fields = Fields {
    kind: "VMSnapshot",
    acts: &[
        "spec.vmRef",
        "spec.metadata",
        "spec.retentionPolicy",
        "spec.schedule",
        "spec.snapshotConfig.name",
        "spec.snapshotConfig.description",
        "spec.snapshotConfig.includeMemory",
        "spec.snapshotConfig.quiesce",
        "spec.snapshotConfig.type",
        "spec.snapshotConfig.consistencyLevel",
        // Refused if it is enabled.
        "spec.snapshotConfig.encryption",
    ],
    never: &[unless(
        "spec.snapshotConfig.compression",
        OFF,
        "snapshots are stored by the hypervisor",
    )],
    sometimes: &[
        (
            "spec.schedule",
            "enabled on an object that has taken a snapshot",
        ),
        ("spec.retentionPolicy.maxCount", "without a schedule"),
        (
            "spec.snapshotConfig.quiesce",
            "on a provider without extensions",
        ),
    ],
};

/// VMMigration.
pub const MIGRATION: Fields = Fields {
    kind: "VMMigration",
    acts: &[
        "spec.cancel",
        // For people.
        "spec.metadata",
        "spec.source.vmRef",
        "spec.source.providerRef",
        "spec.source.createSnapshot",
        "spec.target.name",
        "spec.target.namespace",
        "spec.target.host",
        "spec.target.vmRef",
        "spec.target.imageRef",
        "spec.target.providerRef",
        "spec.options.live",
        "spec.options.timeout",
        "spec.options.retryPolicy",
        "spec.options.cleanupPolicy",
        "spec.options.verifyChecksums",
    ],
    never: &[
        set("spec.source.snapshotRef", DISKS),
        unless("spec.source.powerOffBeforeMigration", OFF, DISKS),
        unless("spec.source.deleteAfterMigration", OFF, DISKS),
        set("spec.target.classRef", DISKS),
        set("spec.target.placementRef", DISKS),
        set("spec.target.networks", DISKS),
        set("spec.target.disks", DISKS),
        set("spec.target.labels", DISKS),
        set("spec.target.annotations", DISKS),
        unless("spec.target.powerOn", OFF, DISKS),
        set("spec.options.diskFormat", DISKS),
        unless("spec.options.compress", OFF, DISKS),
        set("spec.options.validationChecks", DISKS),
        set("spec.storage", DISKS),
    ],
    sometimes: &[],
};

/// VMPlacementPolicy.
pub const PLACEMENT_POLICY: Fields = Fields {
    kind: "VMPlacementPolicy",
    acts: &["spec"],
    never: &[
        set("spec.hard.tolerations", NO_INVENTORY),
        set("spec.soft.tolerations", NO_INVENTORY),
        enabled("spec.affinity.datastoreAffinity", NO_INVENTORY),
        enabled("spec.antiAffinity.datastoreAntiAffinity", NO_INVENTORY),
        set("spec.securityConstraints.isolationLevel", NO_INVENTORY),
        set(
            "spec.securityConstraints.allowedSecurityGroups",
            NO_INVENTORY,
        ),
        set(
            "spec.securityConstraints.deniedSecurityGroups",
            NO_INVENTORY,
        ),
    ],
    sometimes: &[],
};

const NO_CONTROLLER: &str = "this version does not implement the kind";

/// VMClone.
pub const CLONE: Fields = Fields {
    kind: "VMClone",
    acts: &[],
    never: &[set("spec", NO_CONTROLLER)],
    sometimes: &[],
};

/// VMSet.
pub const SET: Fields = Fields {
    kind: "VMSet",
    acts: &[],
    never: &[set("spec", NO_CONTROLLER)],
    sometimes: &[],
};

/// The kinds whose lists are here.
pub const KINDS: &[Fields] = &[IMAGE, SNAPSHOT, MIGRATION, PLACEMENT_POLICY, CLONE, SET];
