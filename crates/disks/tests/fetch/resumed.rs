//! Downloads that break and go on.

use axum::http::header;
use polyvirt_disks::fetch::{FetchError, Fetcher, Request};

use crate::server::{Answer, End, Server};
use crate::{Bench, image, options, request, sha256};

const MIB: usize = 1 << 20;

fn wanted(server: &Server) -> Request {
    Request {
        checksum: Some(sha256(&image()).into()),
        ..request(&server.address)
    }
}

fn ranges(server: &Server) -> Vec<Option<usize>> {
    server
        .requests()
        .iter()
        .map(crate::server::Seen::range)
        .collect()
}

#[tokio::test]
async fn a_broken_connection_goes_on_where_it_stopped() {
    let server = Server::start(|seen| {
        let answer = Answer::file(seen, &image(), "\"1\"");
        if seen.index < 4 {
            answer.ending(End::Break(MIB / 2))
        } else {
            answer
        }
    })
    .await;
    let bench = Bench::new();
    bench.fetch(&wanted(&server)).await.unwrap();
    assert!(bench.content() == image() && bench.is_tidy());
    // More connections than attempts: each of them brought something.
    assert_eq!(
        ranges(&server),
        [
            None,
            Some(MIB / 2),
            Some(MIB),
            Some(MIB * 3 / 2),
            Some(2 * MIB)
        ]
    );
    assert_eq!(server.requests()[1].header("if-range"), Some("\"1\""));
}

#[tokio::test]
async fn a_silent_connection_is_given_up_and_made_again() {
    let server = Server::start(|seen| {
        let answer = Answer::file(seen, &image(), "\"1\"");
        if seen.index == 0 {
            answer.ending(End::Stall(MIB))
        } else {
            answer
        }
    })
    .await;
    let bench = Bench::new();
    bench.fetch(&wanted(&server)).await.unwrap();
    assert!(bench.content() == image());
    assert_eq!(ranges(&server), [None, Some(MIB)]);
}

#[tokio::test]
async fn a_restarted_program_goes_on_too() {
    let server = Server::start(|seen| {
        let answer = Answer::file(seen, &image(), "\"1\"");
        if seen.index < 3 {
            answer.ending(End::Break(if seen.index == 0 { 2 * MIB } else { 0 }))
        } else {
            answer
        }
    })
    .await;
    let bench = Bench::new();
    let error = bench.fetch(&wanted(&server)).await.unwrap_err();
    assert!(
        matches!(error, FetchError::Interrupted { bytes, .. } if bytes == 2 << 20),
        "{error}"
    );
    assert!(error.is_retryable() && !bench.target().exists());
    // What a crash may leave behind the last safe byte does not count.
    let part = bench.folder.path().join("disk.img.part");
    let longer = [std::fs::read(&part).unwrap(), b"not safe".to_vec()].concat();
    std::fs::write(&part, longer).unwrap();
    let restarted = Fetcher::new(options()).unwrap();
    restarted
        .fetch(&wanted(&server), &bench.target(), |_| {})
        .await
        .unwrap();
    assert!(bench.content() == image() && bench.is_tidy());
    assert_eq!(ranges(&server).last().unwrap(), &Some(2 * MIB));
}

#[tokio::test]
async fn the_record_of_a_download_keeps_the_address_secret() {
    let server =
        Server::start(|seen| Answer::file(seen, &image(), "\"1\"").ending(End::Break(MIB))).await;
    let bench = Bench::new();
    let one_attempt = Fetcher::new(polyvirt_disks::fetch::Options {
        attempts: 1,
        ..options()
    })
    .unwrap();
    let secret = request(&format!("{}/disk?sig=hunter2", server.address));
    let error = one_attempt
        .fetch(&secret, &bench.target(), |_| {})
        .await
        .unwrap_err();
    assert!(
        !error.to_string().contains("hunter2") && !format!("{error:?}").contains("hunter2"),
        "{error:?}"
    );
    let record = std::fs::read_to_string(bench.folder.path().join("disk.img.part.json")).unwrap();
    assert!(
        record.contains("\\\"1\\\"") && !record.contains("hunter2"),
        "{record}"
    );
    polyvirt_disks::fetch::discard_partial(&bench.target()).unwrap();
    assert!(
        std::fs::read_dir(bench.folder.path())
            .unwrap()
            .next()
            .is_none()
    );
}

