//! An endpoint and its parts, as libvirt itself reads them.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::{Address, ConfigError, Transport};

/// Where libvirt listens if nothing else is said.
pub(super) const SYSTEM_SOCKET: &str = "/var/run/libvirt/libvirt-sock";
const TLS_PORT: u16 = 16514;
const TCP_PORT: u16 = 16509;
const SSH_PORT: u16 = 22;

/// The parts of an endpoint.
pub(super) struct Parts {
    scheme: String,
    user: String,
    host: String,
    port: Option<u16>,
    pub(super) path: String,
    pub(super) options: Vec<(String, String)>,
}

/// Takes an endpoint apart.
pub(super) fn parts(url: &str) -> Result<Parts, ConfigError> {
    let wrong = || ConfigError::NotLibvirt(url.to_owned());
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    if user.contains(':') {
        return Err(ConfigError::PasswordInUrl);
    }
    let (host, port) = host_and_port(place).ok_or_else(wrong)?;
    let options = query.split('&').filter(|pair| !pair.is_empty());
    let options = options.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    Ok(Parts {
        scheme: scheme.to_owned(),
        user: decoded(user),
        host,
        port,
        path: path.trim_end_matches('/').to_owned(),
        options: options
            .map(|(key, value)| (decoded(key), decoded(value)))
            .collect(),
    })
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`.
fn host_and_port(place: &str) -> Option<(String, Option<u16>)> {
    let (host, rest) = match place.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => place.find(':').map_or((place, ""), |at| place.split_at(at)),
    };
    let port = match rest.strip_prefix(':') {
        Some(digits) => Some(digits.parse().ok()?),
        None if rest.is_empty() => None,
        None => return None,
    };
    Some((host.to_owned(), port))
}

/// The way that its scheme names.
pub(super) fn transport(url: &str, parts: &Parts, session: bool) -> Result<Transport, ConfigError> {
    let wrong = || ConfigError::NotLibvirt(url.to_owned());
    let option = |key: &str| {
        let found = parts.options.iter().find(|(k, _)| k == key);
        found.map(|(_, value)| value.as_str())
    };
    let address = |port| {
        let host = parts.host.clone();
        let port = parts.port.unwrap_or(port);
        (!host.is_empty())
            .then_some(Address { host, port })
            .ok_or_else(wrong)
    };
    match parts.scheme.as_str() {
        "qemu" | "qemu+unix" if parts.host.is_empty() => Ok(Transport::Unix {
            socket: option("socket").map_or_else(|| default_socket(session), PathBuf::from),
        }),
        // As libvirt itself reads it: a host without a way to it is reached by TLS.
        "qemu+tls" | "qemu" => address(TLS_PORT).map(Transport::Tls),
        "qemu+tcp" if option("allowPlaintext") != Some("true") => Err(ConfigError::Plaintext),
        "qemu+tcp" => address(TCP_PORT).map(Transport::Tcp),
        "qemu+ssh" => Ok(Transport::Ssh {
            address: address(SSH_PORT)?,
            user: parts.user.clone(),
            socket: option("socket").unwrap_or(SYSTEM_SOCKET).to_owned(),
        }),
        _ => Err(wrong()),
    }
}

fn default_socket(session: bool) -> PathBuf {
    if !session {
        return PathBuf::from(SYSTEM_SOCKET);
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let home = || {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        home.unwrap_or_default().join(".cache")
    };
    runtime.unwrap_or_else(home).join("libvirt/libvirt-sock")
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
