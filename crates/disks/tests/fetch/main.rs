//! Fetching images from a real server over real connections, good and bad.

#![allow(clippy::unwrap_used, reason = "a test")]

mod refused;
mod registry;
mod resumed;
mod server;
mod tls;

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use polyvirt_contract::model::Headers;
use polyvirt_disks::checksum::Checksum;
use polyvirt_disks::fetch::{
    FetchError, Fetched, Fetcher, Options, Progress, Reach, Request, Source,
};
use server::{Answer, Server};
use sha2::Digest as _;
use tempfile::TempDir;

/// A folder to fetch to, and a fetcher that loses patience soon.
struct Bench {
    folder: TempDir,
    fetcher: Fetcher,
}

fn options() -> Options {
    Options {
        stall_timeout: Duration::from_millis(700),
        attempts: 3,
        pause: Duration::from_millis(10),
        // The servers of these tests are here.
        reach: Reach::Anywhere,
        ..Options::default()
    }
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            fetcher: Fetcher::new(options()).unwrap(),
        }
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("disk.img")
    }

    async fn fetch(&self, request: &Request) -> Result<Fetched, FetchError> {
        self.fetcher.fetch(request, &self.target(), |_| {}).await
    }

    /// Nothing but the image is left.
    fn is_tidy(&self) -> bool {
        std::fs::read_dir(self.folder.path())
            .unwrap()
            .all(|entry| entry.unwrap().file_name() == "disk.img")
    }

    fn content(&self) -> Vec<u8> {
        std::fs::read(self.target()).unwrap()
    }
}

fn request(address: &str) -> Request {
    Request {
        source: Source::parse(address).unwrap(),
        headers: Headers::default(),
        checksum: None,
        max_bytes: 1 << 30,
    }
}

fn sha256(content: &[u8]) -> Checksum {
    let digest = sha2::Sha256::digest(content);
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let hex: String = digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect();
    Checksum::parse("sha256", &hex).unwrap().unwrap()
}

/// Three MiB that differ everywhere, with a hole of one in the middle.
fn image() -> Vec<u8> {
    let noise = |seed: u32| {
        (0..1_u32 << 18).flat_map(move |i| (i ^ seed).wrapping_mul(0x9e37_79b1).to_le_bytes())
    };
    noise(1)
        .chain(std::iter::repeat_n(0, 1 << 20))
        .chain(noise(2))
        .collect()
}

#[tokio::test]
async fn an_image_comes_over_http_whole_sparse_and_private() {
    let server = Server::start(|seen| Answer::file(seen, &image(), "\"1\"")).await;
    let bench = Bench::new();
    let told = Mutex::new(Vec::new());
    let wanted = Request {
        checksum: Some(sha256(&image()).into()),
        ..request(&server.address)
    };
    let fetched = bench
        .fetcher
        .fetch(&wanted, &bench.target(), |progress| {
            told.lock().unwrap().push(progress);
        })
        .await
        .unwrap();
    assert_eq!(
        fetched,
        Fetched {
            bytes: 3 << 20,
            digest: sha256(&image()),
            version: Some(sha256(&image()).to_string()),
        }
    );
    assert!(bench.content() == image() && bench.is_tidy());
    let metadata = std::fs::metadata(bench.target()).unwrap();
    assert!(
        metadata.blocks() * 512 < (2 << 20) + (64 << 10),
        "{} blocks",
        metadata.blocks()
    );
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let told = told.into_inner().unwrap();
    assert!(
        told.len() >= 3 && told.is_sorted_by_key(|progress| progress.bytes),
        "{told:?}"
    );
    assert_eq!(
        told.last().unwrap(),
        &Progress {
            bytes: 3 << 20,
            total: Some(3 << 20)
        }
    );
    assert_eq!(
        server.requests()[0].header("accept-encoding"),
        Some("identity")
    );
}

