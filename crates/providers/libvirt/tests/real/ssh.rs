//! SSH, against a server that forwards to libvirt's socket: keys, passwords, and hosts that are not known.

use std::collections::BTreeMap;
use std::sync::Arc;

use polyvirt_contract::{ErrorKind, Provider as _};
use polyvirt_provider_libvirt::{Libvirt, LibvirtConfig, Secret};
use russh::Channel;
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::{PrivateKey, PublicKey};
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session, VerifiedPublicKey};
use tokio::net::{TcpListener, UnixStream};

use crate::host::Host;

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

/// Lets `polyvirt` in, by one key or one password.
#[derive(Clone)]
struct Door {
    key: PublicKey,
}

impl Handler for Door {
    type Error = russh::Error;

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, Self::Error> {
        Ok(if (user, password) == ("polyvirt", "right") {
            Auth::Accept
        } else {
            Auth::reject()
        })
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        let same = key.public_key.key_data() == self.key.key_data();
        Ok(if user == "polyvirt" && same {
            Auth::Accept
        } else {
            Auth::reject()
        })
    }

    async fn channel_open_direct_streamlocal(
        &mut self,
        channel: Channel<Msg>,
        socket_path: &str,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        let socket = UnixStream::connect(socket_path).await;
        let Ok(mut socket) = socket else {
            return Ok(());
        };
        reply.accept().await;
        tokio::spawn(async move {
            let mut stream = channel.into_stream();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut socket).await;
        });
        Ok(())
    }
}

/// A server; its port.
async fn serve(host_key: PrivateKey, door: Door) -> u16 {
    let config = Arc::new(Config {
        keys: vec![host_key],
        auth_rejection_time: std::time::Duration::from_millis(10),
        ..Config::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (config, door) = (config.clone(), door.clone());
            tokio::spawn(async move {
                if let Ok(session) = russh::server::run_stream(config, stream, door).await {
                    let _ = session.await;
                }
            });
        }
    });
    port
}

fn secrets(pairs: &[(&str, &str)]) -> BTreeMap<String, Secret> {
    let pair = |(name, text): &(&str, &str)| ((*name).to_owned(), Secret::new(*text));
    pairs.iter().map(pair).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssh_needs_a_known_host_and_a_key_or_a_password() {
    let host = Host::start();
    let (host_key, client) = (key(1), key(2));
    let door = Door {
        key: client.public_key().clone(),
    };
    let known = host_key.public_key().to_openssh().expect("written");
    let strange = key(3).public_key().to_openssh().expect("written");
    let port = serve(host_key, door).await;
    let url = format!(
        "qemu+ssh://polyvirt@127.0.0.1:{port}/system?socket={}",
        host.socket().display()
    );
    let line = |key: &str| format!("[127.0.0.1]:{port} {key}\n");
    let (known, changed) = (line(&known), line(&strange));
    let pem = client.to_openssh(LineEnding::LF).expect("written");
    let tried = |pairs: BTreeMap<String, Secret>| {
        let config = LibvirtConfig::from_url(&url)
            .expect("readable")
            .with_credentials(pairs);
        async move {
            let provider = Libvirt::open(config);
            provider.validate().await?;
            Ok::<_, polyvirt_contract::ProviderError>(provider.inventory().await?.datastores.len())
        }
    };
    let by_key = secrets(&[("known_hosts", &known), ("ssh-privatekey", &pem)]);
    assert_eq!(tried(by_key).await, Ok(1));
    let by_password = secrets(&[("known_hosts", &known), ("password", "right\n")]);
    assert_eq!(tried(by_password).await, Ok(1));
    for (pairs, word) in [
        (secrets(&[("ssh-privatekey", &pem)]), "SHA256:"),
        (
            secrets(&[("known_hosts", &changed), ("ssh-privatekey", &pem)]),
            "in between",
        ),
        (
            secrets(&[("known_hosts", &known), ("password", "hunter2")]),
            "does not let",
        ),
        (secrets(&[("known_hosts", &known)]), "does not let"),
    ] {
        let error = tried(pairs).await.expect_err(word);
        assert_eq!(error.kind, ErrorKind::Unauthenticated, "{error:?}");
        assert!(error.message.contains(word), "{error:?}");
        assert!(!error.message.contains("hunter2"), "{error:?}");
    }
}
