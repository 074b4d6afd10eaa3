//! SSH against the server that hosts really run.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use polyvirt_contract::Provider as _;
use polyvirt_provider_libvirt::{Libvirt, LibvirtConfig, Secret};

use crate::host::Host;

/// A server that ends with its test.
pub struct Server {
    process: Child,
    pub port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn make_key(folder: &Path, name: &str, kind: &str) -> String {
    make_key_with(folder, name, kind, &["-N", ""])
}

/// The same with more words for the tool.
fn make_key_with(folder: &Path, name: &str, kind: &str, more: &[&str]) -> String {
    let file = folder.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-f"])
        .arg(&file)
        .args(more)
        .status();
    assert!(
        made.expect("ssh-keygen is installed; run hack/packages.sh")
            .success()
    );
    std::fs::read_to_string(file.with_extension("pub")).expect("a public key")
}

pub fn serve(folder: &Path) -> Server {
    let program = Path::new("/usr/sbin/sshd");
    assert!(program.exists(), "no sshd; run hack/packages.sh");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    // Where it leaves its privileges.
    std::fs::create_dir_all("/run/sshd").expect("made");
    let at = |name: &str| folder.join(name).display().to_string();
    let settings = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nAllowStreamLocalForwarding yes\n",
        at("host"),
        at("authorized"),
    );
    std::fs::write(folder.join("sshd.conf"), settings).expect("written");
    let log = std::fs::File::create(folder.join("sshd.log")).expect("a log");
    let process = Command::new(program)
        .args(["-D", "-e", "-f", &at("sshd.conf")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("started");
    Server { process, port }
}

pub async fn listens(server: &Server, folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while tokio::net::TcpStream::connect(("127.0.0.1", server.port))
        .await
        .is_err()
    {
        let said = std::fs::read_to_string(folder.join("sshd.log")).unwrap_or_default();
        assert!(Instant::now() < deadline, "sshd does not listen:\n{said}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openssh_forwards_to_the_socket_of_libvirt() {
    let host = Host::start();
    let folder = tempfile::tempdir().expect("a folder");
    let host_key = make_key(folder.path(), "host", "ed25519");
    let plain: &[&str] = &["-N", ""];
    let clients = [
        ("ed25519", "ed25519", plain),
        ("ecdsa", "ecdsa", plain),
        ("rsa", "rsa", plain),
        ("rsa-pem", "rsa", &["-N", "", "-m", "PEM"]),
        ("rsa-pkcs8", "rsa", &["-N", "", "-m", "PKCS8"]),
        ("rsa-locked", "rsa", &["-N", "open sesame", "-b", "2048"]),
    ];
    let public =
        |(name, kind, more): &(&str, &str, &[&str])| make_key_with(folder.path(), name, kind, more);
    let allowed: String = clients.iter().map(public).collect();
    std::fs::write(folder.path().join("authorized"), allowed).expect("written");
    let server = serve(folder.path());
    listens(&server, folder.path()).await;
    let url = format!(
        "qemu+ssh://root@127.0.0.1:{}/system?socket={}",
        server.port,
        host.socket().display()
    );
    let known = format!("[127.0.0.1]:{} {host_key}", server.port);
    for (kind, ..) in &clients {
        let private = std::fs::read(folder.path().join(kind)).expect("a private key");
        let secrets = BTreeMap::from([
            ("known_hosts".to_owned(), Secret::new(known.as_str())),
            ("ssh-privatekey".to_owned(), Secret::new(private)),
            ("ssh-passphrase".to_owned(), Secret::new("open sesame")),
        ]);
        let config = LibvirtConfig::from_url(&url).expect("readable");
        let provider = Libvirt::open(config.with_credentials(secrets));
        let said = std::fs::read_to_string(folder.path().join("sshd.log"));
        provider
            .validate()
            .await
            .unwrap_or_else(|error| panic!("{kind}: {error:?}\n{said:?}"));
        let inventory = provider.inventory().await.expect("told");
        assert_eq!(inventory.datastores.len(), 1, "{kind}");
    }
}
