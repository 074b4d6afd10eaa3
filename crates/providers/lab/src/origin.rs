//! Images whose origin changes.

use std::sync::{Arc, Mutex};

use polyvirt_contract::model::{CreateVm, Headers, ImageOrigin, ImageSource, PrepareImage, Pull};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// What a web server has at its one address: bytes, and the tag that tells them from others.
type Content = Arc<Mutex<(Vec<u8>, &'static str)>>;

/// A web server with one image, which may change.
pub struct Origin {
    url: String,
    content: Content,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// One that has this.
    pub async fn start(content: Vec<u8>) -> Self {
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

    /// It has something else now. Without a tag it does not tell.
    pub fn change(&self, content: Vec<u8>, tag: &'static str) {
        *self.content.lock().expect("whole") = (content, tag);
    }

    /// How often the image was fetched.
    pub fn downloads(&self) -> usize {
        let asked = self.asked.lock().expect("whole");
        asked.iter().filter(|verb| *verb == "GET").count()
    }

    /// Asks for the image to be prepared.
    pub fn request(&self, pull: Pull) -> PrepareImage {
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
            identity: None,
        }
    }

    /// The VM, made of the image.
    pub fn of_it(&self, vm: CreateVm, pull: Pull) -> CreateVm {
        let image = ImageSource {
            url: self.url.clone(),
            pull,
            ..ImageSource::default()
        };
        CreateVm { image, ..vm }
    }
}
