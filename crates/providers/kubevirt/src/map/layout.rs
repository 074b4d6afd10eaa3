//! Which disks a VM has, what they are made from and where they are kept.

use polyvirt_api::kubevirt::{DiskOption, KubevirtOptions};
use polyvirt_contract::model::{CreateVm, DiskSpec, ImageSource};
use polyvirt_contract::{ProviderError, Result};

use crate::kinds::VmKey;
use crate::names;
use crate::quantity;

/// The volume of the first disk if nobody names it.
const ROOT: &str = "root";
/// The size of a first disk of which nobody says how big it is.
const ROOT_GIB: u32 = 10;
/// The word that leaves the choice to the cluster.
const CLUSTER_DEFAULT: &str = "default";
/// An image of this format is an empty disk.
const BLANK: &str = "blank";

/// What a disk is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nothing: a claim is all that it takes.
    Empty,
    /// A web server, with a checksum such as `sha256:…` or none.
    Http { url: String, checksum: String },
    /// A container registry.
    Registry { url: String },
    /// An object store.
    S3 { url: String },
    /// Google's object store.
    Gcs { url: String },
    /// A copy of another claim.
    Claim(VmKey),
    /// A VolumeSnapshot.
    Snapshot(VmKey),
    /// Whatever a DataSource of CDI points to.
    Pointer(VmKey),
}

/// A disk and its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Its name in the VirtualMachine.
    pub(crate) volume: String,
    /// The PersistentVolumeClaim.
    pub(crate) claim: Claim,
    /// `None` for the size of what it is copied from.
    pub(crate) bytes: Option<u64>,
    pub(crate) storage_class: Option<String>,
    pub(crate) access_mode: Option<String>,
    pub(crate) volume_mode: Option<String>,
    /// Access and volume mode if nobody else says them.
    pub(crate) unsaid: (Option<String>, Option<String>),
    pub(crate) bus: Option<String>,
    pub(crate) source: Source,
    /// Where a person has written its size.
    pub(crate) field: String,
}

/// The name of a claim, and who chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A person: one that is there already is used as it is.
    Given(String),
    /// We did: one that is there already and is not ours is in the way.
    Ours(String),
}

impl Claim {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Given(name) | Self::Ours(name) => name,
        }
    }
}

/// All disks of a VM with claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) root: Disk,
    /// In the order of the manifest.
    pub(crate) others: Vec<Disk>,
    pub(crate) cdrom: Option<Disk>,
}

impl Layout {
    pub(crate) fn of(request: &CreateVm, options: &KubevirtOptions, key: &VmKey) -> Result<Self> {
        let unsaid = DiskOption::default();
        let datastore = request.placement.as_ref().map(|p| p.datastore.as_str());
        let place = Chosen {
            key,
            datastore: datastore.unwrap_or_default(),
        };
        let others = request.disks.iter().enumerate().map(|(index, disk)| {
            place.further(
                index,
                disk,
                options.disks.get(&disk.name).unwrap_or(&unsaid),
            )
        });
        Ok(Self {
            others: others.collect(),
            root: place.root(request, options.root_disk.as_ref().unwrap_or(&unsaid))?,
            cdrom: place.cdrom(options)?,
        })
    }

    /// All disks, in the order in which the VM has them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Disk> {
        std::iter::once(&self.root)
            .chain(&self.others)
            .chain(&self.cdrom)
    }
}

struct Chosen<'a> {
    key: &'a VmKey,
    datastore: &'a str,
}

