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

const AWAY: Failure<'_> = Failure::Passing("no route");

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
    let once = failed(&spec(), None, &AWAY, at(0));
    let twice = failed(&spec(), Some(&once), &AWAY, at(9));
    let mut edited = spec();
    edited.source.http.as_mut().expect("http").url = "http://a/c".into();
    let answer = PreparedImage {
        task: Some("t".into()),
        ..PreparedImage::default()
    };
    let on = prepared(&edited, Some(&twice), &answer, &Wanted::default(), at(20));
    let lost = failed(&edited, Some(&on), &AWAY, at(30));
    assert_eq!(lost.attempts, Some(1));
}

#[test]
fn failures_pause_and_then_pause_for_long() {
    let once = failed(&spec(), None, &AWAY, at(0));
    assert_eq!(
        step(Some(&once), 0),
        ImageStep::RetryAfter(Duration::from_secs(10))
    );
    assert_eq!(step(Some(&once), 11), ImageStep::Prepare);
    assert_eq!(once.message.as_deref(), Some("no route"));
    let mut on = once;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        on = failed(&spec(), Some(&on), &AWAY, at(0));
        let ImageStep::RetryAfter(pause) = step(Some(&on), 0) else {
            panic!("given up after {pauses:?}");
        };
        pauses.push(pause.as_secs());
        assert_eq!(step(Some(&on), 1801), ImageStep::Prepare);
    }
    assert!((600..720).contains(&pauses[0]), "{pauses:?}");
    assert!((1200..1320).contains(&pauses[1]), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause < 1800), "{pauses:?}");
    let told = on.message.unwrap_or_default();
    assert_eq!(told, "no route. It is tried again within half an hour");
}

#[test]
fn what_is_refused_waits_for_an_edit_or_another_vm() {
    let wrong = Failure::Refused("The checksum is wrong");
    let on = failed(&spec(), None, &wrong, at(0));
    assert_eq!((&on.next_attempt, on.attempts), (&None, Some(1)));
    assert_eq!(step(Some(&on), 99_999), ImageStep::Nothing);
    let told = on.message.clone().unwrap_or_default();
    assert!(told.contains("when the VMImage changes"), "{told}");
    let mut edited = spec();
    edited.source.http.as_mut().expect("http").url = "http://a/c".into();
    let can = Capabilities {
        image_import: true,
        ..Capabilities::default()
    };
    let none = Wanted::default();
    let next = image_step(&edited, Some(&on), &can, &none, at(5));
    assert_eq!(next, ImageStep::Prepare);
}

#[test]
fn a_new_vm_does_not_wait_for_the_pauses_of_those_before_it() {
    let mut on = failed(&spec(), None, &AWAY, at(100));
    on = failed(&spec(), Some(&on), &AWAY, at(100));
    let refused = failed(&spec(), None, &Failure::Refused("no"), at(100));
    let can = Capabilities {
        image_import: true,
        ..Capabilities::default()
    };
    for (newest, now, tried) in [(99, 200, false), (150, 200, true), (101, 105, false)] {
        let wanted = Wanted {
            newest: Some(at(newest)),
            ..Wanted::default()
        };
        for on in [&on, &refused] {
            let next = image_step(&spec(), Some(on), &can, &wanted, at(now));
            assert_eq!(next == ImageStep::Prepare, tried, "{newest} {now}");
        }
    }
    let wanted = Wanted {
        newest: Some(at(101)),
        ..Wanted::default()
    };
    let soon = image_step(&spec(), Some(&refused), &can, &wanted, at(104));
    assert_eq!(soon, ImageStep::RetryAfter(Duration::from_secs(6)));
}

#[test]
fn a_provider_tells_which_failures_pass() {
    use polyvirt_contract::{ErrorKind, ProviderError};
    for (kind, passes) in [
        (ErrorKind::Unavailable, true),
        (ErrorKind::Precondition, true),
        (ErrorKind::Internal, true),
        (ErrorKind::Invalid, false),
        (ErrorKind::Unsupported, false),
    ] {
        let error = ProviderError::new(kind, "no");
        let passing = Failure::of(&error) == Failure::Passing("no");
        assert_eq!(passing, passes, "{kind:?}");
    }
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
    let once = failed(&spec(), None, &AWAY, at(0));
    let answer = PreparedImage {
        task: Some("t".into()),
        path: "/p".into(),
        ..PreparedImage::default()
    };
    let again = prepared(&spec(), Some(&once), &answer, &Wanted::default(), at(20));
    assert_eq!(again.attempts, Some(1));
    assert_eq!(
        failed(&spec(), Some(&again), &AWAY, at(30)).attempts,
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
        ..Wanted::default()
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
        on = failed(&spec(), Some(&on), &AWAY, at(again));
    }
    assert_eq!((on.available, on.path.as_deref()), (true, Some("/1")));
    assert_eq!(step(Some(&on), 5), ImageStep::Nothing);
    assert!(matches!(for_new_vm(&on, 5), ImageStep::RetryAfter(_)));
    assert_eq!(for_new_vm(&on, 9999), ImageStep::Prepare);
    let blocked = blocked(&spec(), Some(&on), "No Secret", at(6));
    assert!(blocked.available);
}
