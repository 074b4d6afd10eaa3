//! Images from elsewhere: what of an origin a hypervisor that has only files can use, and how that is fetched.

use std::collections::BTreeMap;

use polyvirt_contract::model::{CreateVm, Headers, ImageOrigin, PrepareImage};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_disks::fetch::{FetchError, Fetcher, Options, Proof, Reach, Request, Source};

/// How addresses of images in registries begin, here as in requests to create a VM: the same image is fetched once.
const REGISTRY: &str = "docker://";
/// How addresses of claims begin.
const CLAIM: &str = "pvc://";

/// What a request to prepare an image asks for. It may hold secrets, so it has no debug form.
#[derive(Clone, Default)]
pub struct Asked {
    /// A file of the hypervisor; empty if there is an address.
    pub path: String,
    /// Where it is fetched from; empty if there is a path.
    pub url: String,
    /// What goes along with the request.
    pub headers: BTreeMap<String, String>,
    /// What it is said to be; empty to find out.
    pub format: String,
    /// Where it is to be kept; empty for the provider's choice.
    pub pool: String,
}

/// What is asked for, if files and downloads are enough for it.
pub fn asked(request: &PrepareImage) -> Result<Asked> {
    match request.origin.clone() {
        ImageOrigin::Libvirt {
            path,
            url,
            format,
            storage_pool,
        } => Ok(Asked {
            path,
            url,
            format,
            pool: storage_pool,
            ..Asked::default()
        }),
        ImageOrigin::Http { url, headers } => Ok(Asked {
            url,
            headers: headers.0,
            ..Asked::default()
        }),
        ImageOrigin::Registry {
            image,
            format,
            headers,
        } => Ok(Asked {
            format: said(REGISTRY, &format).to_owned(),
            url: format!("{REGISTRY}{image}"),
            headers: headers.0,
            ..Asked::default()
        }),
        ImageOrigin::DataVolume {
            namespace, name, ..
        } => Err(no_claims(&format!("{namespace}/{name}"))),
        ImageOrigin::Vsphere { .. } | ImageOrigin::Proxmox { .. } => {
            let message = "This provider takes images by path, URL or from a registry; set spec.source.libvirt, spec.source.http or spec.source.registry";
            Err(ProviderError::invalid("spec.source", message))
        }
    }
}

/// The format that somebody said the image at an address has; empty if nobody did. Of a registry's image the API says qcow2 when
/// its user says nothing.
pub fn said<'a>(url: &str, format: &'a str) -> &'a str {
    let by_default = url.starts_with(REGISTRY) && format.eq_ignore_ascii_case("qcow2");
    if by_default || format == "template" {
        return "";
    }
    format
}

/// Refuses the address of a VM's image that is a claim of a cluster.
pub fn refuse_claims(url: &str) -> Result<()> {
    match url.strip_prefix(CLAIM) {
        Some(claim) => Err(no_claims(claim)),
        None => Ok(()),
    }
}

fn no_claims(claim: &str) -> ProviderError {
    let claim = claim.trim_start_matches('/');
    let message = format!(
        "The claim {claim} is storage of a cluster, which this hypervisor cannot read. Use a Provider of type kubevirt, or put the disk on a web server or into a registry and give http(s):// or registry://"
    );
    ProviderError::invalid("spec.source.dataVolume", message)
}

/// The VM that an image is wanted for, as the version of an image whose origin tells none: what was fetched for it serves it
/// however often its creation is tried.
pub fn whom(request: &CreateVm) -> Option<String> {
    let owner = request.owner.as_ref()?;
    Some(format!("for {}", owner.identity))
}

/// One that asks servers within reach.
pub fn fetcher(reach: Reach) -> Result<Fetcher> {
    let options = Options {
        reach,
        ..Options::default()
    };
    Fetcher::new(options).map_err(|error| fetch_error(&error))
}

/// What to fetch, and what it must be.
pub fn fetch_request(
    source: Source,
    headers: BTreeMap<String, String>,
    (checksum_type, checksum): (&str, &str),
    max_bytes: u64,
) -> Result<Request> {
    let wrong = |e: polyvirt_disks::checksum::ChecksumError| {
        ProviderError::invalid("spec.source.checksum", e.to_string())
    };
    Ok(Request {
        source,
        headers: Headers(headers),
        checksum: Proof::parse(checksum_type, checksum).map_err(wrong)?,
        max_bytes,
    })
}

/// Where the bytes of an address are.
pub fn source_at(url: &str) -> Result<Source> {
    refuse_claims(url)?;
    Source::parse(url).map_err(|error| ProviderError::invalid("spec.source", error.to_string()))
}

/// What went wrong on the way, in the words of the contract.
pub fn fetch_error(error: &FetchError) -> ProviderError {
    let (kind, field) = match error {
        FetchError::Checksum { .. } | FetchError::Unlisted { .. } => {
            (ErrorKind::Invalid, "spec.source.checksum")
        }
        FetchError::DiskFull { .. } => (ErrorKind::Exhausted, "spec.source"),
        error if error.is_retryable() => (ErrorKind::Unavailable, "spec.source"),
        _ => (ErrorKind::Invalid, "spec.source"),
    };
    ProviderError::new(kind, error.to_string()).at(field)
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::model::Pull;

    use super::*;

    fn of(origin: ImageOrigin) -> Result<Asked> {
        asked(&PrepareImage {
            target_name: "image".to_owned(),
            origin,
            checksum: String::new(),
            checksum_type: String::new(),
            storage_hint: String::new(),
            pull: Pull::default(),
            identity: None,
        })
    }

    fn registry(format: &str) -> ImageOrigin {
        let headers = [("Authorization".to_owned(), "Basic x".to_owned())];
        ImageOrigin::Registry {
            image: "quay.example/a/b:1".to_owned(),
            format: format.to_owned(),
            headers: Headers(headers.into()),
        }
    }

    #[test]
    fn an_image_of_a_registry_is_fetched_and_its_format_found_out() {
        let asked = of(registry("qcow2")).unwrap_or_default();
        assert_eq!(asked.url, "docker://quay.example/a/b:1");
        assert_eq!((asked.format.as_str(), asked.headers.len()), ("", 1));
        assert_eq!(of(registry("vmdk")).unwrap_or_default().format, "vmdk");
        assert!(matches!(source_at(&asked.url), Ok(Source::Registry(_))));
    }

    #[test]
    fn a_claim_is_refused_with_what_to_do() {
        let origin = ImageOrigin::DataVolume {
            namespace: "default".to_owned(),
            name: "disk".to_owned(),
            reader: String::new(),
        };
        let refusals = [of(origin).err(), source_at("pvc://default/disk").err()];
        for refused in refusals {
            let text = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(
                text.contains("The claim default/disk is storage of a cluster"),
                "{text}"
            );
            assert!(text.contains("type kubevirt"), "{text}");
        }
    }
}
