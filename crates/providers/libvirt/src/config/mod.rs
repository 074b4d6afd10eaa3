//! `qemu+ssh://user@host/system?pool=vms&socket=/run/libvirt/libvirt-sock`, and what is needed to be let in.

mod secret;
mod url;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use polyvirt_contract::grpc::ServerCheck;
use polyvirt_disks::fetch::Reach;
use polyvirt_provider_kit::devices::Devices;
use polyvirt_provider_kit::labels::{self, Labels};

pub use secret::Secret;
use url::{parts, transport};

/// Options of the endpoint.
const KEYS: &[&str] = &[
    "accel",
    "allowPlaintext",
    "devices",
    "files",
    "host",
    "imageHosts",
    "instance",
    "labels",
    "lostHosts",
    "moveAddress",
    "moveStall",
    "network",
    "pkipath",
    "pool",
    "scratch",
    "socket",
    "zone",
];

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
    /// The storage pool for small files and images of VMs whose own pool keeps no files; `None` for that one.
    pub files: Option<String>,
    /// The network for cards that do not name one; `None` for the host's own address, without a way in.
    pub network: Option<String>,
    /// What guests run with.
    pub accel: Accel,
    /// Servers from which images may be fetched.
    pub image_hosts: Reach,
    /// The host's name for placement; `None` for the one that libvirt tells.
    pub host: Option<String>,
    /// What its operator says of the host, for placement.
    pub labels: Labels,
    /// The zone that the host is in; empty if nobody says.
    pub zone: String,
    /// Tells this provider from others that use the same libvirt, in this life and the next; empty if it has no name.
    pub instance: String,
    /// Devices of the host that VMs may have.
    pub devices: Devices,
    /// Where downloads lie on their way to libvirt.
    pub scratch: PathBuf,
    /// Where other hosts send guests to; `None` for the address by which libvirt is reached, or the host's own name.
    pub move_address: Option<String>,
    /// How long a guest on its way may not have moved before it is called back.
    pub move_stall: Duration,
    /// Hosts that will never come back, whatever was on its way to them.
    pub lost_hosts: Vec<String>,
    /// Whether the server's certificate is looked at. SSH always looks at host keys.
    pub server_check: ServerCheck,
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
    /// More hosts than one Provider can have.
    #[error("The endpoint names {0} hosts; one Provider can have 64, so make several")]
    TooMany(usize),
    /// Host keys are never skipped.
    #[error(
        "The key of an SSH host is always verified; take insecureSkipVerify away, and put the line of ssh-keyscan into known_hosts of the credentials"
    )]
    HostKeys,
    /// There is no certificate that could go without verification.
    #[error(
        "This way to libvirt shows no certificate, so there is nothing that could go unverified; take insecureSkipVerify away"
    )]
    NothingToVerify,
    /// The folder of credentials cannot be read.
    #[error("The credentials in {folder} cannot be read: {why}")]
    Credentials {
        /// Where they were looked for.
        folder: String,
        /// What is wrong there.
        why: String,
    },
}

/// Longer than a network takes to find another way.
const MOVE_STALL: Duration = Duration::from_mins(1);

/// Hosts of one Provider.
const MOST_HOSTS: usize = 64;

impl LibvirtConfig {
    /// Reads a `Provider.spec.endpoint` that may name several hosts, with commas between them.
    pub fn list_from_url(urls: &str) -> Result<Vec<Self>, ConfigError> {
        // A comma in an option belongs to that option.
        let mut rest = urls;
        let mut all = Vec::new();
        while let Some(at) = rest.find(",qemu") {
            all.push(Self::from_url(rest[..at].trim())?);
            rest = &rest[at + 1..];
        }
        all.push(Self::from_url(rest.trim())?);
        if all.len() > MOST_HOSTS {
            return Err(ConfigError::TooMany(all.len()));
        }
        Ok(all)
    }

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
            files: None,
            network: None,
            accel: Accel::default(),
            image_hosts: Reach::default(),
            host: None,
            labels: Labels::default(),
            zone: String::new(),
            instance: String::new(),
            devices: Devices::default(),
            scratch: std::env::temp_dir(),
            move_address: None,
            move_stall: MOVE_STALL,
            lost_hosts: Vec::new(),
            server_check: ServerCheck::Full,
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

