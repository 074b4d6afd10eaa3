//! SSH that is cut while an image is on its way: nothing is left in the pool, and it comes through when it is asked for again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use polyvirt_contract::model::{ImageOrigin, PrepareImage, Pull};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Provider as _, Result};
use polyvirt_provider_libvirt::{Libvirt, LibvirtConfig, Secret};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::lab::guest_image;
use crate::openssh::{Server, listens, make_key, serve};
use crate::storage;

const PATIENCE: Duration = Duration::from_secs(240);
/// After so long it is looked whether libvirt answers at all.
const STUCK: Duration = Duration::from_secs(20);
const NEVER: u64 = u64::MAX;

/// A wire that breaks when so many more bytes have gone to the server.
#[derive(Clone)]
struct Wire {
    port: u16,
    left: Arc<AtomicU64>,
    /// Whether nobody comes through once it has broken.
    stays_broken: Arc<AtomicBool>,
}

impl Wire {
    async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let wire = Self {
            port: listener.local_addr().expect("bound").port(),
            left: Arc::new(AtomicU64::new(NEVER)),
            stays_broken: Arc::default(),
        };
        let passes = wire.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if passes.stays_broken.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else {
                    continue;
                };
                tokio::spawn(passes.clone().pass(client, server));
            }
        });
        wire
    }

    async fn pass(self, client: TcpStream, server: TcpStream) {
        let ((mut from, mut back), (mut answers, mut to)) =
            (client.into_split(), server.into_split());
        let cut = CancellationToken::new();
        let answering = cut.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = answering.cancelled() => {}
                _ = tokio::io::copy(&mut answers, &mut back) => {}
            }
        });
        let mut piece = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut piece).await {
            if self.breaks_by(u64::try_from(length).expect("small")) {
                break;
            }
            if to.write_all(&piece[..length]).await.is_err() {
                break;
            }
        }
        cut.cancel();
    }

    /// Once; then it is whole again.
    fn breaks_by(&self, bytes: u64) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left == NEVER {
            return false;
        }
        let breaks = left <= bytes;
        let rest = if breaks { NEVER } else { left - bytes };
        self.left.store(rest, Ordering::Relaxed);
        breaks
    }

    fn break_after(&self, bytes: u64) {
        self.left.store(bytes, Ordering::Relaxed);
    }

    fn break_no_more(&self) {
        self.left.store(NEVER, Ordering::Relaxed);
        self.stays_broken.store(false, Ordering::Relaxed);
    }

    fn is_broken(&self) -> bool {
        self.left.load(Ordering::Relaxed) == NEVER
    }
}