#[tokio::test]
async fn an_image_comes_from_a_file() {
    let bench = Bench::new();
    let original = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(original.path(), image()).unwrap();
    for address in [
        original.path().display().to_string(),
        format!("file://{}", original.path().display()),
    ] {
        let wanted = Request {
            checksum: Some(sha256(&image()).into()),
            ..request(&address)
        };
        assert_eq!(bench.fetch(&wanted).await.unwrap().bytes, 3 << 20);
        assert!(bench.content() == image() && bench.is_tidy());
    }
}

#[tokio::test]
async fn every_kind_of_checksum_is_computed() {
    let server = Server::start(|seen| Answer::file(seen, b"abc", "\"1\"")).await;
    let bench = Bench::new();
    for (kind, digest) in [
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            "sha512",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ] {
        let checksum = Checksum::parse(kind, digest).unwrap();
        let fetched = bench
            .fetch(&Request {
                checksum: checksum.clone().map(Into::into),
                ..request(&server.address)
            })
            .await
            .unwrap();
        assert_eq!(Some(fetched.digest), checksum);
    }
}

#[tokio::test]
async fn headers_go_to_the_server_that_they_are_for_and_no_other() {
    let other = Server::start(|seen| Answer::file(seen, b"image", "\"1\"")).await;
    let elsewhere = format!("{}/there", other.address);
    let server = Server::start(move |seen| match seen.path.as_str() {
        "/first" => Answer::redirect("/second"),
        _ => Answer::redirect(&elsewhere),
    })
    .await;
    let bench = Bench::new();
    let headers = Headers([("X-Token".to_owned(), "hunter2".to_owned())].into());
    bench
        .fetch(&Request {
            headers,
            ..request(&format!("{}/first", server.address))
        })
        .await
        .unwrap();
    assert_eq!(bench.content(), b"image");
    let tokens: Vec<_> = server
        .requests()
        .iter()
        .map(|seen| seen.header("x-token").map(ToOwned::to_owned))
        .collect();
    assert_eq!(
        tokens,
        [Some("hunter2".to_owned()), Some("hunter2".to_owned())]
    );
    assert_eq!(other.requests()[0].header("x-token"), None);
}

#[tokio::test]
async fn two_do_not_fetch_to_the_same_file() {
    let server = Server::start(|seen| match seen.index {
        0 => Answer::file(seen, &image(), "\"1\"").ending(server::End::Stall(1000)),
        _ => Answer::status(404),
    })
    .await;
    let bench = Bench::new();
    let wanted = request(&server.address);
    let (first, second) = tokio::join!(bench.fetch(&wanted), async {
        while server.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bench.fetch(&wanted).await
    });
    assert!(matches!(
        first.unwrap_err(),
        FetchError::Refused { status: 404, .. }
    ));
    let second = second.unwrap_err();
    assert!(
        matches!(second, FetchError::Busy { .. }) && second.is_retryable(),
        "{second}"
    );
}

#[tokio::test]
async fn an_origin_tells_which_version_it_has() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/tagged" => Answer::file(seen, b"disk", "\"7\""),
        "/moved" => Answer::redirect("/tagged"),
        "/silent" => Answer::status(200),
        "/no-head" => Answer::status(405),
        _ => Answer::status(404),
    })
    .await;
    let bench = Bench::new();
    let version = async |path: &str| {
        let wanted = request(&format!("{}{path}", server.address));
        bench.fetcher.version(&wanted).await
    };
    for (path, told) in [
        ("/tagged", Some("\"7\"")),
        ("/moved", Some("\"7\"")),
        ("/silent", None),
        ("/no-head", None),
    ] {
        assert_eq!(version(path).await.unwrap().as_deref(), told, "{path}");
    }
    assert!(matches!(
        version("/absent").await,
        Err(FetchError::Refused { status: 404, .. })
    ));
    let tagged = request(&format!("{}/tagged", server.address));
    let fetched = bench.fetch(&tagged).await.unwrap();
    assert_eq!(fetched.version.as_deref(), Some("\"7\""));
    let proved = Request {
        checksum: Some(sha256(b"disk").into()),
        ..request(&format!("{}/absent", server.address))
    };
    let told = bench.fetcher.version(&proved).await.unwrap();
    assert_eq!(told, Some(sha256(b"disk").to_string()), "nobody is asked");
}
