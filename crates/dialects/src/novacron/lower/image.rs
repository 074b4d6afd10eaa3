//! What `image.source` says.

use polyvirt_api::infra::{HttpImageSource, ObjectRef, RegistryImageSource, VMImageSource};
use polyvirt_api::novacron::Image;
use polyvirt_plan::image::reads_claims;

use super::Surroundings;
use super::error::LowerError;

const FIELD: &str = "spec.template.spec.image.source";
const SCHEMES: &str = "Write marketplace://name, http:// or https://, pvc://namespace/name, registry:// or docker://, or the name of a VMImage";

/// An `image.source`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A name of the marketplace.
    Marketplace(String),
    /// A download.
    Url(String),
    /// A claim.
    Claim {
        /// Its namespace; absent for that of the VM.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// A container image that holds a disk, with a tag or a digest.
    Registry(String),
    /// A VMImage.
    Named(String),
}

impl ImageSource {
    /// Takes it apart.
    pub fn parse(text: &str) -> Result<Self, LowerError> {
        let text = text.trim();
        let Some((scheme, rest)) = text.split_once("://") else {
            return name(text).map(Self::Named);
        };
        match scheme {
            "marketplace" => name(rest).map(Self::Marketplace),
            "http" | "https" if is_plain(rest) => Ok(Self::Url(text.to_owned())),
            "pvc" => claim(rest),
            "registry" | "docker" if is_plain(rest) => Ok(Self::Registry(tagged(rest))),
            "http" | "https" | "registry" | "docker" => Err(wrong(format!(
                "{text:?} says nothing behind ://. {SCHEMES}"
            ))),
            other => Err(wrong(format!(
                "There is no way to fetch {other}://. {SCHEMES}"
            ))),
        }
    }
}

/// What a name of the marketplace stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Offer {
    /// A VMImage in the namespace of the VM.
    Image(String),
    /// A download.
    Download(Box<HttpImageSource>),
    /// An entry that cannot be used, and why.
    Bad(String),
}

/// A VMImage or a source in place; one of both.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lowered {
    pub image_ref: Option<ObjectRef>,
    pub image: Option<Box<VMImageSource>>,
}

pub(super) fn resolve(image: &Image, around: &Surroundings<'_>) -> Result<Lowered, LowerError> {
    let source = match ImageSource::parse(&image.source)? {
        ImageSource::Marketplace(name) => return offered(&name, around),
        ImageSource::Named(name) => return Ok(by_name(name)),
        ImageSource::Url(url) => VMImageSource {
            http: Some(HttpImageSource {
                url,
                ..HttpImageSource::default()
            }),
            ..VMImageSource::default()
        },
        ImageSource::Claim { .. } if !around.provider_type.is_none_or(reads_claims) => {
            return Err(wrong(format!(
                "{} is storage of a cluster, which Provider {} cannot read. Name a Provider of type kubevirt in the annotation novacron.io/provider, or put the disk on a web server or into a registry and write http(s):// or registry://",
                image.source.trim(),
                around.provider
            )));
        }
        ImageSource::Claim { namespace, name } => VMImageSource {
            data_volume: Some(ObjectRef { name, namespace }),
            ..VMImageSource::default()
        },
        ImageSource::Registry(image) => VMImageSource {
            registry: Some(RegistryImageSource {
                image,
                ..RegistryImageSource::default()
            }),
            ..VMImageSource::default()
        },
    };
    Ok(in_place(source))
}

fn offered(name: &str, around: &Surroundings<'_>) -> Result<Lowered, LowerError> {
    match (around.marketplace)(name) {
        Some(Offer::Image(image)) => Ok(by_name(image)),
        Some(Offer::Download(http)) => Ok(in_place(VMImageSource {
            http: Some(*http),
            ..VMImageSource::default()
        })),
        Some(Offer::Bad(why)) => Err(wrong(why)),
        None => Err(LowerError::Missing {
            field: FIELD.to_owned(),
            message: format!(
                "The marketplace has no {name}. Make a VMImage {name} in the namespace of the VM, label one polyvirt.io/marketplace: {name}, or add it to the ConfigMap {}",
                around.catalogue
            ),
        }),
    }
}

fn by_name(name: String) -> Lowered {
    Lowered {
        image_ref: Some(ObjectRef::local(name)),
        image: None,
    }
}

fn in_place(source: VMImageSource) -> Lowered {
    Lowered {
        image_ref: None,
        image: Some(Box::new(source)),
    }
}

fn wrong(message: String) -> LowerError {
    LowerError::invalid(FIELD, message)
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}

/// Names of objects are DNS subdomains.
fn name(text: &str) -> Result<String, LowerError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = text.starts_with(ends) && text.ends_with(ends) && text.chars().all(allowed);
    if good && text.len() <= 253 {
        return Ok(text.to_owned());
    }
    Err(wrong(format!("{text:?} is no name of an image. {SCHEMES}")))
}

fn claim(rest: &str) -> Result<ImageSource, LowerError> {
    let (namespace, claim) = match rest.split_once('/') {
        Some((namespace, claim)) => (Some(name(namespace)?), claim),
        None => (None, rest),
    };
    Ok(ImageSource::Claim {
        namespace,
        name: name(claim)?,
    })
}

/// Without a tag or digest the latest is meant, as everywhere.
fn tagged(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) {
        return image.to_owned();
    }
    format!("{image}:latest")
}
