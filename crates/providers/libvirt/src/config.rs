//! `qemu+ssh://user@host/system?pool=vms&socket=/run/libvirt/libvirt-sock`, and what is needed to be let in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use polyvirt_disks::fetch::Reach;

/// Options of the endpoint.
const KEYS: &[&str] = &[
    "accel",
    "allowPlaintext",
    "imageHosts",
    "network",
    "pkipath",
    "pool",
    "scratch",
    "socket",
];
/// Where libvirt listens if nothing else is said.
const SYSTEM_SOCKET: &str = "/var/run/libvirt/libvirt-sock";
const TLS_PORT: u16 = 16514;
const TCP_PORT: u16 = 16509;
const SSH_PORT: u16 = 22;
/// No file of credentials is larger.
const MOST_SECRET_BYTES: u64 = 1 << 20;

/// Bytes that nobody may see. The debug form tells their number only.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text without the line end that editors leave; `None` if it is none.
    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0)
            .ok()
            .map(|text| text.trim_end_matches(['\r', '\n']))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// A machine to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its name or address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// How libvirt is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A socket of this machine.
    Unix {
        /// Where it is.
        socket: PathBuf,
    },
    /// TLS, with a certificate on both sides.
    Tls(Address),
    /// Plain text.
    Tcp(Address),
    /// A channel of SSH to a socket of that machine.
    Ssh {
        /// The machine.
        address: Address,
        /// Who to be there; empty to take it from the credentials.
        user: String,
        /// Where the socket is there.
        socket: String,
    },
}

/// What guests run with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accel {
    /// What libvirt says that the host can do.
    #[default]
    Ask,
    /// The processor's own virtualization.
    Kvm,
    /// Translation in software.
    Tcg,
}

/// Where libvirt is, how to be let in, and what VMs are made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibvirtConfig {
    /// How libvirt is reached.
    pub transport: Transport,
    /// What is opened there: `qemu:///system` or `qemu:///session`.
    pub driver: String,
    /// The storage pool for disks and images of VMs that do not name one.
    pub pool: String,
    /// The network for cards that do not name one; `None` for the host's own address, without a way in.
    pub network: Option<String>,
    /// What guests run with.
    pub accel: Accel,
    /// Servers from which images may be fetched.
    pub image_hosts: Reach,
    /// Where downloads lie on their way to libvirt.
    pub scratch: PathBuf,
    /// Keys of the Secret: `username`, `password`, `ssh-privatekey`, `known_hosts`, `ca.crt`, `tls.crt`, `tls.key`.
    credentials: BTreeMap<String, Secret>,
}

/// Why a configuration could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no URL of this provider.
    #[error(
        "Cannot read {0:?} as an endpoint of libvirt; write qemu:///system, qemu+unix:///system?socket=/a/path, qemu+tls://host/system or qemu+ssh://user@host/system"
    )]
    NotLibvirt(String),
    /// There is no such option.
    #[error("Unknown option {0:?} of the libvirt endpoint; known are {known}", known = KEYS.join(", "))]
    UnknownKey(String),
    /// The option's value makes no sense.
    #[error("Cannot read {value:?} as the option {key} of the libvirt endpoint; write {want}")]
    BadValue {
        /// The option.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        want: &'static str,
    },
    /// Plain text was not asked for by its name.
    #[error(
        "qemu+tcp sends everything in plain text, and whoever reaches the port controls the VMs; use qemu+tls or qemu+ssh, or add allowPlaintext=true to the endpoint"
    )]
    Plaintext,
    /// A password in a URL is seen by everybody who may read the object.
    #[error(
        "The endpoint holds a password; put it into the credentials Secret under the key password"
    )]
    PasswordInUrl,
    /// The folder of credentials cannot be read.
    #[error("The credentials in {folder} cannot be read: {why}")]
    Credentials {
        /// Where they were looked for.
        folder: String,
        /// What is wrong there.
        why: String,
    },
}

/// The parts of an endpoint.
struct Parts {
    scheme: String,
    user: String,
    host: String,
    port: Option<u16>,
    path: String,
    options: Vec<(String, String)>,
}

