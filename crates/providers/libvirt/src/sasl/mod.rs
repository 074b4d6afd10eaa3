//! SASL: a name and a password for libvirt itself, where it asks for them.
//!
//! ```text
//!   which ways? ─► the best that both know ─► first word ─► (what the server says ─► what we say)* ─► over, and the server has proved itself
//! ```
//!
//! SCRAM never sends the password, and knows a server that does not know it either. PLAIN sends it, so it is for ways that nobody
//! listens to.

mod scram;

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::config::{LibvirtConfig, Secret, Transport};
use crate::rpc::{Connection, Message, RpcError};
use scram::{Hash, Scram};

const USERNAME: &[&str] = &["username"];
const PASSWORD: &[&str] = &["password"];
/// Longer than any exchange.
const MOST_STEPS: usize = 8;

/// What is told to the server first.
enum Client {
    Scram(Scram),
    /// All is said with the first word.
    Plain(String),
}

/// Who we are.
struct Login<'a> {
    user: &'a str,
    password: &'a str,
}

fn refused(why: impl Into<String>) -> RpcError {
    RpcError::Refused(why.into())
}

/// Whether nobody listens on the way.
const fn is_private(transport: &Transport) -> bool {
    !matches!(transport, Transport::Tcp(_))
}

/// Says who we are, and sees who the server is.
pub(crate) async fn log_in(session: &Connection, config: &LibvirtConfig) -> Result<(), RpcError> {
    let text = |keys| config.secret(keys).and_then(Secret::text);
    let (Some(user), Some(password)) = (text(USERNAME), text(PASSWORD)) else {
        return Err(refused(
            "it asks for a name and a password (SASL); put username and password into the credentials",
        ));
    };
    let offered = session.sasl_ways().await.map_err(unwilling)?;
    let login = Login { user, password };
    let (way, client) = choose(&offered, &login, is_private(&config.transport))?;
    exchange(session, way, client).await
}

/// The best way that both know.
fn choose(
    offered: &str,
    login: &Login<'_>,
    is_private: bool,
) -> Result<(&'static str, Client), RpcError> {
    let has = |way: &str| {
        offered
            .split([',', ' '])
            .any(|other| other.eq_ignore_ascii_case(way))
    };
    for hash in [Hash::Sha512, Hash::Sha256] {
        if has(hash.mechanism()) {
            let client = Scram::begin(hash, login.user, login.password, &nonce()?);
            return Ok((hash.mechanism(), Client::Scram(client)));
        }
    }
    if has("PLAIN") && is_private {
        let word = format!("\0{}\0{}", login.user, login.password);
        return Ok(("PLAIN", Client::Plain(word)));
    }
    Err(refused(format!(
        "it takes names and passwords by {offered} only; let it offer SCRAM-SHA-256 (mech_list in /etc/sasl2/libvirt.conf), and reach it by qemu+tls"
    )))
}

fn nonce() -> Result<String, RpcError> {
    use base64::Engine as _;
    let mut bytes = [0; 18];
    let made = SystemRandom::new().fill(&mut bytes);
    made.map_err(|_| refused("this machine has no random numbers"))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

async fn exchange(session: &Connection, way: &str, mut client: Client) -> Result<(), RpcError> {
    let first = client.first();
    let mut answer = session.sasl_start(way, &first).await.map_err(unwelcome)?;
    for _ in 0..MOST_STEPS {
        let says = client.hears(&answer.says)?;
        if answer.is_over {
            return client.must_know_the_server();
        }
        answer = session.sasl_step(&says).await.map_err(unwelcome)?;
    }
    Err(refused("its questions have no end"))
}

/// In clear libvirt takes only ways that encrypt by themselves, and may have none.
fn unwilling(error: RpcError) -> RpcError {
    match error {
        RpcError::Libvirt(told) => refused(format!(
            "it asks for a name and a password (SASL) and has no way to take them here; reach it by qemu+tls ({told})"
        )),
        other => other,
    }
}

/// libvirt does not say what is wrong with a name or a password.
fn unwelcome(error: RpcError) -> RpcError {
    match error {
        RpcError::Libvirt(told) => refused(format!(
            "it does not take username and password of the credentials ({told})"
        )),
        other => other,
    }
}

impl Client {
    fn first(&self) -> Message {
        match self {
            Self::Scram(scram) => Message(scram.first().into_bytes()),
            Self::Plain(word) => Message(word.clone().into_bytes()),
        }
    }

    /// What is said to that.
    fn hears(&mut self, says: &Message) -> Result<Message, RpcError> {
        match self {
            Self::Scram(scram) if !says.0.is_empty() => {
                let text = std::str::from_utf8(&says.0).unwrap_or_default();
                let answer = scram.hears(text).map_err(|why| refused(why.to_string()))?;
                Ok(Message(answer.into_bytes()))
            }
            _ => Ok(Message::default()),
        }
    }

    fn must_know_the_server(&self) -> Result<(), RpcError> {
        match self {
            Self::Scram(scram) if !scram.knows_the_server() => Err(refused(
                "it let us in without knowing the password: it is not who it says",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(offered: &str, is_private: bool) -> Option<&'static str> {
        let login = Login {
            user: "u",
            password: "p",
        };
        choose(offered, &login, is_private).ok().map(|(way, _)| way)
    }

    #[test]
    fn the_best_way_that_both_know_is_taken() {
        for (offered, is_private, expected) in [
            ("PLAIN,SCRAM-SHA-256,GSSAPI", true, Some("SCRAM-SHA-256")),
            ("scram-sha-256 scram-sha-512", false, Some("SCRAM-SHA-512")),
            ("PLAIN LOGIN", true, Some("PLAIN")),
            ("PLAIN", false, None),
            ("SCRAM-SHA-256-PLUS,DIGEST-MD5", true, None),
            ("", true, None),
        ] {
            assert_eq!(chosen(offered, is_private), expected, "{offered}");
        }
    }
}
