//! Prepared images: each a qcow2 file that stands alone, is read-only, and is shared by the overlays of its VMs.
//!
//! ```text
//!   source ──► fetched or opened ──► probed: refuses what names other files ──► qemu-img, as QEMU's user ──► images/ID
//! ```
//!
//! An image is made beside its place and then moved there, so one that is there is whole.

mod prepare;
mod source;
mod versions;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use polyvirt_contract::model::{CreateVm, ImageSource, PreparedImage};
use polyvirt_contract::{ErrorKind, ImageId, ProviderError, Result};

use crate::core::Core;
use crate::errors;
use crate::state::{self, ImageRecord};

pub(crate) use prepare::{clear_leftovers, prepare};
pub(crate) use source::Source;

/// The file of an image in its folder. It lies as deep as the disks of VMs do, so that one which becomes a layer finds what is
/// below it by the same name.
const DISK: &str = "disk/image.qcow2";
const RECORD: &str = "image.json";

/// The image's disk as the disks of a VM name it: relative, so that the whole state can be moved.
pub(crate) fn below(id: &str) -> String {
    format!("../../../images/{id}/{DISK}")
}

fn folder(core: &Core, id: &str) -> PathBuf {
    core.state.images().join(id)
}

/// Whether the text can be the id of an image: it becomes the name of a folder.
fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.len() <= 64 && text.bytes().all(fits)
}

/// The image of this id, if it is there.
pub(crate) fn get(core: &Core, id: &str) -> Result<Option<ImageRecord>> {
    if !is_id(id) {
        return Ok(None);
    }
    state::read_json(&folder(core, id).join(RECORD))
}

fn all(core: &Core) -> Vec<ImageRecord> {
    let entries = std::fs::read_dir(core.state.images()).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter_map(|name| get(core, &name).ok().flatten())
        .collect()
}

/// The image that a VM is to be made from, prepared now if it is not yet.
pub(crate) async fn for_vm(core: &Arc<Core>, request: &CreateVm) -> Result<ImageRecord> {
    if let Some(image) = named(core, &request.image)? {
        return Ok(image);
    }
    let prepared = prepare(core, Source::of_vm(core, request)?).await?;
    prepared.begun.done().await?;
    get(core, &prepared.id)?.ok_or_else(|| absent(&prepared.id))
}

/// An image that is known by its id or by its path.
fn named(core: &Core, source: &ImageSource) -> Result<Option<ImageRecord>> {
    let template = source.template_name.as_str();
    let by_path = Path::new(&source.path)
        .strip_prefix(core.state.images())
        .ok();
    let by_path = by_path.and_then(|path| path.components().next()?.as_os_str().to_str());
    for id in [template, by_path.unwrap_or_default()] {
        if let Some(image) = get(core, id)? {
            return Ok(Some(image));
        }
    }
    let nothing_else = source.path.is_empty() && source.url.is_empty();
    if by_path.is_some() || nothing_else && !template.is_empty() {
        let name = if template.is_empty() {
            &source.path
        } else {
            template
        };
        return Err(absent(name));
    }
    Ok(None)
}

fn absent(name: &str) -> ProviderError {
    ProviderError::not_found(format!("The image {name}")).at("spec.imageRef")
}

/// Where the disk of an image is.
pub(crate) fn disk_path(core: &Core, id: &str) -> PathBuf {
    folder(core, id).join(DISK)
}

/// Writes down an image whose disk is in its place.
pub(crate) fn keep(core: &Core, image: &ImageRecord) -> Result<()> {
    state::write_json(&folder(core, &image.id).join(RECORD), image)
}

/// Where the contract finds an image.
pub(crate) fn place(core: &Core, id: &str) -> PreparedImage {
    PreparedImage {
        id: ImageId::from(id),
        path: disk_path(core, id).display().to_string(),
        task: None,
    }
}

/// Deletes a prepared image, unless a VM or another image is built upon it.
pub(crate) async fn delete(core: &Core, image: &PreparedImage) -> Result<()> {
    let _admitted = core.admission.lock().await;
    let source = ImageSource {
        template_name: image.id.to_string(),
        path: image.path.clone(),
        ..ImageSource::default()
    };
    let Some(found) = named(core, &source)? else {
        return Err(absent(&image.path));
    };
    if let Some(user) = user_of(core, &found.id) {
        let message = format!(
            "{user} is built upon the image {}; delete that first",
            found.id
        );
        return Err(ProviderError::new(ErrorKind::Precondition, message));
    }
    remove(core, &found.id)?;
    versions::drop_unused(core, &found);
    Ok(())
}

fn user_of(core: &Core, id: &str) -> Option<String> {
    let vm = core
        .all()
        .into_iter()
        .find(|vm| vm.record(|record| record.image == id));
    if let Some(vm) = vm {
        return Some(format!(
            "The VM {}",
            vm.record(|record| record.name.clone())
        ));
    }
    let layer = all(core).into_iter().find(|image| image.base == id)?;
    Some(format!("The layer {}", layer.id))
}

fn remove(core: &Core, id: &str) -> Result<()> {
    let folder = folder(core, id);
    // The record goes first: what has none is no image, and is removed when the provider starts.
    let removed = state::off_worker(|| {
        std::fs::remove_file(folder.join(RECORD))?;
        std::fs::remove_dir_all(&folder)
    });
    removed.map_err(|error| errors::file("Removing an image", &folder, &error))
}

/// Removes layers that no VM shares any more.
pub(crate) fn drop_unused_layers(core: &Core) {
    loop {
        let unused = all(core)
            .into_iter()
            .find(|image| image.layer && user_of(core, &image.id).is_none());
        let Some(layer) = unused else { return };
        if let Err(error) = remove(core, &layer.id) {
            tracing::warn!(layer = layer.id, %error, "A layer is left behind");
            return;
        }
    }
}
