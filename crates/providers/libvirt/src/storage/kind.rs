//! How pools of different kinds keep disks.
//!
//! | | files (`dir`, `fs`, `netfs`) | `logical` | `rbd` |
//! |---|---|---|---|
//! | a disk is | a qcow2 file | a logical volume, raw | an image of Ceph, raw |
//! | a new first disk | stands upon its image | is a copy of its image | is a clone of an image in the same pool |
//! | small files | beside the disks | in a pool of files | in a pool of files |
//! | grows | by libvirt | by an administrator | by libvirt |
//! | snapshots, linked clones | yes | no | no |

use polyvirt_contract::{ProviderError, Result};
use polyvirt_provider_kit::uuid::Uuid;

use super::name;
use crate::domain::disk::Place;
use crate::errors;
use crate::xml::Element;

/// How a pool keeps disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Files,
    Logical,
    Rbd,
}

/// Words of libvirt.
const WORDS: [(&str, Kind); 5] = [
    ("dir", Kind::Files),
    ("fs", Kind::Files),
    ("netfs", Kind::Files),
    ("logical", Kind::Logical),
    ("rbd", Kind::Rbd),
];

impl Kind {
    /// The kind that libvirt's word means, if such a pool can hold disks of VMs.
    pub(super) fn of(word: &str, pool: &str, field: &str) -> Result<Self> {
        let found = WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let words: Vec<_> = WORDS.iter().map(|(word, _)| *word).collect();
            let message = format!(
                "The storage pool {pool} is of the kind {word}; disks are kept in pools of the kinds {}",
                words.join(", ")
            );
            ProviderError::invalid(field, message)
        })
    }

    /// The name of a VM's disk.
    pub(super) fn disk_name(self, uuid: Uuid, part: &str) -> String {
        match self {
            Self::Files => name(uuid, &format!("{part}.qcow2")),
            Self::Logical | Self::Rbd => name(uuid, &format!("{part}.raw")),
        }
    }

    /// Where a pool keeps its volumes, by its description.
    pub(super) fn folder(self, pool: &Element) -> String {
        match self {
            Self::Files | Self::Logical => pool.text_at("target/path"),
            Self::Rbd => pool.text_at("source/name"),
        }
    }

    /// How a domain is told of a disk at this path.
    pub(super) fn place(self, path: String, source: &Element) -> Place {
        match self {
            Self::Files => Place::File(path),
            Self::Logical => Place::Block(path),
            Self::Rbd => Place::rbd(path, source),
        }
    }

    /// Refuses what only files can do.
    pub(super) fn must_be_files(self, pool: &str, what: &str, field: &str) -> Result<()> {
        if self == Self::Files {
            return Ok(());
        }
        let message = format!(
            "{what} in the storage pool {pool}, which keeps no files; it takes a pool of the kind dir, fs or netfs"
        );
        let error = errors::precondition(message);
        Err(if field.is_empty() {
            error
        } else {
            error.at(field)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::parse;

    #[test]
    fn disks_are_where_their_pool_keeps_them() {
        let uuid = Uuid::from_bytes([1; 16]);
        let logical = parse(
            "<pool type='logical'><name>fast</name><source><name>vg0</name></source><target><path>/dev/vg0</path></target></pool>",
        );
        let logical = logical.expect("sound").root;
        let kind = Kind::of("logical", "fast", "").expect("known");
        assert_eq!(kind.folder(&logical), "/dev/vg0");
        assert_eq!(kind.disk_name(uuid, "root"), format!("{uuid}.root.raw"));
        assert_eq!(
            kind.place("/dev/vg0/x".to_owned(), &Element::new("source")),
            Place::Block("/dev/vg0/x".to_owned())
        );
        let rbd = parse(
            "<pool type='rbd'><source><host name='mon-1' port='6789'/><name>vms</name></source></pool>",
        );
        assert_eq!(Kind::Rbd.folder(&rbd.expect("sound").root), "vms");
        assert_eq!(
            Kind::Files.disk_name(uuid, "vdb"),
            format!("{uuid}.vdb.qcow2")
        );
        let error = Kind::of("iscsi", "far", "spec.placement.datastore").expect_err("another kind");
        assert_eq!(error.field.as_deref(), Some("spec.placement.datastore"));
        assert!(error.message.contains("logical"), "{error}");
    }
}
