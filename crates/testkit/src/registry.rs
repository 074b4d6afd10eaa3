//! A container registry on loopback, as good and as bad as a test wants it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use futures::StreamExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Whom a registry answers.
#[derive(Clone, Debug)]
pub enum Access {
    /// Everybody.
    Open,
    /// Who shows a token, which it gives to everybody.
    Token,
    /// Who shows a token, which it gives for this `Authorization`.
    Secret(String),
    /// Who shows this `Authorization` itself.
    Basic(String),
}

#[derive(Debug)]
struct State {
    address: String,
    access: Access,
    /// How often tokens were taken back.
    tokens: usize,
    blobs: BTreeMap<String, Vec<u8>>,
    /// By path and tag or digest.
    manifests: BTreeMap<(String, String), Vec<u8>>,
    /// After how many bytes the next downloads of layers break.
    breaks: VecDeque<usize>,
    asked: Vec<String>,
}

/// A registry that ends with its runtime.
#[derive(Clone, Debug)]
pub struct Registry(Arc<Mutex<State>>);

/// `sha256:…`.
pub fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let hex: String = digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect();
    format!("sha256:{hex}")
}

/// A layer that adds these files.
pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut all = Vec::new();
    for (name, bytes) in files {
        all.extend(header_of(name, bytes.len()));
        all.extend_from_slice(bytes);
        all.resize(all.len().next_multiple_of(512), 0);
    }
    all.resize(all.len() + 1024, 0);
    all
}

fn header_of(name: &str, bytes: usize) -> [u8; 512] {
    let mut head = [0; 512];
    let mut put =
        |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{bytes:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    let sum = format!("{sum:06o}\0 ");
    head[148..156].copy_from_slice(sum.as_bytes());
    head
}

impl Registry {
    /// Begins to answer.
    pub async fn start(access: Access) -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let registry = Self(Arc::new(Mutex::new(State {
            address: listener.local_addr()?.to_string(),
            access,
            tokens: 0,
            blobs: BTreeMap::new(),
            manifests: BTreeMap::new(),
            breaks: VecDeque::new(),
            asked: Vec::new(),
        })));
        let answering = registry.clone();
        let answer = move |method: Method, uri: Uri, headers: HeaderMap| {
            let registry = answering.clone();
            async move { registry.answer(&method, &uri, &headers) }
        };
        let router = axum::Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(registry)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The full name of an image.
    pub fn name(&self, image: &str) -> String {
        format!("{}/{image}", self.state().address)
    }

    /// Takes a layer, and says how a manifest names it.
    pub fn layer(&self, bytes: Vec<u8>) -> Value {
        let (digest, size) = (digest(&bytes), bytes.len());
        self.state().blobs.insert(digest.clone(), bytes);
        json!({"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": size})
    }

    /// Takes a manifest under a tag, which moves if it was there. Its digest.
    pub fn manifest(&self, path: &str, tag: &str, manifest: &Value) -> String {
        let bytes = manifest.to_string().into_bytes();
        let digest = digest(&bytes);
        let mut state = self.state();
        for name in [tag, &digest] {
            let key = (path.to_owned(), name.to_owned());
            state.manifests.insert(key, bytes.clone());
        }
        digest
    }

    /// Takes an image of these layers, the lowest first.
    pub fn image(&self, path: &str, tag: &str, layers: &[Value]) -> String {
        let config = self.layer(b"{}".to_vec());
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers});
        self.manifest(path, tag, &manifest)
    }

    /// Takes an image whose disk is this.
    pub fn disk(&self, path: &str, tag: &str, disk: &[u8]) -> String {
        let layer = self.layer(archive(&[("disk/disk.img", disk)]));
        self.image(path, tag, &[layer])
    }

    /// From now on other bytes come for that digest.
    pub fn corrupt(&self, digest: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        if let Some(blob) = state.blobs.get_mut(digest) {
            *blob = bytes;
            return;
        }
        for (_, manifest) in state
            .manifests
            .iter_mut()
            .filter(|(key, _)| key.1 == digest)
        {
            manifest.clone_from(&bytes);
        }
    }

    /// The next download of a layer breaks after so many bytes.
    pub fn break_after(&self, bytes: usize) {
        self.state().breaks.push_back(bytes);
    }

    /// Tokens that were given are worth nothing any more.
    pub fn revoke(&self) {
        self.state().tokens += 1;
    }

    /// All requests: method, path, and the range if a part was asked for.
    pub fn asked(&self) -> Vec<String> {
        self.state().asked.clone()
    }

    /// How many layers were sent.
    pub fn downloads(&self) -> usize {
        let asked = self.asked();
        asked.iter().filter(|line| line.contains("/blobs/")).count()
    }

    fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Body> {
        let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
        let mut state = self.state();
        let range = text(header::RANGE).map(|range| format!(" {range}"));
        let line = format!("{method} {}{}", uri.path(), range.unwrap_or_default());
        state.asked.push(line);
        let shown = text(header::AUTHORIZATION);
        if uri.path() == "/token" {
            return state.token(uri, shown);
        }
        if !state.lets_in(shown) {
            return state.challenge();
        }
        let parts: Vec<_> = uri
            .path()
            .trim_start_matches("/v2/")
            .rsplitn(3, '/')
            .collect();
        match parts[..] {
            [name, "manifests", path] => state.show_manifest(path, name),
            [digest, "blobs", _] => state.show_blob(digest, headers),
            _ => plain(StatusCode::NOT_FOUND, Vec::new()),
        }
    }
}

