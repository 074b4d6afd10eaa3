//! Images: where they come from, and what became of them on a provider.

use std::collections::BTreeMap;

use crate::ids::{ImageId, TaskId};
use crate::model::Owner;

/// Where an image comes from. Exactly one origin is given in a VMImage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageOrigin {
    /// A file, volume or URL for libvirt and QEMU.
    Libvirt {
        /// A path on the hypervisor; empty if `url` is given.
        path: String,
        /// Where to fetch from; empty if `path` is given.
        url: String,
        /// `qcow2`, `raw`, …
        format: String,
        /// A storage pool; empty for the default.
        storage_pool: String,
    },
    /// A template, OVA or content library item for vSphere.
    Vsphere {
        /// A template; empty if another is given.
        template_name: String,
        /// An OVA; empty if another is given.
        ova_url: String,
        /// Library, item and version; `None` if another is given.
        content_library: Option<(String, String, String)>,
    },
    /// A template for Proxmox.
    Proxmox {
        /// A VMID; `None` if a name is given.
        template_id: Option<i64>,
        /// A name; empty if an id is given.
        template_name: String,
        /// Storage; empty for the default.
        storage: String,
        /// Node; empty for the default.
        node: String,
        /// `raw`, `qcow2`, `vmdk`.
        format: String,
    },
    /// Any web server.
    Http {
        /// Where to fetch from.
        url: String,
        /// Request headers, with authentication already in them.
        headers: Headers,
    },
    /// A container registry.
    Registry {
        /// Image with tag.
        image: String,
        /// The format of the disk inside.
        format: String,
        /// Who we are, for registries that want to know: `Authorization`.
        headers: Headers,
    },
    /// A DataVolume of CDI, or a claim.
    DataVolume {
        /// Its namespace; empty for that of the reader.
        namespace: String,
        /// Name.
        name: String,
        /// The namespace of the VMImage, in whose name it is read.
        reader: String,
    },
}

/// Request headers. They may hold secrets, so their debug form tells the names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(pub BTreeMap<String, String>);

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// When the origin of an image is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pull {
    /// When the provider lacks the image.
    #[default]
    IfNotPresent,
    /// Each time: what has changed there is fetched anew, beside what was fetched before.
    Always,
    /// Never: the provider must have the image.
    Never,
}

impl Pull {
    /// As manifests and the wire write it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::IfNotPresent => "IfNotPresent",
            Self::Always => "Always",
            Self::Never => "Never",
        }
    }

    /// Nothing stands for the default.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "" | "IfNotPresent" => Some(Self::IfNotPresent),
            "Always" => Some(Self::Always),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }
}

/// An image to make ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareImage {
    /// The VMImage's name, to name the result by.
    pub target_name: String,
    /// Where it comes from.
    pub origin: ImageOrigin,
    /// Hex digest that the bytes must have; empty to skip the check.
    pub checksum: String,
    /// `md5`, `sha1`, `sha256`, `sha512`.
    pub checksum_type: String,
    /// A pool or datastore; empty for the provider's choice.
    pub storage_hint: String,
    /// Whether its origin is looked at though the image is there.
    pub pull: Pull,
    /// What tells this image from all others; `None` if the caller goes by names.
    pub identity: Option<ImageIdentity>,
}

/// What tells one imported image from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageIdentity {
    /// The VMImage; its UID decides.
    pub image: Owner,
    /// `sha256:` and hexadecimal digits over the source that it is made from.
    pub source_digest: String,
}

impl ImageIdentity {
    /// Letters of a UID that are used, and of a digest. More would not fit into the names of all hypervisors.
    const UID: usize = 36;
    const DIGEST: usize = 16;

    /// A name that no other image has, for hypervisors that find images by name. Of letters, digits and `-`.
    pub fn artifact_name(&self) -> String {
        let plain = |text: &str, most: usize| -> String {
            let letters = text
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || *c == '-');
            letters.take(most).collect::<String>().to_ascii_lowercase()
        };
        let digest = self.source_digest.trim_start_matches("sha256:");
        let uid = plain(self.image.identity.as_str(), Self::UID);
        format!("img-{uid}-{}", plain(digest, Self::DIGEST))
    }
}

/// Where the image is (or will be, while the task runs).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedImage {
    /// A template name or VMID; empty if known by path.
    pub id: ImageId,
    /// A path or volume; empty if known by id.
    pub path: String,
    /// Still at work; `None` if finished.
    pub task: Option<TaskId>,
}
