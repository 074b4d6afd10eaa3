//! A channel of SSH to a socket of the host, in this process: no ssh program, no agent, no file of the user.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use russh::client::{self, AuthResult, Handle, Msg};
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, PublicKeyOrCertificate, decode_secret_key};
use russh::{Channel, ChannelStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Socket;
use super::known_hosts::{self, Verdict};
use super::rsa::RsaKey;
use crate::config::{Address, LibvirtConfig, Secret, Transport};
use crate::rpc::RpcError;

/// How often a silent host is asked for a sign of life.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
const USERNAME: &[&str] = &["username"];
const PASSWORD: &[&str] = &["password"];
const KEY: &[&str] = &["ssh-privatekey"];
const PASSPHRASE: &[&str] = &["ssh-passphrase"];
const KNOWN_HOSTS: &[&str] = &["known_hosts", "ssh-known-hosts"];

const UNUSABLE: &str = "ssh-privatekey of the credentials cannot be read; give an Ed25519, ECDSA or RSA key (of 2048 bits or more), and ssh-passphrase if it has one";

/// What is to be reached on the host.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    Unix(&'a str),
    Port(&'a Address),
}

/// Opens a connection of its own for the one channel.
pub(super) async fn connect(
    config: &LibvirtConfig,
    target: Target<'_>,
) -> Result<Socket, RpcError> {
    let Transport::Ssh { address, user, .. } = &config.transport else {
        return Err(refused("the endpoint is not reached by SSH"));
    };
    let mut handle = open(config, address).await?;
    log_in(config, &mut handle, user).await?;
    let channel = match target {
        Target::Unix(path) => to_socket(&handle, path).await?,
        Target::Port(at) => {
            let port = u32::from(at.port);
            let opened = handle.channel_open_direct_tcpip(&at.host, port, "127.0.0.1", 0);
            opened.await.map_err(|error| unreachable(&error))?
        }
    };
    Ok(Box::new(Through {
        stream: channel.into_stream(),
        _handle: handle,
    }))
}

fn refused(why: &str) -> RpcError {
    RpcError::Refused(why.to_owned())
}

fn unreachable(why: &impl std::fmt::Display) -> RpcError {
    RpcError::Unreachable(format!("SSH: {why}"))
}

/// Looks at the host's key before anything is said.
struct Doorkeeper {
    known_hosts: String,
    address: Address,
    verdict: Arc<Mutex<Option<Verdict>>>,
}

impl client::Handler for Doorkeeper {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let verdict = match key {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                let at = &self.address;
                known_hosts::check(&self.known_hosts, &at.host, at.port, key)
            }
            PublicKeyOrCertificate::Certificate(_) => {
                Verdict::Unreadable("certificates of hosts are not checked here".to_owned())
            }
        };
        let known = verdict == Verdict::Known;
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict);
        Ok(known)
    }
}

async fn open(config: &LibvirtConfig, address: &Address) -> Result<Handle<Doorkeeper>, RpcError> {
    let known_hosts = config.secret(KNOWN_HOSTS).and_then(Secret::text);
    let verdict = Arc::default();
    let doorkeeper = Doorkeeper {
        known_hosts: known_hosts.unwrap_or_default().to_owned(),
        address: address.clone(),
        verdict: Arc::clone(&verdict),
    };
    let settings = client::Config {
        keepalive_interval: Some(ALIVE_EVERY),
        nodelay: true,
        ..client::Config::default()
    };
    let stream = super::tcp(address).await?;
    let opened = client::connect_stream(Arc::new(settings), stream, doorkeeper).await;
    opened.map_err(|error| {
        let verdict = verdict.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = verdict.as_ref().and_then(Verdict::trouble);
        trouble.map_or_else(|| unreachable(&error), RpcError::Refused)
    })
}