impl LibvirtConfig {
    /// Reads a `Provider.spec.endpoint`.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let parts = parts(url)?;
        let session = match parts.path.as_str() {
            "/system" => false,
            "/session" => true,
            _ => return Err(ConfigError::NotLibvirt(url.to_owned())),
        };
        let mut config = Self {
            transport: transport(url, &parts, session)?,
            driver: format!("qemu://{}", parts.path),
            pool: "default".to_owned(),
            network: None,
            accel: Accel::default(),
            image_hosts: Reach::default(),
            scratch: std::env::temp_dir(),
            credentials: BTreeMap::new(),
        };
        for (key, value) in &parts.options {
            config.set(key, value)?;
        }
        Ok(config)
    }

    /// The same with what is needed to be let in.
    #[must_use]
    pub fn with_credentials(mut self, credentials: BTreeMap<String, Secret>) -> Self {
        self.credentials.extend(credentials);
        self
    }

    /// The same with the files of a folder: those of a mounted Secret. A folder that is not there has none.
    pub fn with_credentials_in(self, folder: &Path) -> Result<Self, ConfigError> {
        let read = read_folder(folder).map_err(|error| ConfigError::Credentials {
            folder: folder.display().to_string(),
            why: error.to_string(),
        })?;
        Ok(self.with_credentials(read))
    }

    /// The first of these keys that is there.
    pub(crate) fn secret(&self, keys: &[&str]) -> Option<&Secret> {
        keys.iter().find_map(|key| self.credentials.get(*key))
    }

    /// Where libvirt is, without anything that may be secret.
    pub(crate) fn public(&self) -> String {
        match &self.transport {
            Transport::Unix { socket } => format!("unix:{}", socket.display()),
            Transport::Tls(at) => format!("tls:{}:{}", at.host, at.port),
            Transport::Tcp(at) => format!("tcp:{}:{}", at.host, at.port),
            Transport::Ssh { address, .. } => format!("ssh:{}:{}", address.host, address.port),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let bad = |want| ConfigError::BadValue {
            key: key.to_owned(),
            value: value.to_owned(),
            want,
        };
        match key {
            "pool" if value.is_empty() => return Err(bad("the name of a storage pool")),
            "pool" => value.clone_into(&mut self.pool),
            "network" if value.is_empty() => return Err(bad("the name of a network")),
            "network" => self.network = Some(value.to_owned()),
            "accel" => self.accel = accel(value).ok_or_else(|| bad("ask, kvm or tcg"))?,
            "imageHosts" => self.image_hosts = reach(value).ok_or_else(|| bad("others or any"))?,
            "scratch" if !value.starts_with('/') => return Err(bad("an absolute path")),
            "scratch" => self.scratch = PathBuf::from(value),
            "pkipath" => {
                let files = Path::new(value);
                *self = self.clone().with_credentials_in(files)?;
            }
            // These belong to the way there, and were read with it.
            "socket" | "allowPlaintext" => {}
            _ => return Err(ConfigError::UnknownKey(key.to_owned())),
        }
        Ok(())
    }
}

fn accel(word: &str) -> Option<Accel> {
    Some(match word {
        "ask" => Accel::Ask,
        "kvm" => Accel::Kvm,
        "tcg" => Accel::Tcg,
        _ => return None,
    })
}

fn reach(word: &str) -> Option<Reach> {
    Some(match word {
        "any" => Reach::Anywhere,
        "others" => Reach::Others,
        _ => return None,
    })
}

fn parts(url: &str) -> Result<Parts, ConfigError> {
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

fn transport(url: &str, parts: &Parts, session: bool) -> Result<Transport, ConfigError> {
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

fn read_folder(folder: &Path) -> std::io::Result<BTreeMap<String, Secret>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        other => other?,
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        // A mounted Secret has links to its files beside folders of its own.
        let meta = std::fs::metadata(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if meta.is_file() && meta.len() <= MOST_SECRET_BYTES && !name.starts_with('.') {
            found.insert(name.into_owned(), Secret::new(std::fs::read(&path)?));
        }
    }
    Ok(found)
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport_of(url: &str) -> Transport {
        LibvirtConfig::from_url(url).expect(url).transport
    }

    fn at(host: &str, port: u16) -> Address {
        Address {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn endpoints_are_read_as_libvirt_reads_them() {
        let socket = PathBuf::from(SYSTEM_SOCKET);
        assert_eq!(transport_of("qemu:///system"), Transport::Unix { socket });
        let socket = PathBuf::from("/a b");
        assert_eq!(
            transport_of("qemu+unix:///system?socket=/a%20b"),
            Transport::Unix { socket }
        );
        assert_eq!(
            transport_of("qemu+tls://hv1/system"),
            Transport::Tls(at("hv1", 16514))
        );
        assert_eq!(
            transport_of("qemu+tls://[::1]:99/system"),
            Transport::Tls(at("::1", 99))
        );
        assert_eq!(
            transport_of("qemu+tcp://h/system?allowPlaintext=true"),
            Transport::Tcp(at("h", 16509))
        );
        let ssh = Transport::Ssh {
            address: at("h", 2222),
            user: "root".to_owned(),
            socket: "/s".to_owned(),
        };
        assert_eq!(transport_of("qemu+ssh://root@h:2222/system?socket=/s"), ssh);
    }

    #[test]
    fn options_are_read_and_secrets_are_not_shown() {
        let url = "qemu:///session?pool=vms&network=lan&accel=tcg&imageHosts=any";
        let config = LibvirtConfig::from_url(url).expect("readable");
        assert_eq!((config.pool.as_str(), config.accel), ("vms", Accel::Tcg));
        assert_eq!(config.network.as_deref(), Some("lan"));
        assert_eq!(config.driver, "qemu:///session");
        let secrets = BTreeMap::from([("password".to_owned(), Secret::new("hunter2\n"))]);
        let config = config.with_credentials(secrets);
        let password = config.secret(&["token", "password"]).expect("there");
        assert_eq!(password.text(), Some("hunter2"));
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (url, word) in [
            ("http://x", "http://x"),
            ("qemu:///elsewhere", "elsewhere"),
            ("qemu+tcp://h/system", "allowPlaintext"),
            ("qemu+tls:///system", "qemu+tls"),
            ("qemu+ssh://root:pw@h/system", "password"),
            ("qemu+tls://h:x/system", "h:x"),
            ("qemu:///system?pools=x", "pool"),
            ("qemu:///system?accel=xen", "kvm"),
            ("qemu:///system?scratch=x", "absolute"),
            ("qemu+xen:///system", "xen"),
        ] {
            let error = LibvirtConfig::from_url(url).expect_err(url).to_string();
            assert!(error.contains(word), "{url}: {error}");
            assert!(!error.contains("root:pw"), "{error}");
        }
    }
}
