//! A web server on loopback that behaves as badly as a test wants it to.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode, Uri, header};
use futures::StreamExt as _;

/// What a request asked for.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    /// How many requests came before.
    pub index: usize,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The first byte of a range.
    pub fn range(&self) -> Option<usize> {
        self.header("range")?
            .strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse()
            .ok()
    }
}

/// How the body ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    Good,
    /// The connection breaks after so many bytes.
    Break(usize),
    /// Nothing more comes after so many bytes.
    Stall(usize),
}

pub struct Answer {
    pub status: u16,
    pub headers: Vec<(HeaderName, String)>,
    pub body: Vec<u8>,
    pub end: End,
}

impl Answer {
    pub const fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            end: End::Good,
        }
    }

    pub fn redirect(to: &str) -> Self {
        Self {
            headers: vec![(header::LOCATION, to.to_owned())],
            ..Self::status(302)
        }
    }

    /// What an honest server answers: the rest if it was asked for and the tag is still the same.
    pub fn file(seen: &Seen, content: &[u8], etag: &str) -> Self {
        let whole = || Self {
            body: content.to_vec(),
            ..Self::status(200)
        };
        let same = seen.header("if-range") == Some(etag);
        let mut answer = match seen.range().filter(|_| same) {
            None => whole(),
            Some(first) if first >= content.len() => Self::status(416),
            Some(first) => Self {
                headers: vec![(
                    header::CONTENT_RANGE,
                    format!("bytes {first}-{}/{}", content.len() - 1, content.len()),
                )],
                body: content[first..].to_vec(),
                ..Self::status(206)
            },
        };
        answer.headers.push((header::ETAG, etag.to_owned()));
        answer
    }

    pub const fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    fn into_response(self) -> Response<Body> {
        let mut response = Response::builder().status(StatusCode::from_u16(self.status).unwrap());
        for (name, value) in &self.headers {
            response = response.header(name, value);
        }
        response
            .header(header::CONTENT_LENGTH, self.body.len())
            .body(body(self.body, self.end))
            .unwrap()
    }
}

fn body(bytes: Vec<u8>, end: End) -> Body {
    let kept = match end {
        End::Good => return Body::from(bytes),
        End::Break(kept) | End::Stall(kept) => kept.min(bytes.len()),
    };
    let pieces: Vec<_> = bytes[..kept]
        .chunks(64 << 10)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    let last = async move {
        if matches!(end, End::Stall(_)) {
            std::future::pending::<()>().await;
        }
        // Gives the bytes before a chance to arrive.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Err(io::Error::other("broken on purpose"))
    };
    Body::from_stream(futures::stream::iter(pieces).chain(futures::stream::once(last)))
}

pub struct Server {
    pub address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub async fn start(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), answer).await
    }

    /// At an address of this machine that is not loopback: to a fetcher it is any server.
    pub async fn start_outside(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        // Nothing is sent: the kernel only says from where it would be.
        let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        probe.connect("203.0.113.1:9").unwrap();
        Self::start_at(probe.local_addr().unwrap().ip(), answer).await
    }

    async fn start_at(
        place: IpAddr,
        answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind((place, 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        let handler = move |uri: Uri, headers: HeaderMap| {
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            async move {
                let request = note(&log, uri.path(), headers);
                answer(&request).into_response()
            }
        };
        tokio::spawn(async { axum::serve(listener, axum::Router::new().fallback(handler)).await });
        Self { address, seen }
    }

    pub fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn note(log: &Mutex<Vec<Seen>>, path: &str, headers: HeaderMap) -> Seen {
    let mut log = log.lock().unwrap();
    let index = log.len();
    let seen = Seen {
        path: path.to_owned(),
        headers,
        index,
    };
    log.push(seen.clone());
    seen
}
