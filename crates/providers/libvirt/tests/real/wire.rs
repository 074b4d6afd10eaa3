//! A socket in front of a daemon that counts what is asked through it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use crate::host::Host;

/// The program of signs of life; they are not counted.
const KEEPALIVE: u32 = 0x6b65_6570;

/// A counting socket.
pub struct Wire {
    url: String,
    calls: Arc<Mutex<Vec<u32>>>,
    connections: Arc<AtomicUsize>,
}

impl Wire {
    /// Opens one before the daemon.
    pub fn before(host: &Host) -> Self {
        let (daemon, front) = (host.socket(), host.path("counting.sock"));
        let url = host.url();
        let url = url.replace(&daemon.display().to_string(), &front.display().to_string());
        let listener = UnixListener::bind(front).expect("bound");
        let calls = Arc::<Mutex<Vec<u32>>>::default();
        let connections = Arc::<AtomicUsize>::default();
        tokio::spawn(serve(listener, daemon, calls.clone(), connections.clone()));
        Self {
            url,
            calls,
            connections,
        }
    }

    /// The endpoint that leads through it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How often somebody has connected.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Numbers of the calls so far.
    pub fn calls(&self) -> Vec<u32> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.clone()
    }

    /// Waits until nothing was asked for so long.
    pub async fn quiet_for(&self, pause: Duration, patience: Duration) {
        let deadline = Instant::now() + patience;
        loop {
            let before = self.calls().len();
            tokio::time::sleep(pause).await;
            let calls = self.calls();
            if calls.len() == before {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "it never rests: {:?}",
                &calls[before..]
            );
        }
    }
}

async fn serve(
    listener: UnixListener,
    daemon: PathBuf,
    calls: Arc<Mutex<Vec<u32>>>,
    connections: Arc<AtomicUsize>,
) {
    while let Ok((client, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::Relaxed);
        let (asks, answers) = client.into_split();
        let server = UnixStream::connect(&daemon).await.expect("the daemon");
        let (from_server, to_server) = server.into_split();
        tokio::spawn(count(asks, to_server, calls.clone()));
        tokio::spawn(pass(from_server, answers));
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

/// Passes messages on until either side is gone.
async fn count(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, calls: Arc<Mutex<Vec<u32>>>) {
    while let Ok(length) = from.read_u32().await {
        let mut message = vec![0; length as usize - 4];
        if from.read_exact(&mut message).await.is_err() {
            return;
        }
        let word = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().expect("four"));
        if word(0) != KEEPALIVE {
            let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.push(word(8));
        }
        let sent = [&length.to_be_bytes()[..], &message].concat();
        if to.write_all(&sent).await.is_err() {
            return;
        }
    }
}
