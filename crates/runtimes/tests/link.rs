//! The link between manager and provider with certificates of our own authority: who is refused, and that a rotation refuses
//! nobody, whichever side hears of it first.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::Provider as _;
use polyvirt_contract::grpc::{
    Clients, Listen, Pem, ServeOptions, ServerCheck, ServerTls, Target, TlsFiles, TlsSource,
    connect, serve,
};
use polyvirt_pki::rotation::Move;
use polyvirt_pki::{Issued, Keyring, Lifetimes, Purpose, Subject, leaf};
use polyvirt_provider_mock::{Mock, MockConfig};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

const HOST: &str = "virtrigaud-provider-lab-a.lab.svc.cluster.local";
const OTHER: &str = "virtrigaud-provider-lab-b.lab.svc.cluster.local";
const MANAGER: &str = "polyvirt-manager";

fn now() -> Timestamp {
    Timestamp::now()
}

fn keyring() -> Keyring {
    Keyring::make(&Lifetimes::default(), now()).unwrap()
}

fn issue(keyring: &Keyring, name: &str, purpose: Purpose) -> Issued {
    let subject = Subject {
        name: name.to_owned(),
        names: vec![name.to_owned()],
        purpose,
    };
    leaf::issue(keyring, &subject, &Lifetimes::default(), now())
        .unwrap()
        .0
}

fn files(trusted: &Keyring, own: Issued) -> TlsFiles {
    let pem = |text: String| Pem::Inline(text.into_bytes().into());
    TlsFiles {
        ca: pem(trusted.bundle()),
        cert: pem(own.certificate),
        key: pem(own.key),
        domain_name: Some(HOST.to_owned()),
        check: ServerCheck::Full,
    }
}

/// As the kubelet does: all files anew.
fn mount(folder: &Path, trusted: &Keyring, own: &Issued) {
    for (name, text) in [
        ("ca.crt", &trusted.bundle()),
        ("tls.crt", &own.certificate),
        ("tls.key", &own.key),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// A provider that lets in the manager alone.
async fn provider(folder: &TempDir) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let clients = Clients::parse(MANAGER);
    let tls = ServerTls::in_directory(folder.path()).for_clients(clients);
    let options = ServeOptions::new(Listen::Bound(listener)).with_tls(tls);
    let mock = Mock::new(MockConfig::default());
    tokio::spawn(serve(mock, options, std::future::pending()));
    address
}

/// One call on a connection of its own.
async fn call(address: &str, tls: impl Into<TlsSource>) -> Result<(), String> {
    let client = connect(Target::new(address).with_tls(tls)).unwrap();
    client.validate().await.map_err(|error| error.message)
}

#[tokio::test]
async fn only_the_manager_is_let_in_and_only_the_right_provider_is_believed() {
    let (ours, theirs) = (keyring(), keyring());
    let folder = tempfile::tempdir().unwrap();
    mount(folder.path(), &ours, &issue(&ours, HOST, Purpose::Server));
    let address = provider(&folder).await;
    let try_with = async |files: TlsFiles| call(&address, files).await;

    let manager = || issue(&ours, MANAGER, Purpose::Client);
    try_with(files(&ours, manager()))
        .await
        .expect("the manager is let in");

    let plain = connect(Target::new(&address)).unwrap();
    assert!(plain.validate().await.is_err(), "no TLS");
    let other_provider = issue(&ours, OTHER, Purpose::Server);
    assert!(
        try_with(files(&ours, other_provider)).await.is_err(),
        "another provider's certificate"
    );
    let named = issue(&ours, OTHER, Purpose::Client);
    assert!(
        try_with(files(&ours, named)).await.is_err(),
        "a client of another name"
    );
    let posing = issue(&ours, MANAGER, Purpose::Server);
    assert!(
        try_with(files(&ours, posing)).await.is_err(),
        "a certificate that is for serving"
    );
    let forged = issue(&theirs, MANAGER, Purpose::Client);
    assert!(
        try_with(files(&ours, forged)).await.is_err(),
        "of another authority"
    );
    assert!(
        try_with(files(&theirs, manager())).await.is_err(),
        "a manager that trusts another one"
    );
    let misled = files(&ours, manager()).with_domain_name(OTHER);
    assert!(
        try_with(misled).await.is_err(),
        "it answers in the place of another"
    );
    try_with(files(&ours, manager()))
        .await
        .expect("and it still serves");
}

/// Both sides of a link in the course of a rotation.
struct Link {
    folder: TempDir,
    manager: watch::Sender<TlsFiles>,
    address: String,
}

/// Who hears of a change first.
#[derive(Clone, Copy, Debug)]
enum First {
    Manager,
    Provider,
}

impl Link {
    async fn new(keyring: &Keyring) -> Self {
        let folder = tempfile::tempdir().unwrap();
        mount(
            folder.path(),
            keyring,
            &issue(keyring, HOST, Purpose::Server),
        );
        let address = provider(&folder).await;
        let manager = issue(keyring, MANAGER, Purpose::Client);
        Self {
            manager: watch::Sender::new(files(keyring, manager)),
            folder,
            address,
        }
    }

    fn tell_manager(&self, keyring: &Keyring) {
        let manager = issue(keyring, MANAGER, Purpose::Client);
        self.manager.send_replace(files(keyring, manager));
    }

    fn tell_provider(&self, keyring: &Keyring) {
        let own = issue(keyring, HOST, Purpose::Server);
        mount(self.folder.path(), keyring, &own);
    }

    async fn tell(&self, keyring: &Keyring, first: First) {
        match first {
            First::Manager => self.tell_manager(keyring),
            First::Provider => self.tell_provider(keyring),
        }
        self.works(&format!("{first:?} was told")).await;
        match first {
            First::Manager => self.tell_provider(keyring),
            First::Provider => self.tell_manager(keyring),
        }
        self.works("both were told").await;
    }

    async fn works(&self, when: &str) {
        // The provider looks at its files once a moment.
        for _ in 0..5 {
            let tls = TlsSource::live(self.manager.subscribe(), HOST);
            let answer = call(&self.address, tls).await;
            assert_eq!(answer, Ok(()), "{when}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn no_connection_is_refused_while_the_authority_is_replaced() {
    for first in [First::Manager, First::Provider] {
        let lifetimes = Lifetimes::default();
        let mut keyring = keyring();
        let link = Link::new(&keyring).await;
        let old = keyring.signing().mark();
        for step in [Move::Prepare, Move::Switch, Move::Forget] {
            keyring = keyring.turned(step, &lifetimes, now()).unwrap();
            link.tell(&keyring, first).await;
        }
        assert_ne!(keyring.signing().mark(), old);
        assert_eq!(keyring.bundle().matches("BEGIN CERTIFICATE").count(), 1);
    }
}

#[test]
fn a_keyring_is_read_as_it_was_kept() {
    let lifetimes = Lifetimes::default();
    let mut ring = keyring();
    for step in [Move::Prepare, Move::Switch, Move::Forget] {
        ring = ring.turned(step, &lifetimes, now()).unwrap();
        let secret = ring.to_secret("ca");
        let read = Keyring::from_secret(&secret).unwrap();
        assert_eq!(read.bundle(), ring.bundle());
        assert_eq!(read.seal(b"word"), ring.seal(b"word"));
        assert_eq!(read.due(&lifetimes, now()), ring.due(&lifetimes, now()));
        assert_eq!(read.to_secret("ca").data, secret.data);
    }
}
