//! Images: what a source means on a provider, whether it must be brought there first, and what to tell about it.

mod request;
mod wanted;

use polyvirt_api::infra::{
    ChecksumType, DiskImagePull, ImageFormat, ImageProviderStatus, ImportedDisk, OnMissing,
    ProviderType, VMImageSource, VMImageSpec,
};
use polyvirt_contract::Capabilities;
use polyvirt_contract::model::ImageSource;
use serde_json::json;

use crate::digest;
use crate::virtual_machine::facts::ImageReadiness;

pub use request::{prepare_request, reader};
pub use wanted::{Wanted, Wish, pull, wish};

/// The word that the wire uses for a format.
pub fn format_word(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Qcow2 => "qcow2",
        ImageFormat::Raw => "raw",
        ImageFormat::Vmdk => "vmdk",
        ImageFormat::Vhd => "vhd",
        ImageFormat::Vhdx => "vhdx",
        ImageFormat::Iso => "iso",
        ImageFormat::Ova => "ova",
        ImageFormat::Ovf => "ovf",
    }
}

/// The word that the wire uses for a checksum's kind.
pub fn checksum_word(kind: ChecksumType) -> &'static str {
    match kind {
        ChecksumType::Md5 => "md5",
        ChecksumType::Sha1 => "sha1",
        ChecksumType::Sha256 => "sha256",
        ChecksumType::Sha512 => "sha512",
    }
}

/// Changes exactly when the bytes behind the image may have changed, so that an edited image is prepared again; and when
/// somebody sets `spec.prepare.force`, so that it is prepared once more.
pub fn fingerprint(spec: &VMImageSpec) -> String {
    digest::of(&json!({"source": spec.source, "force": is_forced(spec)}))
}

/// Whether a stored fingerprint is that of this image. One of an earlier release counts too, so that an upgrade prepares nothing
/// again.
pub fn is_fingerprint_of(stored: &str, spec: &VMImageSpec) -> bool {
    let legacy = || {
        let mut text = serde_json::to_string(&spec.source).unwrap_or_default();
        if is_forced(spec) {
            text.push_str(" anew");
        }
        digest::legacy(&text)
    };
    stored == fingerprint(spec) || (digest::is_legacy(stored) && stored == legacy())
}

fn is_forced(spec: &VMImageSpec) -> bool {
    spec.prepare.as_ref().is_some_and(|p| p.force)
}

/// The one member of a source that counts on a hypervisor of this kind: its own, else one that is for any, else what there
/// is, which that hypervisor then judges.
pub fn source_on(source: &VMImageSource, kind: Option<ProviderType>) -> VMImageSource {
    let own = own_source(source, kind);
    if own != VMImageSource::default() {
        return own;
    }
    let all = source.clone();
    let none = VMImageSource::default;
    let choices = [
        VMImageSource {
            http: all.http,
            ..none()
        },
        VMImageSource {
            registry: all.registry,
            ..none()
        },
        VMImageSource {
            data_volume: all.data_volume,
            ..none()
        },
        VMImageSource {
            blank: all.blank,
            ..none()
        },
        VMImageSource {
            libvirt: all.libvirt,
            ..none()
        },
        VMImageSource {
            vsphere: all.vsphere,
            ..none()
        },
        VMImageSource {
            proxmox: all.proxmox,
            ..none()
        },
    ];
    let given = choices.into_iter().find(|choice| *choice != none());
    given.unwrap_or_default()
}

fn own_source(source: &VMImageSource, kind: Option<ProviderType>) -> VMImageSource {
    let none = VMImageSource::default();
    match kind {
        Some(ProviderType::Libvirt | ProviderType::Qemu) => VMImageSource {
            libvirt: source.libvirt.clone(),
            ..none
        },
        Some(ProviderType::Vsphere) => VMImageSource {
            vsphere: source.vsphere.clone(),
            ..none
        },
        Some(ProviderType::Proxmox) => VMImageSource {
            proxmox: source.proxmox.clone(),
            ..none
        },
        _ => none,
    }
}

