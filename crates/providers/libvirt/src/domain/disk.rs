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

/// Where the bytes of a disk are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A qcow2 file.
    File(String),
    /// A block device of the host.
    Block(String),
    /// An image of Ceph: pool and image, who is asked for it, and as whom.
    Rbd {
        path: String,
        hosts: Vec<Element>,
        auth: Option<Element>,
    },
}

impl Place {
    /// An image of a pool, which says where Ceph is.
    pub(crate) fn rbd(path: String, pool: &Element) -> Self {
        Self::Rbd {
            path,
            hosts: pool.all("host").cloned().collect(),
            auth: pool.at("auth").map(as_domains_say),
        }
    }

    /// What names it best.
    pub(crate) fn path(&self) -> &str {
        let (Self::File(path) | Self::Block(path) | Self::Rbd { path, .. }) = self;
        path
    }

    /// The kind of disk, its format, and its source.
    fn told(&self) -> (&'static str, &'static str, Element) {
        let source = Element::new("source");
        match self {
            Self::File(path) => ("file", "qcow2", source.with("file", path)),
            Self::Block(path) => ("block", "raw", source.with("dev", path)),
            Self::Rbd { path, hosts, .. } => {
                let source = source.with("protocol", "rbd").with("name", path);
                ("network", "raw", source.holding_all(hosts.iter().cloned()))
            }
        }
    }

    fn auth(&self) -> Option<Element> {
        match self {
            Self::Rbd { auth, .. } => auth.clone(),
            Self::File(_) | Self::Block(_) => None,
        }
    }
}

/// Pools say once what their secret is for, domains with each.
fn as_domains_say(pool: &Element) -> Element {
    let user = pool.get("username").unwrap_or_default();
    let secret = pool.at("secret").map(|theirs| {
        let secret = Element::new("secret").with("type", "ceph");
        ["uuid", "usage"]
            .iter()
            .filter_map(|name| Some((name, theirs.get(name)?)))
            .fold(secret, |secret, (name, said)| secret.with(name, said))
    });
    Element::new("auth").with("username", user).maybe(secret)
}

/// A disk as a domain has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskPart {
    pub(crate) target: String,
    pub(crate) device: String,
    pub(crate) format: String,
    pub(crate) access: Access,
    /// The file; of other kinds what names the source best.
    pub(crate) path: String,
}

/// What a guest may do with a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Access {
    #[default]
    ReadWrite,
    ReadOnly,
}

impl DiskPart {
    /// Whether a snapshot would have to be of it and cannot.
    pub(crate) fn defies_snapshots(&self) -> bool {
        self.device == "disk" && self.access == Access::ReadWrite && !self.keeps_snapshots()
    }

    /// Whether snapshots lie inside its file.
    pub(crate) fn keeps_snapshots(&self) -> bool {
        self.format == "qcow2" && self.device == "disk"
    }

    pub(crate) fn of(disk: &Element) -> Self {
        let source = disk.at("source");
        let path = source.and_then(|source| source.get(named_by(source)));
        Self {
            target: disk.attr_at("target", "dev"),
            device: disk.get("device").unwrap_or_else(|| "disk".to_owned()),
            format: disk.attr_at("driver", "type"),
            access: if disk.at("readonly").is_some() {
                Access::ReadOnly
            } else {
                Access::ReadWrite
            },
            path: path.unwrap_or_default(),
        }
    }
}

/// What names the source of a disk.
pub(crate) fn named_by(source: &Element) -> &'static str {
    let names = ["file", "dev", "volume", "name"];
    let there = |name: &&&str| source.get(name).is_some();
    names.iter().find(there).copied().unwrap_or("file")
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
pub(crate) fn element(target: &str, place: &Place, tuning: &DiskTuning) -> Element {
    let (kind, format, source) = place.told();
    let mut driver = Element::new("driver")
        .with("name", "qemu")
        .with("type", format)
        .with("discard", "unmap");
    if let Some(cache) = &tuning.cache {
        driver.set("cache", cache);
    }
    if let Some(io) = &tuning.io {
        driver.set("io", io);
    }
    Element::new("disk")
        .with("type", kind)
        .with("device", "disk")
        .holding(driver)
        .maybe(place.auth())
        .holding(source)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::parse;

    /// The real tests show it to libvirt.
    const RBD: &str = include_str!("rbd-disk.xml");

    #[test]
    fn an_image_of_ceph_is_told_with_whom_to_ask_and_as_whom() {
        let pool = "<source><host name='mon-1' port='6789'/><host name='mon-2'/><name>vms</name>
            <auth type='ceph' username='libvirt'><secret uuid='0a1b2c3d-0000-4000-8000-0000000000aa'/></auth></source>";
        let pool = parse(pool).expect("sound").root;
        let place = Place::rbd("vms/disk".to_owned(), &pool);
        let disk = element("vdb", &place, &DiskTuning::default());
        assert_eq!(disk.to_string(), RBD);
        let part = DiskPart::of(&disk);
        assert_eq!(
            (part.path.as_str(), part.format.as_str()),
            ("vms/disk", "raw")
        );
        assert!(part.defies_snapshots());
    }

    #[test]
    fn a_block_device_is_raw_and_a_seed_is_in_nobodys_way() {
        let place = Place::Block("/dev/vg0/x".to_owned());
        let disk = element("vdb", &place, &DiskTuning::default()).to_string();
        assert!(
            disk.contains("type='block'") && disk.contains("<source dev='/dev/vg0/x'/>"),
            "{disk}"
        );
        assert!(disk.contains("type='raw'"), "{disk}");
        assert!(!DiskPart::of(&seed("/s")).defies_snapshots());
    }
}
