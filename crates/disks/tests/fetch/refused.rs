//! What is not fetched, and how it is told.

use std::os::unix::fs::FileTypeExt as _;

use axum::http::header;
use polyvirt_disks::fetch::{FetchError, Fetcher, Options, Reach, Request};

use crate::server::{Answer, Server};
use crate::{Bench, image, request, sha256};

#[tokio::test]
async fn the_servers_no_is_told_with_a_remedy() {
    for (status, asked, word) in [
        (404, 1, "check the address"),
        (401, 1, "credentials"),
        (403, 1, "credentials"),
        (500, 3, "tried again"),
        (503, 3, "tried again"),
        (206, 1, "was asked for all"),
    ] {
        let server = Server::start(move |_| Answer::status(status)).await;
        let bench = Bench::new();
        let error = bench.fetch(&request(&server.address)).await.unwrap_err();
        assert!(error.to_string().contains(word), "{status}: {error}");
        assert_eq!(error.is_retryable(), asked > 1, "{status}");
        assert_eq!(server.requests().len(), asked, "{status}");
        assert!(!bench.target().exists());
    }
}

#[tokio::test]
async fn wrong_bytes_are_never_kept() {
    let server = Server::start(|seen| Answer::file(seen, &image(), "\"1\"")).await;
    let bench = Bench::new();
    let wanted = Request {
        checksum: Some(sha256(b"something else")),
        ..request(&server.address)
    };
    let error = bench.fetch(&wanted).await.unwrap_err();
    assert!(
        matches!(error, FetchError::Checksum { .. }) && !error.is_retryable(),
        "{error}"
    );
    assert!(
        error.to_string().contains(sha256(&image()).hex()),
        "{error}"
    );
    assert!(
        std::fs::read_dir(bench.folder.path())
            .unwrap()
            .next()
            .is_none()
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_image_beyond_the_bound_is_refused_early_or_late() {
    let told = Server::start(|seen| Answer::file(seen, &image(), "\"1\"")).await;
    let small = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(small.path(), image()).unwrap();
    for address in [told.address, small.path().display().to_string()] {
        let bench = Bench::new();
        let error = bench
            .fetch(&Request {
                max_bytes: 1 << 20,
                ..request(&address)
            })
            .await
            .unwrap_err();
        assert!(
            matches!(error, FetchError::TooLarge { limit } if limit == 1 << 20),
            "{error}"
        );
        assert!(
            std::fs::read_dir(bench.folder.path())
                .unwrap()
                .next()
                .is_none()
        );
    }
}

#[tokio::test]
async fn redirects_are_bounded_and_lead_to_web_servers_only() {
    let round = Server::start(|_| Answer::redirect("/again")).await;
    let bench = Bench::new();
    let error = bench.fetch(&request(&round.address)).await.unwrap_err();
    assert!(error.to_string().contains("without end"), "{error}");
    assert_eq!(round.requests().len(), 11);
    for place in ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://"] {
        let server = Server::start(move |_| Answer::redirect(place)).await;
        let error = bench.fetch(&request(&server.address)).await.unwrap_err();
        assert!(
            matches!(error, FetchError::BadAnswer { .. }) && !error.is_retryable(),
            "{place}: {error}"
        );
    }
}

#[tokio::test]
async fn a_compressed_answer_is_no_image() {
    let server = Server::start(|seen| {
        let mut answer = Answer::file(seen, b"x", "\"1\"");
        answer
            .headers
            .push((header::CONTENT_ENCODING, "gzip".to_owned()));
        answer
    })
    .await;
    let error = Bench::new()
        .fetch(&request(&server.address))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("compresses"), "{error}");
}

#[tokio::test]
async fn nobody_listens() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Bench::new().fetch(&request(&address)).await.unwrap_err();
    assert!(
        matches!(error, FetchError::Connect { .. }) && error.is_retryable(),
        "{error}"
    );
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn only_regular_files_are_copied() {
    let bench = Bench::new();
    let pipe = bench.folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
    for path in ["/dev/zero", "/", &pipe.display().to_string()] {
        let error = bench.fetch(&request(path)).await.unwrap_err();
        assert!(
            matches!(error, FetchError::NotAFile { .. }),
            "{path}: {error}"
        );
    }
    let error = bench.fetch(&request("/does/not/exist")).await.unwrap_err();
    assert!(
        matches!(error, FetchError::File { .. }) && error.to_string().contains("/does/not/exist"),
        "{error}"
    );
}

#[tokio::test]
async fn this_machine_is_not_asked_unless_that_is_allowed() {
    let server = Server::start(|seen| Answer::file(seen, b"secret", "\"1\"")).await;
    let bench = Bench::new();
    let careful = Fetcher::new(Options {
        reach: Reach::Others,
        ..crate::options()
    })
    .unwrap();
    let direct = request(&format!("{}/disk", server.address));
    let error = careful.fetch(&direct, &bench.target(), |_| {}).await;
    let error = error.unwrap_err();
    assert!(matches!(error, FetchError::Inside { .. }), "{error}");
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("imageHosts=any"), "{error}");
    assert_eq!(server.requests().len(), 0, "nothing was sent");
}
