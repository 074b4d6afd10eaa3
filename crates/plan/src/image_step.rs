//! The next step for one image on one provider.
//!
//! ```text
//!            Prepare                 Check: done
//!   absent ───────────► importing ───────────────► available
//!     ▲                   │ failed, or too long
//!     │ pause over        ▼
//!     └──────────────── failed ── (refused: waits for an edit, or for another VM)
//! ```
//!
//! The first `spec.prepare.retries` pauses are short, those after them long: a server that is away for a night is asked again in the
//! morning. What is refused for what it is, such as a wrong checksum, would be refused again.
//!
//! An available one whose origin is to be looked at goes the same way, and stays available on it: what was there is used until
//! there is something newer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{ImagePhase, ImageProviderStatus, ImageRenewal, VMImageSpec};
use polyvirt_contract::model::PreparedImage;
use polyvirt_contract::{Capabilities, ImageId, TaskId};

use crate::image::{Availability, Wanted, availability, fingerprint, is_fingerprint_of};

mod failure;

pub use failure::Failure;

/// What to do about an image on a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageStep {
    /// Nothing until something changes.
    Nothing,
    /// Ask the provider to bring it in.
    Prepare,
    /// Ask how the task stands.
    Check(TaskId),
    /// It took longer than it may: give up this attempt.
    TimedOut,
    /// It failed; try again after this time.
    RetryAfter(Duration),
}

/// The one next step.
pub fn image_step(
    spec: &VMImageSpec,
    on: Option<&ImageProviderStatus>,
    can: &Capabilities,
    wanted: &Wanted<'_>,
    now: Timestamp,
) -> ImageStep {
    match availability(spec, on, can, wanted) {
        Availability::NeedsPrepare => ImageStep::Prepare,
        Availability::Preparing => check(spec, on, now),
        Availability::Failed(_) => retry(on, wanted, now),
        Availability::Usable | Availability::Refused(_) | Availability::AwaitsOthers => {
            ImageStep::Nothing
        }
    }
}

fn check(spec: &VMImageSpec, on: Option<&ImageProviderStatus>, now: Timestamp) -> ImageStep {
    let Some(on) = on else {
        return ImageStep::Prepare;
    };
    let limit = timeout(spec);
    let begun = on.last_updated.as_ref().map(|t| t.0);
    if begun.is_some_and(|begun| now.duration_since(begun) > limit) {
        return ImageStep::TimedOut;
    }
    on.task_ref
        .clone()
        .and_then(TaskId::non_empty)
        .map_or(ImageStep::Prepare, ImageStep::Check)
}

fn timeout(spec: &VMImageSpec) -> SignedDuration {
    let declared = spec.prepare.as_ref().and_then(|p| p.timeout.parse().ok());
    let limit = declared.unwrap_or(Duration::from_secs(30 * 60));
    SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX)
}

fn retry(on: Option<&ImageProviderStatus>, wanted: &Wanted<'_>, now: Timestamp) -> ImageStep {
    let Some(on) = on else {
        return ImageStep::Prepare;
    };
    let planned = on.next_attempt.as_ref();
    let planned =
        planned.map(|at| Duration::try_from(at.0.duration_since(now)).unwrap_or_default());
    let sooner = wanted.tried_for_news(on, now);
    match [planned, sooner].into_iter().flatten().min() {
        None => ImageStep::Nothing,
        Some(Duration::ZERO) => ImageStep::Prepare,
        Some(rest) => ImageStep::RetryAfter(rest),
    }
}

/// The provider took the request.
pub fn prepared(
    spec: &VMImageSpec,
    old: Option<&ImageProviderStatus>,
    answer: &PreparedImage,
    wanted: &Wanted<'_>,
    now: Timestamp,
) -> ImageProviderStatus {
    let done = answer.task.is_none();
    let copy = renewal(answer, wanted);
    if let Some(old) = usable(spec, old).filter(|_| !done) {
        return ImageProviderStatus {
            task_ref: answer.task.as_ref().map(ToString::to_string),
            renewal: Some(Box::new(copy)),
            message: None,
            last_updated: Some(Time(now)),
            ..old.clone()
        };
    }
    ImageProviderStatus {
        available: done,
        id: copy.id,
        path: copy.path,
        checked_for: copy.checked_for,
        task_ref: answer.task.as_ref().map(ToString::to_string),
        fingerprint: Some(fingerprint(spec)),
        attempts: same_source(spec, old)
            .and_then(|o| o.attempts)
            .filter(|_| !done),
        phase: Some(if done {
            ImagePhase::Ready
        } else {
            ImagePhase::Importing
        }),
        last_updated: Some(Time(now)),
        ..ImageProviderStatus::default()
    }
}

