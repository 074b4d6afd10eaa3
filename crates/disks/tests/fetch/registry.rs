//! Disks in container images.

use std::io::Write as _;

use polyvirt_contract::model::Headers;
use polyvirt_disks::fetch::{FetchError, Fetcher, Options, Reach, Request, Source};
use polyvirt_testkit::registry::{Access, Registry, archive};
use serde_json::json;

use super::{Bench, image, options, request, sha256};

async fn registry(access: Access) -> Registry {
    Registry::start(access).await.unwrap()
}

fn of(registry: &Registry, image: &str) -> Request {
    request(&format!("registry://{}", registry.name(image)))
}

fn shown(wanted: Request, secret: &str) -> Request {
    let pair = ("Authorization".to_owned(), secret.to_owned());
    Request {
        headers: Headers([pair].into()),
        ..wanted
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(bytes, level)
}

const OURS: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};

#[tokio::test]
async fn the_disk_of_a_container_disk_comes_however_it_is_packed() {
    let registry = registry(Access::Token).await;
    let tar = archive(&[("etc/passwd", b"x"), ("disk/fedora.qcow2", &image())]);
    let dotted = archive(&[("./disk/disk.img", &image())]);
    for (tag, layer) in [
        ("plain", tar.clone()),
        ("gzip", gzip(&tar)),
        ("zstd", zstd(&tar)),
        ("dotted", dotted),
        ("artifact", image()),
        ("packed-artifact", gzip(&image())),
    ] {
        let layer = registry.layer(layer);
        let version = registry.image("a/disk", tag, &[layer]);
        let bench = Bench::new();
        let wanted = of(&registry, &format!("a/disk:{tag}"));
        let fetched = bench.fetch(&wanted).await.unwrap();
        assert!(bench.content() == image(), "{tag}");
        assert_eq!(fetched.digest, sha256(&image()), "{tag}");
        assert_eq!(fetched.version, Some(version), "{tag}");
        assert!(bench.is_tidy(), "{tag}");
    }
}

#[tokio::test]
async fn of_an_index_the_image_for_this_machine_is_taken() {
    let registry = registry(Access::Open).await;
    let wrong = registry.disk("a", "other", b"another");
    let right = registry.disk("a", "ours", &image());
    let of_machine = |digest: &str, machine: &str| json!({"digest": digest, "size": 1, "platform": {"os": "linux", "architecture": machine}});
    let both = json!({"manifests": [of_machine(&wrong, "s390x"), of_machine(&right, OURS)]});
    let version = registry.manifest("a", "both", &both);
    let bench = Bench::new();
    let fetched = bench.fetch(&of(&registry, "a:both")).await.unwrap();
    assert!(bench.content() == image());
    assert_eq!(fetched.version, Some(version));

    let one = json!({"manifests": [of_machine(&wrong, "s390x")]});
    registry.manifest("a", "one", &one);
    let error = Bench::new().fetch(&of(&registry, "a:one")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("It is for linux/s390x"), "{error}");
}

#[tokio::test]
async fn upper_layers_hide_what_is_below_them() {
    let registry = registry(Access::Open).await;
    let layer = |files: &[(&str, &[u8])]| registry.layer(archive(files));
    let base = layer(&[("disk/disk.img", &[7; 4096])]);
    let upper = layer(&[("disk/disk.img", &image()), ("disk/.wh.old.img", b"")]);
    let config = layer(&[("etc/os-release", b"x")]);
    registry.image("a", "1", &[base.clone(), upper, config.clone()]);
    let bench = Bench::new();
    bench.fetch(&of(&registry, "a:1")).await.unwrap();
    assert!(bench.content() == image());

    let gone = layer(&[("disk/.wh.disk.img", b"")]);
    let all_gone = layer(&[("disk/.wh..wh..opq", b"")]);
    let two = layer(&[("disk/a", &[1; 512]), ("disk/b", &[2; 512])]);
    for (tag, layers, told) in [
        ("gone", vec![base.clone(), gone], "no file in its folder"),
        ("all-gone", vec![base, all_gone], "no file in its folder"),
        ("none", vec![config], "no file in its folder"),
        ("two", vec![two], "both a and b"),
        (
            "bad",
            vec![registry.layer(vec![0x1f, 0x8b, 9, 9])],
            "cannot be unpacked",
        ),
    ] {
        registry.image("a", tag, &layers);
        let bench = Bench::new();
        let error = bench.fetch(&of(&registry, &format!("a:{tag}"))).await;
        let error = error.unwrap_err();
        assert!(matches!(error, FetchError::NoDisk { .. }), "{tag}: {error}");
        assert!(error.to_string().contains(told), "{tag}: {error}");
        assert!(!error.is_retryable() && bench.is_tidy(), "{tag}");
    }
}