#[tokio::test]
async fn another_file_under_the_same_address_is_fetched_from_its_beginning() {
    let server = Server::start(|seen| match seen.index {
        0 => Answer::file(seen, &vec![7; 2 * MIB], "\"old\"").ending(End::Break(MIB)),
        _ => Answer::file(seen, &image(), "\"new\""),
    })
    .await;
    let bench = Bench::new();
    bench.fetch(&wanted(&server)).await.unwrap();
    assert!(bench.content() == image());
    assert_eq!(ranges(&server), [None, Some(MIB)]);
}

#[tokio::test]
async fn a_server_that_lies_about_parts_is_asked_for_the_whole() {
    type Lie = fn(&mut Answer);
    let another_place: Lie =
        |answer| answer.headers[0].1 = format!("bytes 5-{}/{}", 3 * MIB - 1, 3 * MIB);
    let another_size: Lie =
        |answer| answer.headers[0].1 = format!("bytes {MIB}-{}/{}", 4 * MIB - 1, 4 * MIB);
    let no_place: Lie = |answer| drop(answer.headers.remove(0));
    let another_version: Lie = |answer| answer.headers[1].1 = "\"2\"".to_owned();
    let out_of_range: Lie = |answer| *answer = Answer::status(416);
    for lie in [
        another_place,
        another_size,
        no_place,
        another_version,
        out_of_range,
    ] {
        let server = Server::start(move |seen| {
            let mut answer = Answer::file(seen, &image(), "\"1\"");
            match seen.range() {
                Some(_) => lie(&mut answer),
                None if seen.index == 0 => answer.end = End::Break(MIB),
                None => {}
            }
            answer
        })
        .await;
        let bench = Bench::new();
        bench.fetch(&wanted(&server)).await.unwrap();
        assert!(bench.content() == image());
        assert_eq!(ranges(&server), [None, Some(MIB), None]);
    }
}

#[tokio::test]
async fn without_a_strong_tag_the_date_tells_versions_apart_and_without_both_nothing_is_resumed() {
    let date = "Mon, 16 Nov 2026 01:00:00 GMT";
    for (headers, expected) in [
        (
            vec![
                (header::ETAG, "W/\"1\"".to_owned()),
                (header::LAST_MODIFIED, date.to_owned()),
            ],
            Some(date),
        ),
        (vec![(header::ETAG, "W/\"1\"".to_owned())], None),
        (vec![], None),
    ] {
        let server = Server::start(move |seen| {
            let mut answer = Answer::file(seen, &image(), "");
            answer.headers.clone_from(&headers);
            answer.end = if seen.index == 0 {
                End::Break(MIB)
            } else {
                End::Good
            };
            answer
        })
        .await;
        let bench = Bench::new();
        bench.fetch(&wanted(&server)).await.unwrap();
        assert!(bench.content() == image());
        assert_eq!(server.requests()[1].header("if-range"), expected);
    }
}

#[tokio::test]
async fn bytes_of_an_earlier_run_that_are_wrong_are_fetched_again() {
    let server = Server::start(|seen| {
        let answer = Answer::file(seen, &image(), "\"1\"");
        if seen.index < 3 {
            answer.ending(End::Break(if seen.index == 0 { MIB } else { 0 }))
        } else {
            answer
        }
    })
    .await;
    let bench = Bench::new();
    bench.fetch(&wanted(&server)).await.unwrap_err();
    std::fs::write(bench.folder.path().join("disk.img.part"), vec![9; MIB]).unwrap();
    bench.fetch(&wanted(&server)).await.unwrap();
    assert!(bench.content() == image() && bench.is_tidy());
}

#[tokio::test]
async fn a_server_with_a_problem_is_asked_again() {
    let server = Server::start(|seen| match seen.index {
        0 => Answer::status(503),
        1 => Answer::status(429),
        _ => Answer::file(seen, &image(), "\"1\""),
    })
    .await;
    let bench = Bench::new();
    bench.fetch(&wanted(&server)).await.unwrap();
    assert_eq!(server.requests().len(), 3);
}
