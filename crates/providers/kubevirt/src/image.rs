//! Images that are fetched once into the cluster: a DataVolume that CDI fills, from which the disks of VMs are copied.
//!
//! ```text
//!   prepare ─► Secret with headers, if there are any ─► DataVolume image-<hash of the source> ─► Succeeded
//!   create  ─► DataVolume of the VM, copied from the claim of that name
//!   delete  ─► DataVolume, then Secret
//! ```
//!
//! The name follows from the source, so the same source is found again whoever asks, and whoever died in between.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use k8s_openapi::ByteString;
use kube::core::DynamicObject;
use polyvirt_contract::model::{Headers, ImageOrigin, ImageSource, PrepareImage, PreparedImage};
use polyvirt_contract::{ErrorKind, ImageId, ProviderError, Result};
use polyvirt_provider_kit::tasks::Progress;
use serde_json::{Value, json};

use crate::access::{self, Reader};
use crate::cluster::Others;
use crate::kinds::{Kind, MANAGED_BY, MANAGER, VmKey, items, label, text};
use crate::map::layout::Source;
use crate::map::objects::{self, Marks};
use crate::snapshot::served;
use crate::vm::{Core, ensure_namespace};
use crate::{errors, names, proof, quantity};

/// Label of images: only what carries it is deleted.
pub(crate) const IMAGE: &str = "polyvirt.io/image";
/// Has CDI fill the volume though no VM waits for it.
const AT_ONCE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";
/// The field of a VMImage that names a volume or claim.
const DATA_VOLUME: &str = "spec.source.dataVolume";
/// How long an image may take.
const FETCHED: Duration = Duration::from_mins(100);

/// Where an image is or comes from.
enum Wanted {
    /// Somebody has filled this volume, or claim; it is read in the name of that namespace.
    There(VmKey, String),
    /// CDI has to fetch it.
    Fetch(ImageSource, Headers),
}

/// Makes the image ready; one that is there is there.
pub(crate) async fn prepare(core: &Arc<Core>, request: PrepareImage) -> Result<PreparedImage> {
    served(core, Kind::DataVolume, "images").await?;
    match wanted(&request)? {
        Wanted::There(key, reader) => there(core, &key, &reader).await,
        Wanted::Fetch(image, headers) => fetch(core, &request, image, &headers).await,
    }
}

/// Which of all origins this is. Those of other hypervisors are refused.
fn wanted(request: &PrepareImage) -> Result<Wanted> {
    let fetched = |url: String, headers: &Headers| {
        let image = ImageSource {
            url,
            checksum: request.checksum.clone(),
            checksum_type: request.checksum_type.clone(),
            ..ImageSource::default()
        };
        Ok(Wanted::Fetch(image, headers.clone()))
    };
    match &request.origin {
        ImageOrigin::Http { url, headers } => fetched(url.clone(), headers),
        ImageOrigin::Libvirt { url, .. } if !url.is_empty() => {
            fetched(url.clone(), &Headers::default())
        }
        ImageOrigin::Registry { image, headers, .. } => {
            fetched(format!("docker://{image}"), headers)
        }
        ImageOrigin::DataVolume {
            namespace,
            name,
            reader,
        } => Ok(Wanted::There(VmKey::new(namespace, name), reader.clone())),
        _ => {
            let message =
                "KubeVirt takes images from http, a registry or a DataVolume; give one of these";
            Err(ProviderError::invalid("spec.source", message))
        }
    }
}

async fn there(core: &Core, key: &VmKey, reader: &str) -> Result<PreparedImage> {
    let reader = Reader::new(reader, core.cluster.namespace.as_deref());
    let key = &match key.namespace.as_str() {
        "" => VmKey::new(reader.home(), &key.name),
        _ => key.clone(),
    };
    let granted = access::may_copy(core, &reader, Kind::Claim, key).await;
    granted.map_err(|error| error.at(DATA_VOLUME))?;
    if let Some(volume) = core.cluster.get(Kind::DataVolume, key).await? {
        return filled(key, Kind::DataVolume, &volume, "Succeeded");
    }
    let claim = core.cluster.get(Kind::Claim, key).await?;
    let absent = format!("The DataVolume or PersistentVolumeClaim {key}");
    let claim = claim.ok_or_else(|| ProviderError::not_found(absent).at(DATA_VOLUME))?;
    filled(key, Kind::Claim, &claim, "Bound")
}

/// What somebody has made can be copied from when it is whole.
fn filled(key: &VmKey, kind: Kind, object: &DynamicObject, whole: &str) -> Result<PreparedImage> {
    let phase = phase(object);
    if phase == whole {
        return Ok(prepared(key, None));
    }
    let name = kind.name();
    let message = format!("The {name} {key} is {phase:?}, not yet {whole}; it is tried again");
    Err(errors::precondition(message).at(DATA_VOLUME))
}

