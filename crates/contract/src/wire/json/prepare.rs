//! The image to prepare: in the shape of `VMImage.spec`, or that of the image of `Create`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::ProviderError;
use crate::model::{Headers, ImageOrigin, PrepareImage, Pull};

use super::image::{image_of, pull_of, pull_word};
use super::read::{Object, parse_object};
use super::write;

type Result<T> = std::result::Result<T, ProviderError>;

/// What the JSON says of an image to prepare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// Where it comes from.
    pub origin: ImageOrigin,
    /// Hex digest; empty for none.
    pub checksum: String,
    /// The algorithm of the digest.
    pub checksum_type: String,
    /// Whether the origin is looked at though the image is there.
    pub pull: Pull,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PrepareJson<'a> {
    source: SourceJson<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pull_policy: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum SourceJson<'a> {
    Libvirt(OriginJson<'a>),
    Vsphere(OriginJson<'a>),
    Proxmox(OriginJson<'a>),
    Http(OriginJson<'a>),
    Registry(OriginJson<'a>),
    DataVolume(OriginJson<'a>),
}

/// The union of the keys of all origins; what is absent has no key.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct OriginJson<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'a str,
    #[serde(rename = "templateID", skip_serializing_if = "Option::is_none")]
    template_id: Option<i64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    template_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    url: &'a str,
    #[serde(rename = "ovaURL", skip_serializing_if = "str::is_empty")]
    ova_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_library: Option<LibraryJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    image: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reader: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    format: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    storage_pool: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    storage: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    node: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    checksum: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    checksum_type: &'a str,
}

#[derive(Serialize)]
struct LibraryJson<'a> {
    library: &'a str,
    item: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
}

/// The image of `ImagePrepare`.
pub fn write_prepare(image: &PrepareImage) -> Result<String> {
    let json = OriginJson {
        checksum: &image.checksum,
        checksum_type: &image.checksum_type,
        ..origin_json(&image.origin)
    };
    let source = match image.origin {
        ImageOrigin::Libvirt { .. } => SourceJson::Libvirt(json),
        ImageOrigin::Vsphere { .. } => SourceJson::Vsphere(json),
        ImageOrigin::Proxmox { .. } => SourceJson::Proxmox(json),
        ImageOrigin::Http { .. } => SourceJson::Http(json),
        ImageOrigin::Registry { .. } => SourceJson::Registry(json),
        ImageOrigin::DataVolume { .. } => SourceJson::DataVolume(json),
    };
    let pull_policy = pull_word(image.pull);
    write(&PrepareJson {
        source,
        pull_policy,
    })
}

fn origin_json(origin: &ImageOrigin) -> OriginJson<'_> {
    let none = OriginJson::default();
    match origin {
        ImageOrigin::Libvirt {
            path,
            url,
            format,
            storage_pool,
        } => OriginJson {
            path,
            url,
            format,
            storage_pool,
            ..none
        },
        ImageOrigin::Vsphere {
            template_name,
            ova_url,
            content_library,
        } => {
            let content_library =
                content_library
                    .as_ref()
                    .map(|(library, item, version)| LibraryJson {
                        library,
                        item,
                        version,
                    });
            OriginJson {
                template_name,
                ova_url,
                content_library,
                ..none
            }
        }
        ImageOrigin::Proxmox {
            template_id,
            template_name,
            storage,
            node,
            format,
        } => {
            let template_id = *template_id;
            OriginJson {
                template_id,
                template_name,
                format,
                storage,
                node,
                ..none
            }
        }
        ImageOrigin::Http { url, headers } => OriginJson {
            url,
            headers: given(headers),
            ..none
        },
        ImageOrigin::Registry {
            image,
            format,
            headers,
        } => OriginJson {
            image,
            format,
            headers: given(headers),
            ..none
        },
        ImageOrigin::DataVolume {
            namespace,
            name,
            reader,
        } => OriginJson {
            namespace,
            name,
            reader,
            ..none
        },
    }
}

fn given(headers: &Headers) -> Option<&BTreeMap<String, String>> {
    (!headers.0.is_empty()).then_some(&headers.0)
}

/// The image of `ImagePrepare`, in either shape.
pub fn read_prepare(text: &str) -> Result<Prepare> {
    let read = parse_object(text, "image", |image| {
        let pull = pull_of(image)?;
        let found = match image.object("source")? {
            Some(source) => from_object(&source)?,
            None => from_create_shape(image)?,
        };
        Ok(found.map(|found| Prepare { pull, ..found }))
    })?;
    read.flatten().ok_or_else(|| {
        ProviderError::invalid(
            "image.source",
            "Say in image.source where the image comes from",
        )
    })
}

type ReadOrigin = fn(&Object<'_>) -> Result<ImageOrigin>;

const ORIGINS: [(&str, ReadOrigin); 6] = [
    ("libvirt", libvirt_of),
    ("vsphere", vsphere_of),
    ("proxmox", proxmox_of),
    ("http", http_of),
    ("registry", registry_of),
    ("dataVolume", data_volume_of),
];

fn from_object(source: &Object<'_>) -> Result<Option<Prepare>> {
    for (key, read) in ORIGINS {
        if let Some(object) = source.object(key)? {
            return Ok(Some(Prepare {
                origin: read(&object)?,
                checksum: object.text("checksum")?,
                checksum_type: object.text("checksumType")?,
                pull: Pull::default(),
            }));
        }
    }
    Ok(None)
}

/// That shape does not say for which hypervisor it is: a path or URL is read as for libvirt, a template as for vSphere.
fn from_create_shape(object: &Object<'_>) -> Result<Option<Prepare>> {
    let image = image_of(object)?;
    let origin = if !image.path.is_empty() || !image.url.is_empty() {
        ImageOrigin::Libvirt {
            path: image.path,
            url: image.url,
            format: image.format,
            storage_pool: String::new(),
        }
    } else if !image.template_name.is_empty() {
        ImageOrigin::Vsphere {
            template_name: image.template_name,
            ova_url: String::new(),
            content_library: None,
        }
    } else {
        return Ok(None);
    };
    let (checksum, checksum_type) = (image.checksum, image.checksum_type);
    Ok(Some(Prepare {
        origin,
        checksum,
        checksum_type,
        pull: Pull::default(),
    }))
}

fn libvirt_of(object: &Object<'_>) -> Result<ImageOrigin> {
    Ok(ImageOrigin::Libvirt {
        path: object.text("path")?,
        url: object.text("url")?,
        format: object.text("format")?,
        storage_pool: object.text("storagePool")?,
    })
}

fn vsphere_of(object: &Object<'_>) -> Result<ImageOrigin> {
    let library = object.object("contentLibrary")?;
    Ok(ImageOrigin::Vsphere {
        template_name: object.text("templateName")?,
        ova_url: object.text("ovaURL")?,
        content_library: library.as_ref().map(library_of).transpose()?,
    })
}

fn library_of(object: &Object<'_>) -> Result<(String, String, String)> {
    Ok((
        object.text("library")?,
        object.text("item")?,
        object.text("version")?,
    ))
}

fn proxmox_of(object: &Object<'_>) -> Result<ImageOrigin> {
    Ok(ImageOrigin::Proxmox {
        template_id: object.number("templateID")?,
        template_name: object.text("templateName")?,
        storage: object.text("storage")?,
        node: object.text("node")?,
        format: object.text("format")?,
    })
}

fn http_of(object: &Object<'_>) -> Result<ImageOrigin> {
    Ok(ImageOrigin::Http {
        url: object.text("url")?,
        headers: Headers(object.texts_by_key("headers")?),
    })
}

fn registry_of(object: &Object<'_>) -> Result<ImageOrigin> {
    Ok(ImageOrigin::Registry {
        image: object.text("image")?,
        format: object.text("format")?,
        headers: Headers(object.texts_by_key("headers")?),
    })
}

fn data_volume_of(object: &Object<'_>) -> Result<ImageOrigin> {
    Ok(ImageOrigin::DataVolume {
        namespace: object.text("namespace")?,
        name: object.text("name")?,
        reader: object.text("reader")?,
    })
}
