//! Images whose origin changes: who looks there, and what VMs of before keep.

use std::path::Path;
use std::sync::{Arc, Mutex};

use polyvirt_contract::model::{CreateVm, Headers, ImageOrigin, ImageSource, PrepareImage, Pull};
use polyvirt_contract::{ErrorKind, Provider as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::lab::{Lab, blank_image, desired};

/// What a web server has at its one address: bytes, and the tag that tells them from others.
type Content = Arc<Mutex<(Vec<u8>, &'static str)>>;

struct Origin {
    url: String,
    content: Content,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    async fn start(content: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/disk", listener.local_addr().expect("an address"));
        let origin = Self {
            url,
            content: Arc::new(Mutex::new((content, "\"1\""))),
            asked: Arc::default(),
        };
        let (content, asked) = (origin.content.clone(), origin.asked.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = vec![0; 8192];
                let length = stream.read(&mut head).await.unwrap_or_default();
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                let verb = head.split(' ').next().unwrap_or_default().to_owned();
                let (body, tag) = content.lock().expect("whole").clone();
                let told = if tag.is_empty() {
                    String::new()
                } else {
                    format!("etag: {tag}\r\n")
                };
                let mut answer = format!(
                    "HTTP/1.1 200 OK\r\n{told}content-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                )
                .into_bytes();
                if verb == "GET" {
                    answer.extend(body);
                }
                asked.lock().expect("whole").push(verb);
                // A client that hangs up early is its own business.
                let _ = stream.write_all(&answer).await;
            }
        });
        origin
    }

    fn change(&self, content: Vec<u8>, tag: &'static str) {
        *self.content.lock().expect("whole") = (content, tag);
    }

    fn downloads(&self) -> usize {
        let asked = self.asked.lock().expect("whole");
        asked.iter().filter(|verb| *verb == "GET").count()
    }

    fn request(&self, pull: Pull) -> PrepareImage {
        PrepareImage {
            target_name: "image".to_owned(),
            origin: ImageOrigin::Http {
                url: self.url.clone(),
                headers: Headers::default(),
            },
            checksum: String::new(),
            checksum_type: "sha256".to_owned(),
            storage_hint: String::new(),
            pull,
        }
    }

    fn vm(&self, name: &str, number: u32, pull: Pull) -> CreateVm {
        let image = ImageSource {
            url: self.url.clone(),
            pull,
            ..ImageSource::default()
        };
        CreateVm {
            image,
            ..desired(name, number)
        }
    }
}

/// A disk that nothing boots from, so many bytes large.
fn disk(folder: &Path, bytes: &str) -> Vec<u8> {
    let blank = blank_image(folder).path;
    let made = std::process::Command::new("qemu-img")
        .args(["resize", "-q", &blank, bytes])
        .status();
    assert!(made.expect("qemu-img").success());
    std::fs::read(&blank).expect("a disk")
}

/// Waits until the image is whole, and returns where it is.
async fn prepared(lab: &Lab, request: PrepareImage) -> String {
    loop {
        let answer = lab.provider.image_prepare(request.clone()).await;
        let answer = answer.expect("accepted");
        if answer.task.is_none() {
            return answer.path;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_changed_is_fetched_when_that_is_asked_for_and_old_versions_stay() {
    let lab = Lab::new().await;
    let origin = Origin::start(disk(lab.folder.path(), "2M")).await;
    let first = prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    assert_eq!(prepared(&lab, origin.request(Pull::Always)).await, first);
    assert_eq!(origin.downloads(), 1, "it has not changed");

    let vm = origin.vm("old", 1, Pull::IfNotPresent);
    lab.provider.create(vm).await.expect("made");
    origin.change(disk(lab.folder.path(), "3M"), "\"2\"");
    let same = prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    assert_eq!(same, first, "nobody has looked");
    let second = prepared(&lab, origin.request(Pull::Always)).await;
    assert_ne!(second, first);
    assert!(Path::new(&first).exists(), "a VM is built upon it");
    assert_eq!(
        prepared(&lab, origin.request(Pull::IfNotPresent)).await,
        second,
        "the newest that is here"
    );
    assert_eq!(prepared(&lab, origin.request(Pull::Always)).await, second);
    assert_eq!(origin.downloads(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_that_may_not_fetch_its_image_needs_it_to_be_here() {
    let lab = Lab::new().await;
    let origin = Origin::start(disk(lab.folder.path(), "2M")).await;
    let refused = lab
        .provider
        .create(origin.vm("strict", 1, Pull::Never))
        .await;
    let error = refused.expect_err("it is not here");
    assert_eq!(error.kind, ErrorKind::Precondition, "{error}");
    assert_eq!(error.field.as_deref(), Some("spec.imagePullPolicy"));
    assert_eq!(origin.downloads(), 0);
    prepared(&lab, origin.request(Pull::IfNotPresent)).await;
    let made = lab
        .provider
        .create(origin.vm("strict", 1, Pull::Never))
        .await;
    made.expect("it is here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_is_tried_again_fetches_nothing_again() {
    let lab = Lab::new().await;
    let content = disk(lab.folder.path(), "2M");
    let origin = Origin::start(content.clone()).await;
    // It does not tell whether it has changed.
    origin.change(content, "");
    let wanted = origin.vm("once", 1, Pull::Always);
    for _ in 0..2 {
        let vm = lab.create(&wanted).await;
        lab.delete(&vm).await;
    }
    assert_eq!(origin.downloads(), 1, "it was fetched for this VM");
    let other = origin.vm("other", 2, Pull::Always);
    lab.create(&other).await;
    assert_eq!(origin.downloads(), 2, "another VM is another look");
}
