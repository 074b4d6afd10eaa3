//! Disks of a domain.

use polyvirt_contract::{ProviderError, Result};

use super::tuning::DiskTuning;
use crate::xml::Element;

/// Where the first disk is.
pub(crate) const ROOT: &str = "vda";
/// Where the seed is, behind all others.
pub(crate) const SEED: &str = "vdz";
/// Letters of disks beyond the first.
const LETTERS: std::ops::RangeInclusive<char> = 'b'..='y';

/// A disk as a domain has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskPart {
    pub(crate) target: String,
    pub(crate) device: String,
    pub(crate) format: String,
    /// The file; of other kinds what names the source best.
    pub(crate) path: String,
}

impl DiskPart {
    pub(crate) fn of(disk: &Element) -> Self {
        let source = disk.at("source");
        let named = ["file", "dev", "volume", "name"];
        let path = named.iter().find_map(|name| source?.get(name));
        Self {
            target: disk.attr_at("target", "dev"),
            device: disk.get("device").unwrap_or_else(|| "disk".to_owned()),
            format: disk.attr_at("driver", "type"),
            path: path.unwrap_or_default(),
        }
    }
}

/// The first place that no disk has.
pub(crate) fn free_target(taken: &[String]) -> Result<String> {
    let free = LETTERS
        .map(|letter| format!("vd{letter}"))
        .find(|target| !taken.contains(target));
    free.ok_or_else(|| {
        let message = "A VM has at most 24 disks beside the first";
        ProviderError::invalid("spec.disks", message)
    })
}

/// By this a guest tells a disk from its others. It does not change while the disk is there.
pub(crate) fn serial(target: &str) -> String {
    format!("polyvirt-{target}")
}

/// A disk that can be written.
pub(crate) fn element(target: &str, path: &str, tuning: &DiskTuning) -> Element {
    let mut driver = Element::new("driver")
        .with("name", "qemu")
        .with("type", "qcow2")
        .with("discard", "unmap");
    if let Some(cache) = &tuning.cache {
        driver.set("cache", cache);
    }
    if let Some(io) = &tuning.io {
        driver.set("io", io);
    }
    Element::new("disk")
        .with("type", "file")
        .with("device", "disk")
        .holding(driver)
        .holding(Element::new("source").with("file", path))
        .holding(
            Element::new("target")
                .with("dev", target)
                .with("bus", "virtio"),
        )
        .holding(Element::new("serial").saying(serial(target)))
        .maybe(tuning.iotune.clone())
}

/// The small disk that a guest reads at its first boot.
pub(crate) fn seed(path: &str) -> Element {
    Element::new("disk")
        .with("type", "file")
        .with("device", "disk")
        .holding(
            Element::new("driver")
                .with("name", "qemu")
                .with("type", "raw"),
        )
        .holding(Element::new("source").with("file", path))
        .holding(
            Element::new("target")
                .with("dev", SEED)
                .with("bus", "virtio"),
        )
        .holding(Element::new("readonly"))
}