async fn log_in(
    config: &LibvirtConfig,
    handle: &mut Handle<Doorkeeper>,
    user: &str,
) -> Result<(), RpcError> {
    let stored = config.secret(USERNAME).and_then(Secret::text);
    let user = if user.is_empty() {
        stored.ok_or_else(|| refused("the endpoint and the credentials name no user"))?
    } else {
        user
    };
    if let Some(key) = config.secret(KEY)
        && by_key(config, handle, user, key).await?.success()
    {
        return Ok(());
    }
    if let Some(password) = config.secret(PASSWORD).and_then(Secret::text) {
        let tried = handle.authenticate_password(user, password).await;
        if tried.map_err(|error| unreachable(&error))?.success() {
            return Ok(());
        }
    }
    let text = format!(
        "the host does not let {user} in with the credentials; they need ssh-privatekey or password"
    );
    Err(RpcError::Refused(text))
}

async fn by_key(
    config: &LibvirtConfig,
    handle: &mut Handle<Doorkeeper>,
    user: &str,
    key: &Secret,
) -> Result<AuthResult, RpcError> {
    let passphrase = config.secret(PASSPHRASE).and_then(Secret::text);
    let text = std::str::from_utf8(key.bytes()).unwrap_or_default();
    if let Some(key) = RsaKey::from_pem(text) {
        return by_rsa(handle, user, key).await;
    }
    let decoded = decode_secret_key(text, passphrase);
    // The reason may quote the key.
    let key = decoded.map_err(|_| refused(UNUSABLE))?;
    if key.algorithm().is_rsa() {
        let key = RsaKey::from_openssh(&key).ok_or_else(|| refused(UNUSABLE))?;
        return by_rsa(handle, user, key).await;
    }
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), None);
    let tried = handle.authenticate_publickey(user, key).await;
    tried.map_err(|error| unreachable(&error))
}

/// With the hash that the host likes best. One that does not say is new enough for the usual one.
async fn by_rsa(
    handle: &mut Handle<Doorkeeper>,
    user: &str,
    mut key: RsaKey,
) -> Result<AuthResult, RpcError> {
    let best = handle.best_supported_rsa_hash().await;
    let best = best.map_err(|error| unreachable(&error))?;
    let hash = best.flatten().unwrap_or(HashAlg::Sha256);
    let public = key.public.clone();
    let tried = handle.authenticate_publickey_with(user, public, Some(hash), &mut key);
    tried.await.map_err(|error| unreachable(&error))
}

/// By the channel that SSH has for it, or where that is forbidden by a program of the host, once for this connection.
async fn to_socket(handle: &Handle<Doorkeeper>, path: &str) -> Result<Channel<Msg>, RpcError> {
    let first = match handle.channel_open_direct_streamlocal(path).await {
        Ok(channel) => return Ok(channel),
        Err(error) => error,
    };
    tracing::debug!(error = %first, "SSH does not forward to sockets there; using nc");
    let opened = handle.channel_open_session().await;
    let mut channel = opened.map_err(|error| unreachable(&error))?;
    let started = channel.exec(true, helper(path)).await;
    started.map_err(|error| unreachable(&error))?;
    match channel.wait().await {
        Some(russh::ChannelMsg::Success) => Ok(channel),
        _ => Err(unreachable(&format!(
            "no way to the socket {path} ({first})"
        ))),
    }
}

fn helper(path: &str) -> String {
    let quoted = format!("'{}'", path.replace('\'', r"'\''"));
    format!(
        "if command -v nc >/dev/null 2>&1; then exec nc -U {quoted}; else exec virt-ssh-helper qemu:///system; fi"
    )
}

/// The channel, and the connection that it lives in.
struct Through {
    stream: ChannelStream<Msg>,
    _handle: Handle<Doorkeeper>,
}

impl AsyncRead for Through {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Through {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_break_out_of_the_command() {
        assert!(helper("/a'; rm -rf /; '").contains(r"nc -U '/a'\''; rm -rf /; '\'''"));
    }
}
