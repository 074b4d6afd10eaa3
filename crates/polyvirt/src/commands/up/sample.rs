//! The objects of the first VM. Made where they are missing; what the user has changed stays.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::options::Hypervisor;

const QEMU: &str = include_str!("../../../../../config/samples/qemu.yaml");
const MOCK: &str = include_str!("../../../../../config/samples/mock.yaml");

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// A file of this machine.
    File(PathBuf),
    /// A download.
    Url(String),
}

impl Image {
    /// Reads what the user wrote, and looks whether the file is there.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Self::Url(text.to_owned()));
        }
        let path = std::path::absolute(text).context("The image has no usable path")?;
        if !path.is_file() {
            bail!(
                "There is no image at {}: give the path of a qcow2 file or an http(s) address with --image",
                path.display()
            );
        }
        Ok(Self::File(path))
    }

    /// The source of a VMImage for QEMU.
    fn source(&self) -> Value {
        match self {
            Self::File(path) => json!({"libvirt": {"path": path, "format": "qcow2"}}),
            Self::Url(url) => json!({"http": {"url": url}}),
        }
    }
}

/// Copies the image into the folder, or finds the copy of an earlier run.
pub async fn keep(folder: &Path, image: Option<Image>) -> anyhow::Result<Image> {
    let kept = folder.join("images/guest.qcow2");
    match image {
        Some(Image::File(path)) if is_copy(&path, &kept) => {}
        Some(Image::File(path)) => copy(&path, &kept).await?,
        Some(url) => return Ok(url),
        None if kept.is_file() => {}
        None => bail!(
            "There is no image yet: name one with --image. `make up` builds a small one, hack/guest.sh prints its path"
        ),
    }
    Ok(Image::File(kept))
}

/// As long as the original, and not older.
fn is_copy(original: &Path, copy: &Path) -> bool {
    let about = |path: &Path| {
        let about = path.metadata().ok()?;
        Some((about.len(), about.modified().ok()?))
    };
    match (about(original), about(copy)) {
        (Some((length, made)), Some((copied, at))) => length == copied && at >= made,
        _ => false,
    }
}

/// By another name first: a half copied image must not be taken for a whole one.
async fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let problem = || format!("Cannot copy {} to {}", from.display(), to.display());
    if let Some(parent) = to.parent() {
        let made = DirBuilder::new().mode(0o711).recursive(true).create(parent);
        made.with_context(problem)?;
    }
    let partial = to.with_extension("partial");
    tokio::fs::copy(from, &partial)
        .await
        .with_context(problem)?;
    // VMs of root run as another user, who must be able to read it.
    let open = Permissions::from_mode(0o644);
    tokio::fs::set_permissions(&partial, open)
        .await
        .with_context(problem)?;
    tokio::fs::rename(&partial, to).await.with_context(problem)
}

/// The objects of the first VM, for this folder and image.
pub fn objects(
    hypervisor: Hypervisor,
    folder: &Path,
    image: Option<&Image>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let text = match hypervisor {
        Hypervisor::Qemu => QEMU,
        Hypervisor::Mock => MOCK,
    };
    let mut objects: Vec<DynamicObject> =
        serde_saphyr::from_multiple(text).context("The sample cannot be read")?;
    for object in &mut objects {
        fit(object, hypervisor, folder, image);
    }
    Ok(objects)
}

fn fit(object: &mut DynamicObject, hypervisor: Hypervisor, folder: &Path, image: Option<&Image>) {
    let kind = object.types.as_ref().map_or("", |types| &types.kind);
    match (kind, hypervisor, image) {
        ("Provider", Hypervisor::Qemu, _) => {
            object.data["spec"]["endpoint"] = json!(qemu_endpoint(folder));
        }
        ("Provider", Hypervisor::Mock, _) => {
            object.data["spec"]["endpoint"] =
                json!(format!("mock://{}", folder.join("mock").display()));
        }
        ("VMImage", Hypervisor::Qemu, Some(image)) => {
            object.data["spec"]["source"] = image.source();
        }
        _ => {}
    }
}

/// The hypervisor of this folder.
pub fn qemu_endpoint(folder: &Path) -> String {
    format!("qemu://{}", folder.join("qemu").display())
}

/// The name of the VirtualMachine among the objects.
pub fn vm_name(objects: &[DynamicObject]) -> Option<String> {
    let vm = objects
        .iter()
        .find(|o| o.types.as_ref().is_some_and(|t| t.kind == "VirtualMachine"));
    vm.map(ResourceExt::name_any)
}

/// Creates what is missing, in order, and returns how many that were.
pub async fn create_missing(client: &Client, objects: &[DynamicObject]) -> anyhow::Result<usize> {
    let mut made = 0;
    for object in objects {
        match api_of(client, object)?
            .create(&PostParams::default(), object)
            .await
        {
            Ok(_) => made += 1,
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("Cannot create the sample {}", object.name_any()));
            }
        }
    }
    Ok(made)
}

fn api_of(client: &Client, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
    let types = object.types.clone().context("An object without a kind")?;
    let kind = GroupVersionKind::try_from(&types)?;
    let resource = ApiResource::from_gvk(&kind);
    let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
    Ok(Api::namespaced_with(client.clone(), &namespace, &resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_fit_their_folder() {
        let folder = Path::new("/var/lib/there");
        let image = Image::Url("https://images.example.com/a.qcow2".to_owned());
        let qemu = objects(Hypervisor::Qemu, folder, Some(&image)).expect("readable");
        assert_eq!(vm_name(&qemu).as_deref(), Some("demo"));
        let text = serde_json::to_string(&qemu).expect("JSON");
        assert!(text.contains("qemu:///var/lib/there/qemu"), "{text}");
        assert!(text.contains("images.example.com/a.qcow2"), "{text}");
        let mock = objects(Hypervisor::Mock, folder, None).expect("readable");
        assert!(vm_name(&mock).is_some());
    }

    #[test]
    fn an_image_is_a_file_or_an_address() {
        assert!(matches!(
            Image::parse("https://x.example/y"),
            Ok(Image::Url(_))
        ));
        let missing = Image::parse("/no/such/file").expect_err("refused");
        assert!(missing.to_string().contains("--image"), "{missing}");
    }
}
