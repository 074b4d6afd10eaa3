//! The request that brings an image to a provider.

use polyvirt_api::infra::{VMImageSource, VMImageSpec};
use polyvirt_contract::model::{Headers, ImageOrigin, PrepareImage, Pull};

use super::{declared_source, format_word};
use crate::problem::Problem;
use crate::reason::Reason;

/// The namespace in whose name a VMImage reads storage of a cluster; empty for an image that is none.
pub fn reader(source: &VMImageSource, namespace: &str) -> String {
    let claim = source.data_volume.as_ref();
    claim.map(|_| namespace.to_owned()).unwrap_or_default()
}

/// The request that brings the image of that namespace and name to a provider. Authentication is put into `headers` by the caller.
pub fn prepare_request(
    namespace: &str,
    name: &str,
    spec: &VMImageSpec,
) -> Result<PrepareImage, Problem> {
    let declared = declared_source(&spec.source);
    let check = spec.prepare.as_ref().is_none_or(|p| p.validate_checksum);
    Ok(PrepareImage {
        target_name: name.to_owned(),
        origin: origin(&spec.source, namespace)?,
        checksum: if check {
            declared.checksum
        } else {
            String::new()
        },
        checksum_type: declared.checksum_type,
        storage_hint: storage_hint(spec),
        pull: Pull::default(),
        identity: None,
    })
}

fn storage_hint(spec: &VMImageSpec) -> String {
    let storage = spec.prepare.as_ref().and_then(|p| p.storage.as_ref());
    let libvirt = storage
        .and_then(|s| s.libvirt.as_ref())
        .and_then(|l| l.storage_pool.clone());
    let vsphere = storage
        .and_then(|s| s.vsphere.as_ref())
        .and_then(|v| v.datastore.clone());
    libvirt.or(vsphere).unwrap_or_default()
}

fn origin(source: &VMImageSource, reader: &str) -> Result<ImageOrigin, Problem> {
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    if let Some(s) = &source.libvirt {
        return Ok(ImageOrigin::Libvirt {
            path: text(&s.path),
            url: text(&s.url),
            format: format_word(s.format).to_owned(),
            storage_pool: text(&s.storage_pool),
        });
    }
    if let Some(s) = &source.vsphere {
        return Ok(ImageOrigin::Vsphere {
            template_name: text(&s.template_name),
            ova_url: text(&s.ova_url),
            content_library: s
                .content_library
                .as_ref()
                .map(|c| (c.library.clone(), c.item.clone(), text(&c.version))),
        });
    }
    if let Some(s) = &source.http {
        return Ok(ImageOrigin::Http {
            url: s.url.clone(),
            headers: Headers(s.headers.clone()),
        });
    }
    if let Some(s) = &source.registry {
        return Ok(ImageOrigin::Registry {
            image: s.image.clone(),
            format: format_word(s.format).to_owned(),
            headers: Headers::default(),
        });
    }
    if let Some(v) = &source.data_volume {
        return Ok(ImageOrigin::DataVolume {
            namespace: text(&v.namespace),
            name: v.name.clone(),
            reader: reader.to_owned(),
        });
    }
    proxmox_origin(source)
}

fn proxmox_origin(source: &VMImageSource) -> Result<ImageOrigin, Problem> {
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    let Some(s) = &source.proxmox else {
        return Err(Problem::new(
            Reason::InvalidSpec,
            "spec.source",
            "No source is given. Set one of libvirt, vsphere, proxmox, http, registry, dataVolume or blank",
        ));
    };
    let format = serde_json::to_value(s.format)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned));
    Ok(ImageOrigin::Proxmox {
        template_id: s.template_id,
        template_name: text(&s.template_name),
        storage: text(&s.storage),
        node: text(&s.node),
        format: format.unwrap_or_default(),
    })
}