/// The image as it is meant on a hypervisor of this kind. An edit of what other hypervisors take is none for this one.
pub fn spec_on(spec: &VMImageSpec, kind: Option<ProviderType>) -> VMImageSpec {
    let mut meant = VMImageSpec {
        source: source_on(&spec.source, kind),
        ..spec.clone()
    };
    if let Some(storage) = meant.prepare.as_mut().and_then(|p| p.storage.as_mut()) {
        match kind {
            Some(ProviderType::Vsphere) => storage.libvirt = None,
            Some(ProviderType::Libvirt | ProviderType::Qemu) => storage.vsphere = None,
            _ => {}
        }
    }
    meant
}

/// Whether a hypervisor of this kind can read claims of a cluster (`dataVolume`). The mock says so to play one.
pub const fn reads_claims(kind: ProviderType) -> bool {
    matches!(kind, ProviderType::Kubevirt | ProviderType::Mock)
}

/// Whether the source names something to fetch, as opposed to something that the hypervisor has.
pub fn is_import(source: &VMImageSource) -> bool {
    let given = |text: &Option<String>| text.as_deref().is_some_and(|t| !t.is_empty());
    source.http.is_some()
        || source.registry.is_some()
        || source.data_volume.is_some()
        || source.libvirt.as_ref().is_some_and(|s| given(&s.url))
        || source
            .vsphere
            .as_ref()
            .is_some_and(|s| given(&s.ova_url) || s.content_library.is_some())
}

/// The key of a provider in `status.providerStatus`: its name, with the namespace where that is another one.
pub fn provider_key(image_namespace: &str, provider_namespace: &str, provider: &str) -> String {
    if image_namespace == provider_namespace {
        provider.to_owned()
    } else {
        format!("{provider_namespace}/{provider}")
    }
}

/// What must happen before a VM can use the image on a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Nothing.
    Usable,
    /// It must be brought there; nobody has begun.
    NeedsPrepare,
    /// It is on its way.
    Preparing,
    /// It failed; the text says why and when it is tried again.
    Failed(String),
    /// It is not there, and the image says not to bring it.
    Refused(String),
    /// It is not there, and the image says to wait until somebody brings it.
    AwaitsOthers,
}

/// What is known of the source as it is written now.
fn current<'a>(
    spec: &VMImageSpec,
    on: Option<&'a ImageProviderStatus>,
) -> Option<&'a ImageProviderStatus> {
    on.filter(|s| {
        let stored = s.fingerprint.as_deref();
        stored.is_some_and(|stored| is_fingerprint_of(stored, spec))
    })
}

/// How the image stands on the provider of that key, for VMs that want it so.
pub fn availability(
    spec: &VMImageSpec,
    on: Option<&ImageProviderStatus>,
    can: &Capabilities,
    wanted: &Wanted<'_>,
) -> Availability {
    if !is_import(&spec.source) || !can.image_import {
        return Availability::Usable;
    }
    let Some(status) = current(spec, on) else {
        return on_missing(spec);
    };
    if status.available && wanted.is_met_by(status) {
        return Availability::Usable;
    }
    if status.task_ref.is_some() {
        return Availability::Preparing;
    }
    match &status.message {
        Some(why) if status.attempts.unwrap_or(0) > 0 => Availability::Failed(why.clone()),
        _ => Availability::NeedsPrepare,
    }
}

fn on_missing(spec: &VMImageSpec) -> Availability {
    match spec.prepare.as_ref().map(|p| p.on_missing).unwrap_or_default() {
        OnMissing::Import => Availability::NeedsPrepare,
        OnMissing::Wait => Availability::AwaitsOthers,
        OnMissing::Fail => Availability::Refused(
            "The image is not on this provider and spec.prepare.onMissing is Fail. Set it to Import, or bring the image there"
                .to_owned(),
        ),
    }
}

