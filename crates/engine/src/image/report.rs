//! What people read of an image. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{
    ImagePhase, ImageProviderStatus, ImportProgress, VMImage, VMImageStatus,
};
use polyvirt_plan::conditions::{self, Finding, Truth, kind};
use polyvirt_plan::image::is_import;
use polyvirt_plan::{Note, Reason};

use crate::context::Context;
use crate::shared::Usage;

/// A provider whose VMs use the image.
pub struct Use {
    /// Its key in `status.providerStatus`.
    pub key: String,
    /// The image must be brought there; else it is used in place.
    pub imports: bool,
    /// Whether there is such a Provider.
    pub provider: ProviderObject,
}

/// Whether there is a Provider object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderObject {
    /// There is.
    There,
    /// VMs name it, and it does not exist.
    Missing,
}

/// Sums the providers up: phase, readiness, message, conditions.
pub fn summarize(ctx: &Context, image: &VMImage, status: &mut VMImageStatus, uses: &[Use]) {
    let imports = match uses {
        [] => is_import(&image.spec.source),
        uses => uses.iter().any(|u| u.imports),
    };
    let (phase, reason, message) = if imports {
        imported(status, uses)
    } else {
        (
            ImagePhase::Ready,
            Reason::Valid,
            "The image is used in place".to_owned(),
        )
    };
    let ready = phase == ImagePhase::Ready;
    status.available_on = available_on(image, status, uses);
    status.ready = Some(ready);
    status.observed_generation = image.metadata.generation;
    status.prepare_task_ref = status
        .provider_status
        .values()
        .find_map(|s| s.task_ref.clone());
    status.last_prepare_time = last_prepared(status).or_else(|| status.last_prepare_time.clone());
    status.import_progress = status
        .provider_status
        .values()
        .filter_map(import_progress)
        .min_by_key(|p| p.percentage);
    status.message = Some(message.clone());
    status.phase = Some(phase);
    let truth = if ready { Truth::True } else { Truth::False };
    let generation = image.metadata.generation;
    conditions::set(
        &mut status.conditions,
        Finding::new(kind::READY, truth, reason, message.clone()),
        generation,
        ctx.now(),
    );
    importing(ctx, image, status, phase, message);
    conditions::clear(&mut status.conditions, kind::DELETING);
}

/// The providers that it was brought to, and those whose VMs use it in place.
fn available_on(image: &VMImage, status: &VMImageStatus, uses: &[Use]) -> Vec<String> {
    let in_place = uses.iter().filter(|u| !u.imports).map(|u| u.key.clone());
    let entries = status.provider_status.iter();
    let brought = entries
        .filter(|(_, s)| s.available && is_import(&image.spec.source))
        .map(|(name, _)| name.clone());
    let mut names: Vec<_> = in_place.chain(brought).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn importing(
    ctx: &Context,
    image: &VMImage,
    status: &mut VMImageStatus,
    phase: ImagePhase,
    message: String,
) {
    let before = status.conditions.iter().any(|c| c.type_ == kind::IMPORTING);
    let generation = image.metadata.generation;
    let finding = match phase {
        ImagePhase::Importing => {
            Finding::new(kind::IMPORTING, Truth::True, Reason::Importing, message)
        }
        _ if before => Finding::new(kind::IMPORTING, Truth::False, Reason::Prepared, "Finished"),
        _ => return,
    };
    conditions::set(&mut status.conditions, finding, generation, ctx.now());
}

/// The slowest import is the one that people wait for.
fn import_progress(on: &ImageProviderStatus) -> Option<ImportProgress> {
    let percentage = polyvirt_plan::image_step::progress(on)?;
    Some(ImportProgress {
        percentage: Some(percentage),
        start_time: on.last_updated.clone(),
        ..ImportProgress::default()
    })
}

fn last_prepared(status: &VMImageStatus) -> Option<Time> {
    let times = status
        .provider_status
        .values()
        .filter(|s| s.available)
        .filter_map(|s| s.last_updated.clone());
    times.max_by_key(|t| t.0)
}

fn imported(status: &VMImageStatus, uses: &[Use]) -> (ImagePhase, Reason, String) {
    let entries: Vec<(&str, Option<&ImageProviderStatus>)> = uses
        .iter()
        .filter(|u| u.imports)
        .map(|u| (u.key.as_str(), status.provider_status.get(&u.key)))
        .collect();
    let failed = entries.iter().find_map(|(name, s)| {
        Some((
            name,
            s.as_ref()?
                .message
                .as_ref()
                .filter(|_| s.is_some_and(|s| s.attempts.unwrap_or(0) > 0))?,
        ))
    });
    if let Some((name, why)) = failed {
        return (
            ImagePhase::Failed,
            Reason::ImageFailed,
            format!("Provider {name}: {why}"),
        );
    }
    let missing = |name: &&str| {
        let mut uses = uses.iter();
        uses.any(|u| u.key == **name && u.provider == ProviderObject::Missing)
    };
    let waiting = entries
        .iter()
        .filter(|(_, s)| !s.is_some_and(|s| s.available));
    let (missing, waiting): (Vec<_>, Vec<_>) = waiting.map(|(n, _)| *n).partition(missing);
    if let (Some(name), []) = (missing.first(), waiting.as_slice()) {
        return (
            ImagePhase::Pending,
            Reason::ProviderNotFound,
            format!(
                "Provider {name} does not exist. Create it, or correct spec.providerRef of the VirtualMachines that use this image"
            ),
        );
    }
    if !waiting.is_empty() {
        return (
            ImagePhase::Importing,
            Reason::Importing,
            format!("On its way to {}", waiting.join(", ")),
        );
    }
    if status.provider_status.values().any(|s| s.available) {
        return (
            ImagePhase::Ready,
            Reason::Prepared,
            "The image is ready".to_owned(),
        );
    }
    (
        ImagePhase::Pending,
        Reason::WaitingForUse,
        "Brought to a provider when a VM needs it".to_owned(),
    )
}

/// The image is to go and is in use.
pub fn blocked(ctx: &Context, image: &VMImage, status: &mut VMImageStatus, usage: &Usage) {
    conditions::set(
        &mut status.conditions,
        usage.blocked(),
        image.metadata.generation,
        ctx.now(),
    );
}

/// One event for each change of phase.
pub fn transitions(old: &VMImageStatus, new: &VMImageStatus) -> Vec<Note> {
    if old.phase == new.phase {
        return Vec::new();
    }
    let message = new.message.clone().unwrap_or_default();
    match new.phase {
        Some(ImagePhase::Ready) => vec![Note::normal(Reason::Prepared, message)],
        Some(ImagePhase::Failed) => vec![Note::warning(Reason::ImageFailed, message)],
        Some(ImagePhase::Importing) => vec![Note::normal(Reason::Importing, message)],
        _ => Vec::new(),
    }
}