impl Chosen<'_> {
    fn root(&self, request: &CreateVm, option: &DiskOption) -> Result<Disk> {
        let volume = option.name.clone().unwrap_or_else(|| ROOT.to_owned());
        let source = Source::of_image(&request.image, &self.key.namespace)?;
        let said = request.class.disk_defaults.as_ref().map(|d| d.size_gib);
        let said = said.filter(|gib| *gib > 0).map(quantity::of_gib);
        let copied = matches!(
            source,
            Source::Claim(_) | Source::Snapshot(_) | Source::Pointer(_)
        );
        let unsaid = (!copied).then(|| quantity::of_gib(ROOT_GIB));
        Ok(Disk {
            bytes: option.size_bytes.or(said).or(unsaid),
            source,
            field: "class.diskDefaults.size".to_owned(),
            ..self.plain(volume, option, "")
        })
    }

    fn further(&self, index: usize, disk: &DiskSpec, option: &DiskOption) -> Disk {
        let whole = quantity::of_gib(disk.size_gib);
        // An option of before the disk grew says less than the manifest.
        let exact = option
            .size_bytes
            .filter(|bytes| quantity::gib(*bytes) == disk.size_gib);
        Disk {
            bytes: Some(exact.unwrap_or(whole)),
            field: format!("spec.disks[{index}].sizeGiB"),
            ..self.plain(disk.name.clone(), option, &disk.storage_class)
        }
    }

    fn cdrom(&self, options: &KubevirtOptions) -> Result<Option<Disk>> {
        let Some(cdrom) = &options.cdrom else {
            return Ok(None);
        };
        let image = ImageSource {
            url: cdrom.url.clone(),
            ..ImageSource::default()
        };
        let option = DiskOption {
            claim: (!cdrom.claim.is_empty()).then(|| cdrom.claim.clone()),
            bus: Some("sata".to_owned()),
            ..DiskOption::default()
        };
        Ok(Some(Disk {
            bytes: Some(cdrom.size_bytes).filter(|bytes| *bytes > 0),
            source: Source::of_image(&image, &self.key.namespace)?,
            ..self.plain(cdrom.name.clone(), &option, "")
        }))
    }

    fn plain(&self, volume: String, option: &DiskOption, class: &str) -> Disk {
        let ours = || Claim::Ours(names::joined(&self.key.name, &volume));
        let said = |text: &&str| !text.is_empty() && *text != CLUSTER_DEFAULT;
        let class = option
            .storage_class
            .as_deref()
            .or(Some(class).filter(|text| !text.is_empty()))
            .unwrap_or(self.datastore);
        Disk {
            claim: option.claim.clone().map_or_else(ours, Claim::Given),
            volume,
            bytes: None,
            storage_class: Some(class).filter(said).map(str::to_owned),
            access_mode: option.access_mode.clone(),
            volume_mode: option.volume_mode.clone(),
            unsaid: (
                option.unsaid_access_mode.clone(),
                option.unsaid_volume_mode.clone(),
            ),
            bus: option.bus.clone(),
            source: Source::Empty,
            field: "class.extraConfig".to_owned(),
        }
    }
}

impl Source {
    /// The first that is understood: an empty disk, an address, a claim, a DataSource.
    pub(crate) fn of_image(image: &ImageSource, namespace: &str) -> Result<Self> {
        if image.format == BLANK {
            return Ok(Self::Empty);
        }
        let place = |text: &str| {
            let text = text.trim_start_matches('/');
            let (there, name) = text.split_once('/').unwrap_or((namespace, text));
            VmKey::new(there, name)
        };
        if !image.url.is_empty() {
            return Self::of_url(image, place);
        }
        if !image.path.is_empty() {
            return Ok(Self::Claim(place(&image.path)));
        }
        if !image.template_name.is_empty() {
            return Ok(Self::Pointer(place(&image.template_name)));
        }
        let message = "A VM needs an image: an address, a claim, a DataSource, or an empty disk";
        Err(ProviderError::invalid("spec.imageRef", message))
    }

    fn of_url(image: &ImageSource, place: impl Fn(&str) -> VmKey) -> Result<Self> {
        let url = image.url.clone();
        let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
        Ok(match scheme {
            "http" | "https" => Self::Http {
                checksum: checksum(image),
                url,
            },
            "docker" | "oci-archive" => Self::Registry { url },
            "s3" => Self::S3 { url },
            "gs" => Self::Gcs { url },
            "pvc" => Self::Claim(place(rest)),
            "snapshot" => Self::Snapshot(place(rest)),
            _ => {
                let message = format!(
                    "CDI cannot fetch from {scheme:?}; use http, https, docker, s3, gs, pvc or snapshot"
                );
                return Err(ProviderError::invalid("spec.imageRef", message));
            }
        })
    }
}

fn checksum(image: &ImageSource) -> String {
    match (image.checksum.as_str(), image.checksum_type.as_str()) {
        ("", _) => String::new(),
        (sum, "") => format!("sha256:{sum}"),
        (sum, kind) => format!("{kind}:{sum}"),
    }
}