/// What a VM's planner needs to know about its image.
///
/// `spec` is what the image means on the provider of that key.
pub fn readiness(
    name: &str,
    spec: &VMImageSpec,
    (key, on): (&str, Option<&ImageProviderStatus>),
    can: &Capabilities,
    wish: Wish<'_>,
) -> ImageReadiness {
    let mut wanted = Wanted::default();
    if wish.pull == DiskImagePull::Always {
        wanted.checked_for.push(wish.uid);
    }
    let stands = availability(spec, on, can, &wanted);
    if wish.pull == DiskImagePull::Never && stands != Availability::Usable {
        return ImageReadiness::Failed(format!(
            "Image {name} is not on provider {key} and spec.imagePullPolicy is Never. Bring it there by a VM that may fetch it, or set IfNotPresent"
        ));
    }
    match stands {
        Availability::Usable => ImageReadiness::Ready,
        Availability::NeedsPrepare | Availability::Preparing => {
            ImageReadiness::Waiting(format!("Image {name} is being brought to provider {key}"))
        }
        Availability::AwaitsOthers => ImageReadiness::Waiting(format!(
            "Image {name} is not on provider {key} and spec.prepare.onMissing is Wait: bring it there, or set it to Import"
        )),
        Availability::Failed(why) | Availability::Refused(why) => {
            ImageReadiness::Failed(format!("Image {name}: {why}"))
        }
    }
}

/// What the provider is told to make the first disk from.
pub fn source_for_create(source: &VMImageSource, on: Option<&ImageProviderStatus>) -> ImageSource {
    let mut image = declared_source(source);
    if let Some(prepared) = on.filter(|s| s.available && is_import(source)) {
        use_prepared(&mut image, prepared);
    }
    image
}

fn use_prepared(image: &mut ImageSource, prepared: &ImageProviderStatus) {
    let path = prepared.path.clone().unwrap_or_default();
    let id = prepared.id.clone().unwrap_or_default();
    if path.is_empty() && id.is_empty() {
        return;
    }
    image.url.clear();
    image.checksum.clear();
    image.path = path;
    image.template_name = id;
}

/// The format of a first disk that is made empty.
pub const BLANK: &str = "blank";

fn declared_source(source: &VMImageSource) -> ImageSource {
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    if source.blank.is_some() {
        return ImageSource {
            format: BLANK.to_owned(),
            ..ImageSource::default()
        };
    }
    if let Some(s) = &source.libvirt {
        return ImageSource {
            path: text(&s.path),
            url: text(&s.url),
            format: format_word(s.format).to_owned(),
            checksum: text(&s.checksum),
            checksum_type: checksum_word(s.checksum_type).to_owned(),
            ..ImageSource::default()
        };
    }
    if let Some(s) = &source.vsphere {
        return ImageSource {
            template_name: text(&s.template_name),
            url: text(&s.ova_url),
            format: "template".to_owned(),
            checksum: text(&s.checksum),
            checksum_type: checksum_word(s.checksum_type).to_owned(),
            ..ImageSource::default()
        };
    }
    if let Some(s) = &source.proxmox {
        let by_id = s.template_id.map(|id| id.to_string());
        return ImageSource {
            template_name: by_id.unwrap_or_else(|| text(&s.template_name)),
            format: "template".to_owned(),
            checksum_type: "sha256".to_owned(),
            ..ImageSource::default()
        };
    }
    declared_remote(source)
}

fn declared_remote(source: &VMImageSource) -> ImageSource {
    if let Some(s) = &source.http {
        return ImageSource {
            url: s.url.clone(),
            checksum: s.checksum.clone().unwrap_or_default(),
            checksum_type: checksum_word(s.checksum_type).to_owned(),
            ..ImageSource::default()
        };
    }
    if let Some(s) = &source.registry {
        let url = format!("docker://{}", s.image);
        return ImageSource {
            url,
            format: format_word(s.format).to_owned(),
            ..ImageSource::default()
        };
    }
    let volume = source.data_volume.as_ref();
    let url = volume.map(|v| {
        format!(
            "pvc://{}/{}",
            v.namespace.as_deref().unwrap_or_default(),
            v.name
        )
    });
    ImageSource {
        url: url.unwrap_or_default(),
        ..ImageSource::default()
    }
}

/// What the provider is told to make the first disk from when the disk is already there.
pub fn imported_disk(disk: &ImportedDisk) -> ImageSource {
    let format = serde_json::to_value(disk.format)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned));
    let format = format.unwrap_or_else(|| "qcow2".to_owned());
    let path = disk.path.clone().filter(|p| !p.is_empty());
    ImageSource {
        path: path.unwrap_or_else(|| format!("/var/lib/libvirt/images/{}.{format}", disk.disk_id)),
        format,
        checksum_type: "sha256".to_owned(),
        ..ImageSource::default()
    }
}

#[cfg(test)]
mod tests;
