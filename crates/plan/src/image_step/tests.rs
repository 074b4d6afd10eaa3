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
    image_step(&spec(), on, &can, &Wanted::default(), at(now))
}

#[test]
fn an_import_goes_its_way() {
    assert_eq!(step(None, 0), ImageStep::Prepare);
    let answer = PreparedImage {
        path: "/p".into(),
        task: Some("t".into()),
        ..PreparedImage::default()
    };
    let on = prepared(&spec(), None, &answer, &Wanted::default(), at(0));
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
    let on = prepared(&edited, Some(&twice), &answer, &Wanted::default(), at(20));
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
    let again = prepared(&spec(), Some(&once), &answer, &Wanted::default(), at(20));
    assert_eq!(again.attempts, Some(1));
    assert_eq!(
        failed(&spec(), Some(&again), "no route", at(30)).attempts,
        Some(2)
    );
}

fn for_new_vm(on: &ImageProviderStatus, now: i64) -> ImageStep {
    let can = Capabilities {
        image_import: true,
        ..Capabilities::default()
    };
    image_step(&spec(), Some(on), &can, &always(), at(now))
}

fn always() -> Wanted<'static> {
    Wanted {
        checked_for: vec!["uid-2"],
    }
}

fn at_path(path: &str) -> PreparedImage {
    PreparedImage {
        path: path.into(),
        ..PreparedImage::default()
    }
}

#[test]
fn the_origin_is_looked_at_once_for_each_vm_that_asks_for_it() {
    let there = prepared(&spec(), None, &at_path("/1"), &Wanted::default(), at(0));
    assert_eq!(step(Some(&there), 1), ImageStep::Nothing);
    assert_eq!(for_new_vm(&there, 1), ImageStep::Prepare);
    let checked = prepared(&spec(), Some(&there), &at_path("/2"), &always(), at(2));
    assert_eq!(checked.path.as_deref(), Some("/2"));
    assert_eq!(for_new_vm(&checked, 3), ImageStep::Nothing);
}

#[test]
fn what_is_there_is_used_until_there_is_something_newer() {
    let there = prepared(&spec(), None, &at_path("/1"), &Wanted::default(), at(0));
    let newer = PreparedImage {
        task: Some("t".into()),
        ..at_path("/2")
    };
    let renewing = prepared(&spec(), Some(&there), &newer, &always(), at(2));
    assert_eq!(
        (renewing.available, renewing.path.as_deref()),
        (true, Some("/1"))
    );
    assert_eq!(step(Some(&renewing), 3), ImageStep::Nothing);
    assert_eq!(for_new_vm(&renewing, 3), ImageStep::Check("t".into()));
    let newer = arrived(&renewing, at(4));
    assert_eq!(newer.path.as_deref(), Some("/2"));
    assert_eq!(for_new_vm(&newer, 5), ImageStep::Nothing);
}

#[test]
fn an_origin_that_does_not_answer_holds_up_only_those_who_asked_for_it() {
    let mut on = prepared(&spec(), None, &at_path("/1"), &Wanted::default(), at(0));
    for again in 1..5 {
        on = failed(&spec(), Some(&on), "no route", at(again));
    }
    assert_eq!((on.available, on.path.as_deref()), (true, Some("/1")));
    assert_eq!(step(Some(&on), 5), ImageStep::Nothing);
    assert!(matches!(for_new_vm(&on, 5), ImageStep::RetryAfter(_)));
    assert_eq!(for_new_vm(&on, 999), ImageStep::Prepare);
    let blocked = blocked(&spec(), Some(&on), "No Secret", at(6));
    assert!(blocked.available);
}
