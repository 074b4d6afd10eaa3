//! The next step for one image on one provider.
//!
//! ```text
//!            Prepare                 Check: done
//!   absent ───────────► importing ───────────────► available
//!     ▲                   │ failed, or too long
//!     │ pause over        ▼
//!     └──────────────── failed ── (retries used up: waits for an edit)
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{ImagePhase, ImageProviderStatus, VMImageSpec};
use polyvirt_contract::model::PreparedImage;
use polyvirt_contract::{Capabilities, ImageId, TaskId};

use crate::image::{Availability, availability, fingerprint};

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
    now: Timestamp,
) -> ImageStep {
    match availability(spec, on, can) {
        Availability::NeedsPrepare => ImageStep::Prepare,
        Availability::Preparing => check(spec, on, now),
        Availability::Failed(_) => retry(spec, on, now),
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

fn retry(spec: &VMImageSpec, on: Option<&ImageProviderStatus>, now: Timestamp) -> ImageStep {
    let Some(on) = on else {
        return ImageStep::Prepare;
    };
    let allowed = spec.prepare.as_ref().map_or(3, |p| p.retries);
    if on.next_attempt.is_none() {
        // Nothing was sent: whatever stood in the way may be gone.
        return ImageStep::Prepare;
    }
    if on.attempts.unwrap_or(0) > allowed {
        return ImageStep::Nothing;
    }
    let at = on.next_attempt.as_ref().map_or(now, |t| t.0);
    match Duration::try_from(at.duration_since(now)) {
        Ok(rest) if !rest.is_zero() => ImageStep::RetryAfter(rest),
        _ => ImageStep::Prepare,
    }
}

/// The provider took the request.
pub fn prepared(
    spec: &VMImageSpec,
    old: Option<&ImageProviderStatus>,
    answer: &PreparedImage,
    now: Timestamp,
) -> ImageProviderStatus {
    let done = answer.task.is_none();
    ImageProviderStatus {
        available: done,
        id: Some(answer.id.to_string()).filter(|id| !id.is_empty()),
        path: Some(answer.path.clone()).filter(|path| !path.is_empty()),
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

/// What was tried with another source says nothing of this one.
fn same_source<'a>(
    spec: &VMImageSpec,
    on: Option<&'a ImageProviderStatus>,
) -> Option<&'a ImageProviderStatus> {
    on.filter(|o| o.fingerprint.as_deref() == Some(fingerprint(spec).as_str()))
}

/// The task ended well.
pub fn arrived(on: &ImageProviderStatus, now: Timestamp) -> ImageProviderStatus {
    ImageProviderStatus {
        available: true,
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
        message: None,
        ..on.clone()
    }
}

/// The attempt failed.
pub fn failed(
    spec: &VMImageSpec,
    on: Option<&ImageProviderStatus>,
    why: &str,
    now: Timestamp,
) -> ImageProviderStatus {
    let attempts = same_source(spec, on)
        .and_then(|o| o.attempts)
        .unwrap_or(0)
        .saturating_add(1);
    let pause = Duration::from_secs(5_u64 << attempts.clamp(0, 6));
    let next = SignedDuration::try_from(pause)
        .ok()
        .and_then(|p| now.checked_add(p).ok());
    ImageProviderStatus {
        available: false,
        message: Some(why.to_owned()),
        fingerprint: Some(fingerprint(spec)),
        attempts: Some(attempts),
        next_attempt: next.map(Time),
        phase: Some(ImagePhase::Failed),
        last_updated: Some(Time(now)),
        ..ImageProviderStatus::default()
    }
}

/// The provider could not be asked, for a reason that is no fault of it. Tried whenever the image is looked at.
pub fn blocked(
    spec: &VMImageSpec,
    on: Option<&ImageProviderStatus>,
    why: &str,
    now: Timestamp,
) -> ImageProviderStatus {
    let same = on.filter(|o| o.next_attempt.is_none() && o.message.as_deref() == Some(why));
    let since = same.and_then(|o| o.last_updated.clone());
    ImageProviderStatus {
        attempts: Some(1),
        next_attempt: None,
        last_updated: since.or(Some(Time(now))),
        ..failed(spec, None, why, now)
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
mod tests {
    use polyvirt_api::infra::{ImagePrepare, VMImageSource};

    use super::*;

    fn spec() -> VMImageSpec {
        let http = serde_json::from_value(serde_json::json!({"url": "http://a/b"})).expect("valid");
        VMImageSpec {
            source: VMImageSource {
                http: Some(http),
                ..VMImageSource::default()
            },
            prepare: Some(ImagePrepare {
                retries: 1,
                ..ImagePrepare::default()
            }),
            ..VMImageSpec::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn step(on: Option<&ImageProviderStatus>, now: i64) -> ImageStep {
        let can = Capabilities {
            image_import: true,
            ..Capabilities::default()
        };
        image_step(&spec(), on, &can, at(now))
    }

    #[test]
    fn an_import_goes_its_way() {
        assert_eq!(step(None, 0), ImageStep::Prepare);
        let answer = PreparedImage {
            path: "/p".into(),
            task: Some("t".into()),
            ..PreparedImage::default()
        };
        let on = prepared(&spec(), None, &answer, at(0));
        assert_eq!(step(Some(&on), 10), ImageStep::Check("t".into()));
        assert_eq!(step(Some(&on), 1801), ImageStep::TimedOut);
        assert_eq!(step(Some(&forgotten(&on)), 10), ImageStep::Prepare);
        let done = arrived(&on, at(20));
        assert_eq!(step(Some(&done), 30), ImageStep::Nothing);
        assert_eq!(copy(&done).expect("a copy").path, "/p");
    }

    #[test]
    fn an_edited_source_has_all_its_attempts() {
        let once = failed(&spec(), None, "no route", at(0));
        let twice = failed(&spec(), Some(&once), "no route", at(9));
        let mut edited = spec();
        edited.source.http.as_mut().expect("http").url = "http://a/c".into();
        let answer = PreparedImage {
            task: Some("t".into()),
            ..PreparedImage::default()
        };
        let on = prepared(&edited, Some(&twice), &answer, at(20));
        let lost = failed(&edited, Some(&on), "no route", at(30));
        assert_eq!(lost.attempts, Some(1));
    }

    #[test]
    fn failures_pause_and_then_wait_for_an_edit() {
        let once = failed(&spec(), None, "no route", at(0));
        assert_eq!(
            step(Some(&once), 0),
            ImageStep::RetryAfter(Duration::from_secs(10))
        );
        assert_eq!(step(Some(&once), 11), ImageStep::Prepare);
        let twice = failed(&spec(), Some(&once), "no route", at(11));
        assert_eq!(step(Some(&twice), 9999), ImageStep::Nothing);
    }

    #[test]
    fn what_could_not_be_asked_is_asked_at_every_look() {
        let blocked_once = blocked(&spec(), None, "No Secret", at(0));
        assert_eq!(step(Some(&blocked_once), 1), ImageStep::Prepare);
        let again = blocked(&spec(), Some(&blocked_once), "No Secret", at(9));
        assert_eq!(again, blocked_once, "nothing new to write");
    }

    #[test]
    fn the_count_of_failures_survives_the_next_attempt() {
        let once = failed(&spec(), None, "no route", at(0));
        let answer = PreparedImage {
            task: Some("t".into()),
            path: "/p".into(),
            ..PreparedImage::default()
        };
        let again = prepared(&spec(), Some(&once), &answer, at(20));
        assert_eq!(again.attempts, Some(1));
        assert_eq!(
            failed(&spec(), Some(&again), "no route", at(30)).attempts,
            Some(2)
        );
    }
}