    /// The same with a name for this provider, unless the endpoint gives one.
    #[must_use]
    pub fn with_instance(mut self, name: &str) -> Self {
        if self.instance.is_empty() {
            name.clone_into(&mut self.instance);
        }
        self
    }

    /// The same with what `spec.insecureSkipVerify` says. Only certificates of TLS can go unverified.
    pub fn with_server_check(mut self, check: ServerCheck) -> Result<Self, ConfigError> {
        match (check, &self.transport) {
            (ServerCheck::Skip, Transport::Ssh { .. }) => return Err(ConfigError::HostKeys),
            (ServerCheck::Skip, Transport::Unix { .. } | Transport::Tcp(_)) => {
                return Err(ConfigError::NothingToVerify);
            }
            _ => self.server_check = check,
        }
        Ok(self)
    }

    /// The same with the files of a folder: those of a mounted Secret. A folder that is not there has none.
    pub fn with_credentials_in(self, folder: &Path) -> Result<Self, ConfigError> {
        let read = secret::read_folder(folder).map_err(|error| ConfigError::Credentials {
            folder: folder.display().to_string(),
            why: error.to_string(),
        })?;
        Ok(self.with_credentials(read))
    }

    /// The first of these keys that is there.
    pub(crate) fn secret(&self, keys: &[&str]) -> Option<&Secret> {
        keys.iter().find_map(|key| self.credentials.get(*key))
    }

    /// The address to which other hosts send guests; `None` to leave it to libvirt, which knows its host by name.
    pub(crate) fn move_host(&self) -> Option<&str> {
        let by_way = match &self.transport {
            Transport::Unix { .. } => None,
            Transport::Tls(at) | Transport::Tcp(at) | Transport::Ssh { address: at, .. } => {
                Some(at.host.as_str())
            }
        };
        self.move_address.as_deref().or(by_way)
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
            "pool" | "files" if value.is_empty() => {
                return Err(bad("the name of a storage pool"));
            }
            "pool" => value.clone_into(&mut self.pool),
            "files" => self.files = Some(value.to_owned()),
            "instance" => value.clone_into(&mut self.instance),
            "network" if value.is_empty() => return Err(bad("the name of a network")),
            "host" if value.is_empty() => return Err(bad("a name for the host")),
            "host" => self.host = Some(value.to_owned()),
            "labels" => self.labels = Labels::parse(value).ok_or_else(|| bad(labels::WANT))?,
            "zone" => self.zone = labels::zone(value).ok_or_else(|| bad(labels::WANT_ZONE))?,
            "moveAddress" if value.is_empty() => {
                return Err(bad("an address of the host that the other hosts reach"));
            }
            "moveAddress" => self.move_address = Some(value.to_owned()),
            "lostHosts" => {
                self.lost_hosts = value
                    .split(',')
                    .map(|name| name.trim().to_owned())
                    .collect();
            }
            "moveStall" => {
                self.move_stall = seconds(value).ok_or_else(|| bad("seconds, from 5 to 3600"))?;
            }
            "network" => self.network = Some(value.to_owned()),
            "accel" => self.accel = accel(value).ok_or_else(|| bad("ask, kvm or tcg"))?,
            "devices" => {
                let want = "name@0000:41:00.0 or name@UUID for each device, with commas between them and none twice";
                self.devices = Devices::parse(value).ok_or_else(|| bad(want))?;
            }
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

fn seconds(text: &str) -> Option<Duration> {
    let number: u64 = text.parse().ok()?;
    (5..=3600)
        .contains(&number)
        .then(|| Duration::from_secs(number))
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

#[cfg(test)]
mod tests;