struct Remote {
    host: Host,
    wire: Wire,
    config: LibvirtConfig,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl Remote {
    async fn start() -> Self {
        let host = Host::start();
        let folder = tempfile::tempdir().expect("a folder");
        let host_key = make_key(folder.path(), "host", "ed25519");
        let public = make_key(folder.path(), "client", "ed25519");
        std::fs::write(folder.path().join("authorized"), public).expect("written");
        let server = serve(folder.path());
        listens(&server, folder.path()).await;
        let wire = Wire::to(server.port).await;
        let url = format!(
            "qemu+ssh://root@127.0.0.1:{}/system?socket={}&imageHosts=any&scratch={}",
            wire.port,
            host.socket().display(),
            folder.path().display()
        );
        let private = std::fs::read(folder.path().join("client")).expect("a private key");
        let known = format!("[127.0.0.1]:{} {host_key}", wire.port);
        let secrets = BTreeMap::from([
            ("known_hosts".to_owned(), Secret::new(known)),
            ("ssh-privatekey".to_owned(), Secret::new(private)),
        ]);
        let config = LibvirtConfig::from_url(&url).expect("readable");
        Self {
            host,
            wire,
            config: config.with_credentials(secrets),
            _server: server,
            _folder: folder,
        }
    }

    /// What lies in the pool.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.host.path("pool")).expect("a pool");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry
                .expect("readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    async fn until(&self, what: &str, fits: impl Fn(&[String]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut looks = Instant::now() + STUCK;
        while !fits(&self.files()) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.files());
            if looks < Instant::now() {
                self.host.restart_if_stuck();
                looks = Instant::now() + STUCK;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Has the image brought into the pool.
async fn prepared(provider: &Libvirt, url: &str, format: &str) -> Result<()> {
    let request = PrepareImage {
        origin: ImageOrigin::Libvirt {
            path: String::new(),
            url: url.to_owned(),
            format: format.to_owned(),
            storage_pool: String::new(),
        },
        checksum: String::new(),
        checksum_type: String::new(),
        storage_hint: String::new(),
        pull: Pull::default(),
        target_name: "image".to_owned(),
        identity: None,
    };
    let Some(task) = provider.image_prepare(request).await?.task else {
        return Ok(());
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match provider.task_status(&task).await.expect("known") {
            TaskState::Succeeded => return Ok(()),
            TaskState::Failed(error) => return Err(error),
            TaskState::Running { .. } => assert!(Instant::now() < deadline, "too slow"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Bytes that cannot be made fewer.
fn noise(length: usize) -> Vec<u8> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    };
    (0..length / 8).flat_map(|_| next()).collect()
}

impl Remote {
    /// Asked for again it comes through: the image and its mark are there, and nothing else.
    async fn comes_through(&self, provider: &Libvirt, url: &str, format: &str) {
        self.wire.break_no_more();
        prepared(provider, url, format).await.expect("brought");
        self.until("the image and its mark", |files| files.len() == 2)
            .await;
        for file in self.files() {
            assert!(!file.contains(".by-"), "still being made: {file}");
            self.host.virsh(&["vol-delete", "--pool", "default", &file]);
        }
    }
}

/// Whether others can come through at once where a wire broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    Short,
    Long,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssh_that_is_cut_in_mid_upload_leaves_nothing_behind() {
    let remote = Remote::start().await;
    let provider = Libvirt::open(remote.config.clone());
    provider.validate().await.expect("reached");
    let guest = std::fs::read(guest_image()).expect("readable");
    let cases = [
        ("qcow2", guest, Break::Short),
        ("raw", noise(8 << 20), Break::Short),
        ("raw", noise(4 << 20), Break::Long),
    ];
    for (format, bytes, long) in cases {
        // All bytes go over the wire as they are, so this is in the middle of them.
        let middle = u64::try_from(bytes.len() / 2).expect("small");
        let url = storage::serve(bytes).await;
        let is_long = long == Break::Long;
        remote.wire.stays_broken.store(is_long, Ordering::Relaxed);
        remote.wire.break_after(middle);
        let error = prepared(&provider, &url, format).await.expect_err("cut");
        println!("{format}: {error}");
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
        assert!(remote.wire.is_broken(), "it was cut in the middle");
        remote.wire.break_no_more();
        remote
            .until("it is cleared away", <[String]>::is_empty)
            .await;
        remote.comes_through(&provider, &url, format).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssh_that_is_cut_at_the_end_of_an_upload_leaves_a_whole_image_or_none() {
    let remote = Remote::start().await;
    let provider = Libvirt::open(remote.config.clone());
    provider.validate().await.expect("reached");
    // SSH adds less than a hundredth: around that the last bytes pass, then the mark is made, and the claim goes.
    for thousandths in [1000, 1004, 1008, 1012] {
        let bytes = noise(2 << 20);
        let end = u64::try_from(bytes.len()).expect("small") * thousandths / 1000;
        let url = storage::serve(bytes).await;
        remote.wire.break_after(end);
        let ended = prepared(&provider, &url, "raw").await;
        println!("{thousandths} thousandths: {ended:?}");
        let cut = ended.as_ref().err().map(|error| error.kind);
        assert!(matches!(cut, None | Some(ErrorKind::Unavailable)));
        let whole = |files: &[String]| files.iter().any(|name| name.contains(".ok"));
        remote
            .until("all of it, or nothing", |files| {
                files.is_empty() || files.len() == 2 && whole(files)
            })
            .await;
        assert!(
            cut.is_some() || whole(&remote.files()),
            "done and not there"
        );
        remote.comes_through(&provider, &url, "raw").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_dies_in_mid_upload_leaves_nothing_for_long() {
    let remote = Remote::start().await;
    let provider = Libvirt::open(remote.config.clone());
    provider.validate().await.expect("reached");
    let url = storage::serve(noise(64 << 20)).await;
    let dying = provider.clone();
    let work = tokio::spawn(async move { prepared(&dying, &url, "raw").await });
    remote
        .until("it is being sent", |files| {
            files.iter().any(|name| name.ends_with(".upload"))
        })
        .await;
    work.abort();
    drop((work.await, provider));
    assert!(!remote.files().is_empty(), "nobody has cleared up");
    let next = Libvirt::open(remote.config.clone());
    next.validate().await.expect("reached");
    remote
        .until("the next life clears up", <[String]>::is_empty)
        .await;
}