async fn fetch(
    core: &Arc<Core>,
    request: &PrepareImage,
    mut image: ImageSource,
    headers: &Headers,
) -> Result<PreparedImage> {
    proof::settle(&mut image, core.images.hosts).await?;
    let key = VmKey::new(&core.images.namespace, name(&image, &request.storage_hint));
    match core.cluster.get(Kind::DataVolume, &key).await? {
        Some(found) if phase(&found) == "Succeeded" => return Ok(prepared(&key, None)),
        Some(found) if phase(&found) == "Failed" => {
            core.cluster.delete(Kind::DataVolume, &found).await?;
            let message = format!("The image {key} failed before; it is fetched anew");
            return Err(errors::precondition(message));
        }
        Some(_) => {}
        None => begin(core, request, &image, headers, &key).await?,
    }
    let (core_of_task, place) = (core.clone(), key.clone());
    let begun = core.begin(&format!("image {key}"), |progress| async move {
        arrived(&core_of_task, &place, &progress).await
    });
    Ok(prepared(&key, begun.answer().await?))
}

fn prepared(key: &VmKey, task: Option<polyvirt_contract::TaskId>) -> PreparedImage {
    PreparedImage {
        id: ImageId::default(),
        path: key.to_string(),
        task,
    }
}

/// The same source on the same storage has the same name.
fn name(image: &ImageSource, storage: &str) -> String {
    let all = [
        &*image.url,
        &*image.checksum,
        &*image.checksum_type,
        storage,
    ]
    .join("\n");
    format!("image-{}", names::hash(&all, 20))
}

async fn begin(
    core: &Core,
    request: &PrepareImage,
    image: &ImageSource,
    headers: &Headers,
    key: &VmKey,
) -> Result<()> {
    let source = Source::of_image(image, &key.namespace)?;
    let asked = access::may_ask(core, &source).await;
    asked.map_err(|error| error.at("spec.source"))?;
    ensure_namespace(core, &key.namespace).await?;
    let of_registry = matches!(source, Source::Registry { .. });
    let secret = match of_registry {
        _ if headers.0.is_empty() => None,
        true => Some(registry_secret(key, headers)?),
        false => Some(secret(key, headers)),
    };
    if let Some(secret) = &secret {
        let applied = core.cluster.apply(Kind::Secret, secret, Others::Override);
        applied.await?;
    }
    let mut volume = named(Kind::DataVolume, key);
    volume["metadata"]["annotations"] = json!({AT_ONCE: "true", "polyvirt.io/source": image.url});
    volume["spec"] = objects::filled(&source);
    if secret.is_some() && of_registry {
        volume["spec"]["source"]["registry"]["secretRef"] = json!(key.name);
    } else if secret.is_some() {
        volume["spec"]["source"]["http"]["secretExtraHeaders"] = json!([key.name]);
    }
    let size = quantity::of_bytes(quantity::of_gib(core.images.gib));
    volume["spec"]["storage"] = json!({"resources": {"requests": {"storage": size}}});
    if !request.storage_hint.is_empty() {
        volume["spec"]["storage"]["storageClassName"] = json!(request.storage_hint);
    }
    let applied = core
        .cluster
        .apply(Kind::DataVolume, &volume, Others::Respect);
    applied.await.map(drop)
}

fn named(kind: Kind, key: &VmKey) -> Value {
    let labels = [(IMAGE.to_owned(), "true".to_owned())].into();
    let marks = Marks {
        owner: None,
        labels: &labels,
    };
    objects::named(kind, key, &marks)
}