#[tokio::test]
async fn who_may_read_the_image_shows_it_and_others_are_told() {
    let basic = "Basic dXNlcjpodW50ZXIy";
    for access in [
        Access::Secret(basic.to_owned()),
        Access::Basic(basic.to_owned()),
    ] {
        let registry = registry(access).await;
        registry.disk("a", "1", &image());
        let bench = Bench::new();
        let error = bench.fetch(&of(&registry, "a:1")).await.unwrap_err();
        assert!(error.to_string().contains("pullSecretRef"), "{error}");
        let wrong = shown(of(&registry, "a:1"), "Basic d3Jvbmc6d3Jvbmc=");
        let error = bench.fetch(&wrong).await.unwrap_err();
        assert!(matches!(error, FetchError::Denied { .. }), "{error}");
        let right = shown(of(&registry, "a:1"), basic);
        bench.fetch(&right).await.unwrap();
        assert!(bench.content() == image());
    }
    let open = registry(Access::Token).await;
    let error = Bench::new().fetch(&of(&open, "a:1")).await.unwrap_err();
    assert!(matches!(error, FetchError::Absent { .. }), "{error}");
}

#[tokio::test]
async fn a_layer_that_breaks_goes_on_where_it_stopped_with_a_new_token() {
    let registry = registry(Access::Token).await;
    registry.disk("a", "1", &image());
    registry.break_after(1 << 20);
    let bench = Bench::new();
    bench.fetch(&of(&registry, "a:1")).await.unwrap();
    assert!(bench.content() == image());
    let asked = registry.asked();
    let parts = asked.iter().filter(|line| line.ends_with("bytes=1048576-"));
    assert_eq!(parts.count(), 1, "{asked:?}");

    // Three breaks in a row end the attempt. The next one goes on, and its token is another.
    registry.disk("a", "2", &[&image()[..], b"more"].concat());
    for _ in 0..3 {
        registry.break_after(100 << 10);
    }
    let error = bench.fetch(&of(&registry, "a:2")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    registry.revoke();
    bench.fetch(&of(&registry, "a:2")).await.unwrap();
    let asked = registry.asked();
    let last = asked.last().unwrap();
    assert!(last.ends_with("bytes=307200-"), "{asked:?}");
    assert!(bench.is_tidy());
}

#[tokio::test]
async fn bytes_that_are_not_what_their_digest_says_never_come_in() {
    let registry = registry(Access::Open).await;
    let layer = registry.layer(archive(&[("disk/a", &image())]));
    let digest = layer["digest"].as_str().unwrap().to_owned();
    let version = registry.image("a", "1", &[layer]);
    let pinned = of(&registry, &format!("a@{version}"));
    for bytes in [
        archive(&[("disk/a", b"evil")]),
        Vec::new(),
        image()[..9000].to_vec(),
    ] {
        registry.corrupt(&digest, bytes);
        let bench = Bench::new();
        let error = bench.fetch(&pinned).await.unwrap_err();
        assert!(matches!(error, FetchError::Checksum { .. }), "{error}");
        assert!(bench.is_tidy() && !bench.target().exists());
    }
    registry.corrupt(&version, br#"{"layers": []}"#.to_vec());
    let error = Bench::new().fetch(&pinned).await.unwrap_err();
    assert!(matches!(error, FetchError::Checksum { .. }), "{error}");
}

#[tokio::test]
async fn a_tag_is_looked_up_again_and_a_digest_is_what_it_is() {
    let registry = registry(Access::Token).await;
    let first = registry.disk("a", "1", &[1; 512]);
    let bench = Bench::new();
    let version = |image: String| {
        let wanted = of(&registry, &image);
        let fetcher = bench.fetcher.clone();
        async move { fetcher.version(&wanted).await.unwrap().unwrap() }
    };
    assert_eq!(version("a:1".to_owned()).await, first);
    let second = registry.disk("a", "1", &[2; 512]);
    assert_eq!(version("a:1".to_owned()).await, second);
    let before = registry.asked().len();
    assert_eq!(version(format!("a@{first}")).await, first);
    assert_eq!(registry.asked().len(), before, "nobody has to be asked");
    assert_eq!(registry.downloads(), 0);
}

#[tokio::test]
async fn what_is_small_when_packed_may_be_too_large_outside() {
    let registry = registry(Access::Open).await;
    let bomb = gzip(&archive(&[("disk/a", &vec![0; 64 << 20])]));
    let layer = registry.layer(bomb);
    registry.image("a", "1", &[layer]);
    let bench = Bench::new();
    let mut wanted = of(&registry, "a:1");
    wanted.max_bytes = 1 << 20;
    let error = bench.fetch(&wanted).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { .. }), "{error}");
    assert!(bench.is_tidy() && !bench.target().exists());
    registry.disk("a", "2", &vec![0; 2 << 20]);
    wanted.source = Source::parse(&format!("docker://{}", registry.name("a:2"))).unwrap();
    let error = bench.fetch(&wanted).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { .. }), "{error}");
    assert_eq!(registry.downloads(), 1, "its size was known before");
}

#[tokio::test]
async fn a_registry_of_this_machine_is_not_asked_unless_that_is_allowed() {
    let registry = registry(Access::Open).await;
    registry.disk("a", "1", &image());
    let others = Options {
        reach: Reach::Others,
        ..options()
    };
    let fetcher = Fetcher::new(others).unwrap();
    let bench = Bench::new();
    let wanted = of(&registry, "a:1");
    let error = fetcher.fetch(&wanted, &bench.target(), |_| {}).await;
    assert!(matches!(error, Err(FetchError::Inside { .. })), "{error:?}");
    assert_eq!(registry.asked(), Vec::<String>::new());
}
