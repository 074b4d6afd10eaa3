//! What a registry says of an image: for which machines there is one, and what it is made of.

use serde::Deserialize;

use super::reference::digest_of;
use crate::checksum::Checksum;

/// What is asked for: images and lists of them, in the forms of OCI and of Docker.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// A manifest that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Manifest {
    /// An image for each kind of machine.
    Index(Vec<Variant>),
    /// One image, with its layers from the lowest on.
    Image(Vec<Layer>),
}

/// One image of several.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub digest: Checksum,
    /// The machine that it is for, such as `linux/amd64`; empty if that is not said.
    pub machine: String,
}

/// A part of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub digest: Checksum,
    pub bytes: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    digest: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
}

impl Manifest {
    /// `None` for what is no manifest of an image.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let document: Document = serde_json::from_slice(bytes).ok()?;
        if let Some(manifests) = document.manifests {
            let variants = manifests.into_iter().map(variant);
            return variants.collect::<Option<_>>().map(Self::Index);
        }
        let layers = document.layers?.into_iter().map(|found| {
            let digest = digest_of(&found.digest)?;
            let bytes = found.size;
            Some(Layer { digest, bytes })
        });
        layers.collect::<Option<_>>().map(Self::Image)
    }
}

fn variant(found: Descriptor) -> Option<Variant> {
    let machine = found
        .platform
        .map(|p| format!("{}/{}", p.os, p.architecture));
    Some(Variant {
        digest: digest_of(&found.digest)?,
        machine: machine.unwrap_or_default(),
    })
}

/// The machine that images are wanted for, in the words of registries.
pub(super) fn this_machine() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    };
    format!("linux/{architecture}")
}

/// The variant for a machine; of a list that says of none for what it is, the first.
pub(super) fn choose<'a>(variants: &'a [Variant], machine: &str) -> Option<&'a Variant> {
    let said = variants.iter().any(|variant| !variant.machine.is_empty());
    let mut fitting = variants.iter().filter(|v| !said || v.machine == machine);
    fitting.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(machines: &[&str]) -> Vec<u8> {
        let entries = machines.iter().enumerate().map(|(n, machine)| {
            let digest = format!("sha256:{}", n.to_string().repeat(64));
            let platform = machine.split_once('/').map(
                |(os, architecture)| serde_json::json!({"os": os, "architecture": architecture}),
            );
            serde_json::json!({"digest": digest, "size": 1, "platform": platform})
        });
        serde_json::json!({"manifests": entries.collect::<Vec<_>>()})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn of_several_images_that_for_this_machine_is_taken() {
        let text = index(&["linux/s390x", "linux/amd64", "unknown/unknown"]);
        let Some(Manifest::Index(variants)) = Manifest::read(&text) else {
            panic!("an index");
        };
        let found = choose(&variants, "linux/amd64").unwrap();
        assert!(found.digest.hex().starts_with("111"), "{found:?}");
        assert_eq!(choose(&variants, "linux/arm64"), None);
        let Some(Manifest::Index(silent)) = Manifest::read(&index(&["", ""])) else {
            panic!("an index");
        };
        let first = choose(&silent, "linux/arm64").unwrap();
        assert!(first.digest.hex().starts_with("000"), "{first:?}");
    }

    #[test]
    fn what_names_its_layers_in_no_known_way_is_no_image() {
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"fsLayers": []}"#,
            r#"{"layers": [{"digest": "sha256:12", "size": 1}]}"#,
            r#"{"layers": [{"digest": "../../etc", "size": 1}]}"#,
        ] {
            assert_eq!(Manifest::read(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(
            Manifest::read(br#"{"layers": []}"#),
            Some(Manifest::Image(Vec::new()))
        );
    }
}