fn plain(status: StatusCode, bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response
}

fn with(mut response: Response<Body>, name: &'static str, value: &str) -> Response<Body> {
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
    response
}

impl State {
    fn word(&self) -> String {
        format!("token-{}", self.tokens)
    }

    fn token(&self, uri: &Uri, shown: Option<&str>) -> Response<Body> {
        let query = uri.query().unwrap_or_default();
        let allowed = match &self.access {
            Access::Secret(secret) => shown == Some(secret.as_str()),
            _ => true,
        };
        if !allowed || !query.contains("service=test") || !query.contains("%3Apull") {
            return plain(StatusCode::UNAUTHORIZED, Vec::new());
        }
        let answer = json!({"token": self.word(), "expires_in": 60});
        plain(StatusCode::OK, answer.to_string().into_bytes())
    }

    fn lets_in(&self, shown: Option<&str>) -> bool {
        match &self.access {
            Access::Open => true,
            Access::Basic(secret) => shown == Some(secret.as_str()),
            Access::Token | Access::Secret(_) => {
                shown == Some(format!("Bearer {}", self.word()).as_str())
            }
        }
    }

    fn challenge(&self) -> Response<Body> {
        let wanted = match self.access {
            Access::Basic(_) => "Basic realm=\"test\"".to_owned(),
            _ => format!(
                "Bearer realm=\"http://{}/token\",service=\"test\"",
                self.address
            ),
        };
        let refused = plain(StatusCode::UNAUTHORIZED, Vec::new());
        with(refused, "www-authenticate", &wanted)
    }

    fn show_manifest(&self, path: &str, name: &str) -> Response<Body> {
        let key = (path.to_owned(), name.to_owned());
        let Some(bytes) = self.manifests.get(&key) else {
            return plain(StatusCode::NOT_FOUND, Vec::new());
        };
        let shown = plain(StatusCode::OK, bytes.clone());
        with(shown, "docker-content-digest", &digest(bytes))
    }

    fn show_blob(&mut self, digest: &str, headers: &HeaderMap) -> Response<Body> {
        let Some(bytes) = self.blobs.get(digest) else {
            return plain(StatusCode::NOT_FOUND, Vec::new());
        };
        let tag = format!("\"{digest}\"");
        let first = part(headers, &tag).filter(|first| *first < bytes.len());
        let rest = Bytes::copy_from_slice(&bytes[first.unwrap_or(0)..]);
        let (all, length) = (bytes.len(), rest.len());
        let mut response = match self.breaks.pop_front() {
            Some(kept) => Response::new(broken(rest.slice(..kept.min(length)))),
            None => Response::new(Body::from(rest)),
        };
        if let Some(first) = first {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let range = format!("bytes {first}-{}/{all}", all - 1);
            response = with(response, "content-range", &range);
        }
        with(
            with(response, "etag", &tag),
            "content-length",
            &length.to_string(),
        )
    }
}

fn part(headers: &HeaderMap, tag: &str) -> Option<usize> {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
    let range = text(header::RANGE).filter(|_| text(header::IF_RANGE) == Some(tag))?;
    range
        .strip_prefix("bytes=")?
        .strip_suffix('-')?
        .parse()
        .ok()
}

fn broken(bytes: Bytes) -> Body {
    let end = async {
        // Gives the bytes before a chance to arrive.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Err(io::Error::other("broken on purpose"))
    };
    let pieces = futures::stream::once(async { Ok(bytes) });
    Body::from_stream(pieces.chain(futures::stream::once(end)))
}
