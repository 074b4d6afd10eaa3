//! Images: by path and from a web server, good ones and those that must not come in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use polyvirt_contract::model::{Headers, ImageOrigin, PrepareImage, PreparedImage, Pull};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Provider as _, ProviderError, Result};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::lab::{Lab, guest_image};

fn by_path(path: &Path) -> PrepareImage {
    let origin = ImageOrigin::Libvirt {
        path: path.display().to_string(),
        url: String::new(),
        format: String::new(),
        storage_pool: String::new(),
    };
    request(origin)
}

fn by_url(url: String) -> PrepareImage {
    let headers = Headers([("X-Token".to_owned(), "open sesame".to_owned())].into());
    request(ImageOrigin::Http { url, headers })
}

fn request(origin: ImageOrigin) -> PrepareImage {
    PrepareImage {
        target_name: "image".to_owned(),
        origin,
        checksum: String::new(),
        checksum_type: "sha256".to_owned(),
        storage_hint: String::new(),
        pull: Pull::default(),
        identity: None,
    }
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// Prepares the image and waits for the end, good or bad.
pub async fn prepare(lab: &Lab, request: PrepareImage) -> Result<PreparedImage> {
    let prepared = lab.provider.image_prepare(request).await?;
    while let Some(task) = &prepared.task {
        match lab.provider.task_status(task).await? {
            TaskState::Succeeded => break,
            TaskState::Failed(error) => return Err(error),
            TaskState::Running { .. } => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
    Ok(prepared)
}

async fn refused(lab: &Lab, request: PrepareImage) -> ProviderError {
    let error = prepare(lab, request).await.expect_err("must be refused");
    let images = std::fs::read_dir(lab.folder.path().join("state/images")).expect("a folder");
    let whole = images
        .flatten()
        .any(|image| image.path().join("image.json").exists());
    assert!(!whole, "an image came in: {error}");
    let left = std::fs::read_dir(lab.folder.path().join("state/images")).expect("a folder");
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?} is left of what was refused");
    error
}

fn qemu_img(arguments: &[&str]) {
    let status = Command::new("qemu-img").args(arguments).status();
    assert!(status.expect("qemu-img").success(), "{arguments:?}");
}

/// The prepared image holds the same disk, and nobody may write it.
fn is_the_guest(prepared: &PreparedImage) {
    let guest = guest_image().display().to_string();
    qemu_img(&[
        "compare",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "qcow2",
        &guest,
        &prepared.path,
    ]);
    let metadata = std::fs::metadata(&prepared.path).expect("a file");
    assert!(metadata.permissions().readonly(), "{}", prepared.path);
}

fn file(lab: &Lab, name: &str, bytes: &[u8]) -> PathBuf {
    let path = lab.folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_come_in_by_path_in_every_format() {
    let lab = Lab::new().await;
    let prepared = prepare(&lab, by_path(guest_image()))
        .await
        .expect("imported");
    is_the_guest(&prepared);
    let again = prepare(&lab, by_path(guest_image()))
        .await
        .expect("is there");
    assert_eq!((&again.id, &again.path), (&prepared.id, &prepared.path));

    let guest = guest_image().display().to_string();
    for (name, options) in [
        (
            "stream.vmdk",
            ["-O", "vmdk", "-o", "subformat=streamOptimized"].as_slice(),
        ),
        (
            "sparse.vmdk",
            &["-O", "vmdk", "-o", "subformat=monolithicSparse"],
        ),
        ("disk.raw", &["-O", "raw"]),
        ("old.qcow2", &["-O", "qcow2", "-o", "compat=0.10"]),
    ] {
        let path = lab.folder.path().join(name);
        let target = path.display().to_string();
        qemu_img(&[&["convert", "-f", "qcow2"], options, &[&guest, &target]].concat());
        let prepared = prepare(&lab, by_path(&path)).await.expect(name);
        is_the_guest(&prepared);
        lab.provider.image_delete(&prepared).await.expect("deleted");
        assert!(!Path::new(&prepared.path).exists(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_sound_image_stays_out() {
    let lab = Lab::new().await;
    let guest = guest_image().display().to_string();
    let overlay = lab.folder.path().join("overlay.qcow2");
    let target = overlay.display().to_string();
    qemu_img(&[
        "create", "-q", "-f", "qcow2", "-b", &guest, "-F", "qcow2", &target,
    ]);
    let flat = lab.folder.path().join("flat.vmdk");
    let target = flat.display().to_string();
    qemu_img(&[
        "create",
        "-q",
        "-f",
        "vmdk",
        "-o",
        "subformat=monolithicFlat",
        &target,
        "1M",
    ]);
    let whole = std::fs::read(guest_image()).expect("the guest");
    for (path, word) in [
        (overlay, "a backing file"),
        (flat, "streamOptimized"),
        (file(&lab, "cut.qcow2", &whole[..100_000]), "cut off"),
        (
            file(&lab, "disk.qcow2.gz", b"\x1f\x8b\x08\x00packed"),
            "gzip",
        ),
        (file(&lab, "empty", b""), "empty"),
    ] {
        let error = refused(&lab, by_path(&path)).await;
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let mut wrong = by_path(guest_image());
    wrong.checksum = sha256(b"something else");
    assert_eq!(refused(&lab, wrong).await.kind, ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_come_in_over_http_also_if_the_connection_breaks() {
    let lab = Lab::new().await;
    let content = std::fs::read(guest_image()).expect("the guest");
    let server = Server::start(content.clone()).await;

    let mut wrong = by_url(format!("{}/wrong", server.address));
    wrong.checksum = sha256(b"something else");
    let error = refused(&lab, wrong).await;
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains(&sha256(&content)), "{error}");

    let error = refused(&lab, by_url(format!("{}/absent", server.address))).await;
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("404"), "{error}");

    let mut right = by_url(format!("{}/broken-once?signature=secret", server.address));
    right.checksum = sha256(&content);
    let prepared = prepare(&lab, right).await.expect("imported");
    is_the_guest(&prepared);
    let asked = server.asked();
    assert!(
        asked.iter().all(|head| head.contains("open sesame")),
        "{asked:?}"
    );
    let resumed = asked.iter().filter(|head| head.contains("range: bytes="));
    assert_eq!(resumed.count(), 1, "{asked:?}");
}

/// A web server with one file. `/broken-once` breaks off in the middle if it is asked for all of it.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(content: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that hangs up early is its own business.
                let _ = answer(stream, &content, &log).await;
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

async fn answer(
    mut stream: TcpStream,
    content: &[u8],
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = vec![0; 8192];
    let length = stream.read(&mut head).await?;
    let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
    log.lock().expect("not poisoned").push(head.clone());
    if head.starts_with("get /absent") {
        return stream
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .await;
    }
    let first = head
        .split("range: bytes=")
        .nth(1)
        .and_then(|rest| rest.split('-').next()?.parse().ok());
    let from: usize = first.unwrap_or_default();
    let (status, total) = (
        if first.is_some() {
            "206 Partial Content"
        } else {
            "200 OK"
        },
        content.len(),
    );
    let range = format!("content-range: bytes {from}-{}/{total}\r\n", total - 1);
    let range = if first.is_some() {
        range
    } else {
        String::new()
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\netag: \"1\"\r\n{range}content-length: {}\r\nconnection: close\r\n\r\n",
        total - from
    );
    stream.write_all(answer.as_bytes()).await?;
    let breaks = head.starts_with("get /broken-once") && first.is_none();
    let to = if breaks { total / 2 } else { total };
    stream.write_all(&content[from..to]).await?;
    stream.shutdown().await
}