fn renewal(answer: &PreparedImage, wanted: &Wanted<'_>) -> ImageRenewal {
    let uids = wanted.checked_for.iter();
    ImageRenewal {
        id: Some(answer.id.to_string()).filter(|id| !id.is_empty()),
        path: Some(answer.path.clone()).filter(|path| !path.is_empty()),
        checked_for: uids.map(|uid| (*uid).to_owned()).collect(),
    }
}

/// What VMs can be made from while something newer is fetched, or cannot be.
fn usable<'a>(
    spec: &VMImageSpec,
    on: Option<&'a ImageProviderStatus>,
) -> Option<&'a ImageProviderStatus> {
    same_source(spec, on).filter(|o| o.available)
}

/// What was tried with another source says nothing of this one.
fn same_source<'a>(
    spec: &VMImageSpec,
    on: Option<&'a ImageProviderStatus>,
) -> Option<&'a ImageProviderStatus> {
    on.filter(|o| {
        let stored = o.fingerprint.as_deref();
        stored.is_some_and(|stored| is_fingerprint_of(stored, spec))
    })
}

/// The task ended well.
pub fn arrived(on: &ImageProviderStatus, now: Timestamp) -> ImageProviderStatus {
    let newer = on.renewal.as_deref().cloned();
    let copy = newer.unwrap_or_else(|| ImageRenewal {
        id: on.id.clone(),
        path: on.path.clone(),
        checked_for: on.checked_for.clone(),
    });
    ImageProviderStatus {
        available: true,
        id: copy.id,
        path: copy.path,
        checked_for: copy.checked_for,
        renewal: None,
        task_ref: None,
        attempts: None,
        next_attempt: None,
        message: None,
        phase: Some(ImagePhase::Ready),
        last_updated: Some(Time(now)),
        ..on.clone()
    }
}

/// The task is still at work, and says how far it is.
pub fn progressed(on: &ImageProviderStatus, percent: u8) -> ImageProviderStatus {
    ImageProviderStatus {
        message: Some(format!("{percent} %")),
        ..on.clone()
    }
}

/// The percentage that an entry tells.
pub fn progress(on: &ImageProviderStatus) -> Option<i32> {
    on.task_ref.as_ref()?;
    on.message.as_deref()?.strip_suffix(" %")?.parse().ok()
}

/// The provider forgot the task: ask again; the same source is prepared once.
pub fn forgotten(on: &ImageProviderStatus) -> ImageProviderStatus {
    ImageProviderStatus {
        task_ref: None,
        renewal: None,
        message: None,
        ..on.clone()
    }
}

/// The attempt failed. What happens next is told behind the reason, if it is not soon.
pub fn failed(
    spec: &VMImageSpec,
    on: Option<&ImageProviderStatus>,
    failure: &Failure<'_>,
    now: Timestamp,
) -> ImageProviderStatus {
    let attempts = same_source(spec, on)
        .and_then(|o| o.attempts)
        .unwrap_or(0)
        .saturating_add(1);
    let (pause, then) = failure.outlook(spec, attempts);
    let pause = pause.and_then(|pause| SignedDuration::try_from(pause).ok());
    let next = pause.and_then(|pause| now.checked_add(pause).ok());
    let kept = usable(spec, on).cloned().unwrap_or_default();
    ImageProviderStatus {
        message: Some(format!("{}{then}", failure.why())),
        fingerprint: Some(fingerprint(spec)),
        attempts: Some(attempts),
        next_attempt: next.map(Time),
        phase: Some(ImagePhase::Failed),
        last_updated: Some(Time(now)),
        task_ref: None,
        renewal: None,
        ..kept
    }
}

/// The provider could not be asked, for a reason that is no fault of it. It is due at once, and so tried whenever the image is
/// looked at.
pub fn blocked(
    spec: &VMImageSpec,
    on: Option<&ImageProviderStatus>,
    why: &str,
    now: Timestamp,
) -> ImageProviderStatus {
    let due = |o: &&ImageProviderStatus| o.next_attempt == o.last_updated;
    let same = on.filter(|o| o.message.as_deref() == Some(why)).filter(due);
    let since = same.and_then(|o| o.last_updated.clone());
    let since = since.or(Some(Time(now)));
    ImageProviderStatus {
        attempts: Some(1),
        next_attempt: since.clone(),
        last_updated: since,
        message: Some(why.to_owned()),
        ..failed(spec, usable(spec, on), &Failure::Passing(why), now)
    }
}

/// What a provider is told to delete.
pub fn copy(on: &ImageProviderStatus) -> Option<PreparedImage> {
    let copy = PreparedImage {
        id: ImageId::from(on.id.clone().unwrap_or_default()),
        path: on.path.clone().unwrap_or_default(),
        task: None,
    };
    (!copy.id.is_empty() || !copy.path.is_empty()).then_some(copy)
}

#[cfg(test)]
mod tests;