/// CDI reads one header out of each entry.
fn secret(key: &VmKey, headers: &Headers) -> Value {
    let mut secret = named(Kind::Secret, key);
    let line = |(name, value): (&String, &String)| ByteString(format!("{name}: {value}").into());
    let lines = headers.0.iter().map(line).enumerate();
    secret["type"] = json!("Opaque");
    secret["data"] = lines
        .map(|(place, line)| (format!("header{place}"), json!(line)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    secret
}

/// CDI takes a name and a password for registries.
fn registry_secret(key: &VmKey, headers: &Headers) -> Result<Value> {
    let shown = headers.0.get("Authorization").map(String::as_str);
    let pair = shown.and_then(|text| pair_of(text.strip_prefix("Basic ")?));
    let Some((user, password)) = pair else {
        let message = "The pull secret holds no name with a password, which is all that CDI takes";
        return Err(ProviderError::invalid(
            "spec.source.registry.pullSecretRef",
            message,
        ));
    };
    let mut secret = named(Kind::Secret, key);
    secret["type"] = json!("Opaque");
    secret["data"] = json!({
        "accessKeyId": ByteString(user.into_bytes()),
        "secretKey": ByteString(password.into_bytes()),
    });
    Ok(secret)
}

fn pair_of(coded: &str) -> Option<(String, String)> {
    let text = base64::engine::general_purpose::STANDARD.decode(coded.trim());
    let text = String::from_utf8(text.ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

async fn arrived(core: &Core, key: &VmKey, progress: &Progress) -> Result<()> {
    let ended = |volume: Option<&DynamicObject>| {
        if let Some(percent) = volume.and_then(percent) {
            progress.at(percent);
        }
        volume.is_none_or(|volume| matches!(phase(volume), "Succeeded" | "Failed"))
    };
    core.until(Kind::DataVolume, key, FETCHED, ended).await?;
    match core.cluster.get(Kind::DataVolume, key).await? {
        Some(volume) if phase(&volume) == "Succeeded" => Ok(()),
        Some(volume) => {
            let message = format!("The image {key} cannot be fetched: {}", why(&volume));
            Err(ProviderError::new(ErrorKind::Unavailable, message))
        }
        None => Err(errors::internal(format!("The image {key} was deleted"))),
    }
}

fn phase(volume: &DynamicObject) -> &str {
    text(&volume.data, "/status/phase")
}

fn percent(volume: &DynamicObject) -> Option<u8> {
    let told = text(&volume.data, "/status/progress");
    let (whole, _) = told.split_once('.')?;
    whole.parse().ok().filter(|percent| *percent <= 100)
}

/// The words of the condition that explains it.
fn why(volume: &DynamicObject) -> String {
    let all = items(&volume.data, "/status/conditions").iter();
    let unmet = all.filter(|c| text(c, "/status") != "True");
    let mut words = unmet.map(|c| text(c, "/message")).filter(|m| !m.is_empty());
    words
        .next()
        .map_or_else(|| phase(volume).to_owned(), str::to_owned)
}

/// Deletes an image that was made here. One that somebody else has filled stays, and counts as gone.
pub(crate) async fn delete(core: &Core, image: &PreparedImage) -> Result<()> {
    let absent = || ProviderError::not_found(format!("The image {}", image.path));
    let key = VmKey::parse(&image.path.as_str().into()).ok_or_else(absent)?;
    let found = core.cluster.get(Kind::DataVolume, &key).await?;
    let ours = |object: &DynamicObject| {
        label(object, IMAGE).is_some() && label(object, MANAGED_BY) == Some(MANAGER)
    };
    let found = found.filter(ours).ok_or_else(absent)?;
    core.cluster.delete(Kind::DataVolume, &found).await?;
    let secret = core.cluster.get(Kind::Secret, &key).await?;
    match secret.filter(ours) {
        Some(secret) => core.cluster.delete(Kind::Secret, &secret).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(origin: ImageOrigin) -> PrepareImage {
        PrepareImage {
            target_name: "debian".to_owned(),
            origin,
            checksum: "ab".to_owned(),
            checksum_type: "sha256".to_owned(),
            storage_hint: String::new(),
            pull: polyvirt_contract::model::Pull::default(),
            identity: None,
        }
    }

    #[test]
    fn a_source_has_one_name_and_another_source_another() {
        let image = |url: &str| ImageSource {
            url: url.to_owned(),
            ..ImageSource::default()
        };
        let one = name(&image("https://a/x"), "");
        assert_eq!(one, name(&image("https://a/x"), ""));
        assert_ne!(one, name(&image("https://a/y"), ""));
        assert_ne!(one, name(&image("https://a/x"), "fast"));
        assert!(crate::names::is_label(&one), "{one}");
    }

    #[test]
    fn origins_of_other_hypervisors_are_refused() {
        let registry = ImageOrigin::Registry {
            image: "quay.io/x:1".to_owned(),
            format: String::new(),
            headers: Headers::default(),
        };
        let Ok(Wanted::Fetch(image, _)) = wanted(&request(registry)) else {
            panic!("CDI can fetch it");
        };
        assert_eq!(image.url, "docker://quay.io/x:1");
        let template = ImageOrigin::Vsphere {
            template_name: "t".to_owned(),
            ova_url: String::new(),
            content_library: None,
        };
        let refused = wanted(&request(template)).err().expect("refused");
        assert_eq!(refused.kind, ErrorKind::Invalid);
        assert_eq!(refused.field.as_deref(), Some("spec.source"));
    }

    #[test]
    fn a_pull_secret_becomes_what_cdi_takes() {
        let of = |text: &str| Headers([("Authorization".to_owned(), text.to_owned())].into());
        let key = VmKey::new("images", "image-1");
        let secret = registry_secret(&key, &of("Basic dXNlcjpwYTpzcw==")).expect("a pair");
        assert_eq!(secret["data"]["accessKeyId"], "dXNlcg==");
        assert_eq!(secret["data"]["secretKey"], "cGE6c3M=");
        let refused = registry_secret(&key, &of("Bearer x")).expect_err("no pair");
        assert!(!refused.to_string().contains("Bearer"), "{refused}");
    }

    #[test]
    fn headers_are_kept_in_a_secret() {
        let headers = Headers([("Authorization".to_owned(), "Bearer t".to_owned())].into());
        let secret = secret(&VmKey::new("images", "image-1"), &headers);
        assert_eq!(
            secret["data"]["header0"],
            "QXV0aG9yaXphdGlvbjogQmVhcmVyIHQ="
        );
        assert_eq!(secret["metadata"]["labels"][IMAGE], "true");
    }
}
