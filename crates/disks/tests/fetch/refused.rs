//! What is not fetched, and how it is told.

use std::os::unix::fs::FileTypeExt as _;

use axum::http::header;
use polyvirt_disks::fetch::{FetchError, Fetcher, Options, Proof, Reach, Request};

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
        checksum: Some(sha256(b"something else").into()),
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

/// A server that may be asked points to one that may not: nobody asks there.
#[tokio::test]
async fn a_redirect_to_the_inside_is_not_followed() {
    let inside = Server::start(|seen| Answer::file(seen, b"secret", "\"1\"")).await;
    let port = inside.address.rsplit(':').next().unwrap().to_owned();
    let careful = Fetcher::new(Options {
        reach: Reach::Others,
        ..crate::options()
    });
    let careful = careful.unwrap();
    for place in [
        inside.address.clone(),
        format!("http://localhost:{port}/"),
        format!("//0x7f.1:{port}/"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
    ] {
        let told = place.clone();
        let outside = Server::start_outside(move |_| Answer::redirect(&told)).await;
        let bench = Bench::new();
        let wanted = request(&format!("{}/disk", outside.address));
        let error = careful.fetch(&wanted, &bench.target(), |_| {}).await;
        let error = error.unwrap_err();
        assert!(
            matches!(error, FetchError::Inside { .. }),
            "{place}: {error}"
        );
        assert_eq!(outside.requests().len(), 1, "{place}");
    }
    assert!(inside.requests().is_empty(), "nobody asked inside");
}

/// The list of the day beside the image, as publishers keep it.
#[tokio::test]
async fn a_list_of_checksums_proves_an_image_or_refuses_it() {
    let (right, wrong) = (sha256(&image()), sha256(b"something else"));
    for (list, outcome) in [
        (format!("{}  disk.img\n", right.hex()), "fetched"),
        (format!("SHA256 (disk.img) = {}\n", wrong.hex()), "wrong"),
        (
            format!("{0}  a.img\n{0}  b.img\n", right.hex()),
            "has no sha256 of disk.img",
        ),
    ] {
        let server = Server::start(move |seen| match seen.path.as_str() {
            "/SUMS" => Answer::file(seen, list.as_bytes(), "\"1\""),
            _ => Answer::file(seen, &image(), "\"1\""),
        })
        .await;
        let bench = Bench::new();
        let proof = Proof::parse("sha256", &format!("{}/SUMS", server.address));
        let fetched = bench
            .fetch(&Request {
                checksum: proof.unwrap(),
                ..request(&format!("{}/disk.img", server.address))
            })
            .await;
        let told = fetched.map_or_else(|error| error.to_string(), |_| "fetched".to_owned());
        assert!(told.contains(outcome), "{told}");
        assert_eq!(bench.target().exists(), outcome == "fetched");
    }
}

#[tokio::test]
async fn the_list_of_checksums_is_not_looked_for_inside() {
    let server = Server::start(|seen| Answer::file(seen, &image(), "\"1\"")).await;
    let bench = Bench::new();
    let others = Fetcher::new(Options {
        reach: Reach::Others,
        ..Options::default()
    });
    let wanted = Request {
        checksum: Proof::parse("sha256", &server.address).unwrap(),
        ..request("http://images.example.com/disk.img")
    };
    let refused = others
        .unwrap()
        .fetch(&wanted, &bench.target(), |_| {})
        .await;
    assert!(
        matches!(refused, Err(FetchError::Inside { .. })),
        "{refused:?}"
    );
    assert!(server.requests().is_empty());
}
