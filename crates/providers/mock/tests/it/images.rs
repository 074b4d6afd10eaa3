use polyvirt_contract::model::{CreateVm, Headers, ImageOrigin, ImageSource, PrepareImage, Pull};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Provider};

use crate::common::{SECOND, created_as, manual, now, request, with, with_tasks};

fn image(name: &str, url: &str) -> PrepareImage {
    PrepareImage {
        target_name: name.to_owned(),
        origin: ImageOrigin::Http {
            url: url.to_owned(),
            headers: Headers::default(),
        },
        checksum: String::new(),
        checksum_type: String::new(),
        storage_hint: String::new(),
        pull: Pull::default(),
        identity: None,
    }
}

#[test]
fn one_source_is_prepared_once() {
    let mock = with_tasks();
    let first = now(mock.image_prepare(image("a", "https://x/1"))).expect("accepted");
    assert!(first.task.is_some());
    assert_eq!(
        now(mock.image_prepare(image("b", "https://x/1"))),
        Ok(first.clone())
    );
    mock.advance(SECOND);
    let done = now(mock.image_prepare(image("a", "https://x/1"))).expect("there");
    assert_eq!(
        (done.id, done.path, done.task),
        (first.id.clone(), first.path, None)
    );
    let other = now(mock.image_prepare(image("a", "https://x/2"))).expect("accepted");
    assert_ne!(other.id, first.id);
    assert_eq!(mock.images_prepared(), 2);
}

#[test]
fn a_wrong_checksum_fails_and_a_corrected_one_works() {
    let mock = with(|config| config.corrupt_images = ["https://x/broken".to_owned()].into());
    let bad = PrepareImage {
        checksum: "bad".to_owned(),
        ..image("a", "https://x/1")
    };
    for request in [bad, image("b", "https://x/broken")] {
        let error = now(mock.image_prepare(request)).expect_err("wrong checksum");
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert_eq!(error.field.as_deref(), Some("spec.source.checksum"));
    }
    let good = PrepareImage {
        checksum: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned(),
        ..image("a", "https://x/1")
    };
    now(mock.image_prepare(good)).expect("prepared");
}

#[test]
fn a_wrong_checksum_of_a_task_is_told_by_the_task() {
    let mock = with_tasks();
    let bad = PrepareImage {
        checksum: "bad".to_owned(),
        ..image("a", "https://x/1")
    };
    let task = now(mock.image_prepare(bad))
        .expect("accepted")
        .task
        .expect("a task");
    mock.advance(SECOND);
    let state = now(mock.task_status(&task)).expect("known");
    assert!(matches!(state, TaskState::Failed(error) if error.kind == ErrorKind::Invalid));
}

#[test]
fn a_missing_image_is_not_found_until_it_is_there() {
    let mock = manual();
    let from_template = CreateVm {
        image: ImageSource {
            template_name: "ubuntu".to_owned(),
            ..ImageSource::default()
        },
        ..request("a")
    };
    mock.faults().lose_image("ubuntu");
    mock.faults().lose_image("https://x/1");
    let error = now(mock.create(from_template.clone())).expect_err("missing");
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert_eq!(error.field.as_deref(), Some("spec.imageRef"));
    let error = now(mock.image_prepare(image("a", "https://x/1"))).expect_err("missing");
    assert_eq!(error.kind, ErrorKind::NotFound);
    mock.faults().return_image("ubuntu");
    now(mock.create(from_template)).expect("created");
}

#[test]
fn an_image_is_deleted_once_and_not_under_a_vm() {
    let mock = manual();
    let prepared = now(mock.image_prepare(image("a", "https://x/1"))).expect("prepared");
    let by_path = CreateVm {
        image: ImageSource {
            path: prepared.path.clone(),
            ..ImageSource::default()
        },
        ..request("a")
    };
    let vm = created_as(&mock, by_path);
    let error = now(mock.image_delete(&prepared)).expect_err("in use");
    assert_eq!(error.kind, ErrorKind::Precondition);
    now(mock.delete(&vm)).expect("deleted");
    assert_eq!(now(mock.image_delete(&prepared)), Ok(()));
    let error = now(mock.image_delete(&prepared)).expect_err("gone");
    assert_eq!(error.kind, ErrorKind::NotFound);
    let again = now(mock.image_prepare(image("a", "https://x/1"))).expect("prepared anew");
    assert_ne!(again.id, prepared.id);
    assert_eq!(mock.images_prepared(), 2);
}

#[test]
fn a_preparation_lost_in_a_crash_begins_anew() {
    let mock = with_tasks();
    now(mock.image_prepare(image("a", "https://x/1"))).expect("accepted");
    mock.restart();
    let again = now(mock.image_prepare(image("a", "https://x/1"))).expect("accepted");
    assert!(again.task.is_some());
    assert_eq!(mock.images_prepared(), 2);
}

#[test]
fn the_origin_is_looked_at_when_that_is_asked_for() {
    let mock = manual();
    let url = "https://x/1";
    let always = || PrepareImage {
        pull: Pull::Always,
        ..image("a", url)
    };
    let first = now(mock.image_prepare(image("a", url))).expect("there");
    assert_eq!(now(mock.image_prepare(always())), Ok(first.clone()));
    mock.faults().change_image(url);
    assert_eq!(
        now(mock.image_prepare(image("a", url))),
        Ok(first.clone()),
        "nobody has looked"
    );
    let second = now(mock.image_prepare(always())).expect("there");
    assert_ne!(second.path, first.path);
    assert_eq!(now(mock.image_prepare(always())), Ok(second));
    mock.faults().lose_image(url);
    let error = now(mock.image_prepare(always())).expect_err("gone");
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[test]
fn a_vm_that_may_not_fetch_its_image_needs_it_to_be_here() {
    let mock = manual();
    let from = |name: &str, pull| CreateVm {
        image: ImageSource {
            url: "https://x/1".to_owned(),
            pull,
            ..ImageSource::default()
        },
        ..request(name)
    };
    let error = now(mock.create(from("a", Pull::Never))).expect_err("not here");
    assert_eq!(error.kind, ErrorKind::Precondition);
    assert_eq!(error.field.as_deref(), Some("spec.imagePullPolicy"));
    now(mock.create(from("b", Pull::IfNotPresent))).expect("fetched");
    now(mock.create(from("c", Pull::Never))).expect("here now");
}
