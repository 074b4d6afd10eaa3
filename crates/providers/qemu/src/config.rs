//! `qemu:///var/lib/polyvirt?maxStarts=2&user=polyvirt-qemu`.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use polyvirt_disks::fetch::Reach;
use polyvirt_provider_kit::devices::Devices;
use polyvirt_provider_kit::labels::{self, Labels};

/// Options of the endpoint.
const KEYS: &[&str] = &[
    "accel",
    "devices",
    "emulator",
    "firmware",
    "host",
    "imageDir",
    "imageHosts",
    "img",
    "labels",
    "maxStarts",
    "moveAddress",
    "moveListen",
    "movePorts",
    "moveStall",
    "user",
    "zone",
];
/// Ports on which VMs from other hosts are waited for.
const MOVE_PORTS: (u16, u16) = (49152, 49215);
/// A move that gets nowhere for so long is given up.
const MOVE_STALL: Duration = Duration::from_secs(30);

/// How guests are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccelChoice {
    /// What a small guest really ran with, tried once for each QEMU and kernel.
    #[default]
    Try,
    /// The processor's own virtualization.
    Kvm,
    /// Translation in software.
    Tcg,
}

/// How the provider works and where it keeps its VMs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuConfig {
    /// VMs, images and locks are below this folder.
    pub state_dir: PathBuf,
    /// How many VMs may be starting at the same time, and for how many disks are made; as many as the machine has processors,
    /// if nothing is said.
    pub max_starts: usize,
    /// Who QEMU runs as, if the provider is root; `None` for `polyvirt-qemu` if there is such a user, else `nobody`.
    pub user: Option<String>,
    /// The emulator; looked up in `PATH` if it is a bare name.
    pub emulator: PathBuf,
    /// `qemu-img`; looked up in `PATH` if it is a bare name.
    pub img: PathBuf,
    /// Where the UEFI firmware is.
    pub firmware_dirs: Vec<PathBuf>,
    /// Folders from which images may be taken by path; empty for every file that QEMU's user can read.
    pub image_dirs: Vec<PathBuf>,
    /// Servers from which images may be fetched.
    pub image_hosts: Reach,
    /// How guests are run.
    pub accel: AccelChoice,
    /// Devices of the host that VMs may have.
    pub devices: Devices,
    /// The name of this machine among others; `None` for the one that it has.
    pub host: Option<String>,
    /// What its operator says of it, for placement.
    pub labels: Labels,
    /// The zone that it is in; empty if nobody says.
    pub zone: String,
    /// Where VMs from other hosts come in.
    pub moves: MoveConfig,
}

/// How VMs come from other hosts, and when one that goes there is called back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveConfig {
    /// Where other hosts reach this one; `None` for the address by which it is known to whoever moves VMs.
    pub address: Option<String>,
    /// The address to listen on; empty for all that the machine has.
    pub listen: String,
    /// The first and the last port.
    pub ports: (u16, u16),
    /// A move that gets nowhere for so long is given up.
    pub stall: Duration,
}

impl Default for MoveConfig {
    fn default() -> Self {
        Self {
            address: None,
            listen: String::new(),
            ports: MOVE_PORTS,
            stall: MOVE_STALL,
        }
    }
}

/// Why a configuration could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no URL of this provider.
    #[error(
        "Cannot read {0:?} as an endpoint of QEMU; write qemu:///a/folder, with options after a ?"
    )]
    NotQemu(String),
    /// There is no such option.
    #[error("Unknown option {0:?} of the QEMU endpoint; known are {known}", known = KEYS.join(", "))]
    UnknownKey(String),
    /// The option's value makes no sense.
    #[error("Cannot read {value:?} as the option {key} of the QEMU endpoint; write {want}")]
    BadValue {
        /// The option.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        want: &'static str,
    },
}

impl QemuConfig {
    /// The defaults for a folder.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            max_starts: processors(),
            user: None,
            emulator: PathBuf::from("qemu-system-x86_64"),
            img: PathBuf::from("qemu-img"),
            firmware_dirs: vec![
                PathBuf::from("/usr/share/OVMF"),
                PathBuf::from("/usr/share/edk2/ovmf"),
                PathBuf::from("/usr/share/edk2/x64"),
            ],
            image_dirs: Vec::new(),
            image_hosts: Reach::default(),
            accel: AccelChoice::default(),
            devices: Devices::default(),
            host: None,
            labels: Labels::default(),
            zone: String::new(),
            moves: MoveConfig::default(),
        }
    }

    /// Reads a `Provider.spec.endpoint`: `qemu:///a/folder`, with options after a `?`.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let not_qemu = || ConfigError::NotQemu(url.to_owned());
        let rest = url.strip_prefix("qemu://").ok_or_else(not_qemu)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = decoded(path);
        let path = path.trim_end_matches('/');
        if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
            return Err(not_qemu());
        }
        let mut config = Self::new(path);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            config.set(&decoded(key), &decoded(value))?;
        }
        Ok(config)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let bad = |want| ConfigError::BadValue {
            key: key.to_owned(),
            value: value.to_owned(),
            want,
        };
        let absolute = || {
            let path = PathBuf::from(value);
            let fits = path.is_absolute();
            fits.then_some(path).ok_or_else(|| bad("an absolute path"))
        };
        match key {
            "maxStarts" => {
                let number = value.parse().ok().filter(|n| (1..=1024).contains(n));
                self.max_starts = number.ok_or_else(|| bad("a number from 1 to 1024"))?;
            }
            "user" if value.is_empty() => return Err(bad("the name of a user")),
            "user" => self.user = Some(value.to_owned()),
            "emulator" => self.emulator = absolute()?,
            "img" => self.img = absolute()?,
            "firmware" => self.firmware_dirs = vec![absolute()?],
            "imageDir" => self.image_dirs.push(absolute()?),
            "imageHosts" => {
                self.image_hosts = match value {
                    "any" => Reach::Anywhere,
                    "others" => Reach::Others,
                    _ => return Err(bad("others or any")),
                };
            }
            "devices" => {
                let want = "name@0000:41:00.0 or name@UUID for each device, with commas between them and none twice";
                self.devices = Devices::parse(value).ok_or_else(|| bad(want))?;
            }
            "host" | "moveAddress" | "moveListen" if value.is_empty() => {
                return Err(bad("a name or an address"));
            }
            "host" => self.host = Some(value.to_owned()),
            "labels" => self.labels = Labels::parse(value).ok_or_else(|| bad(labels::WANT))?,
            "zone" => self.zone = labels::zone(value).ok_or_else(|| bad(labels::WANT_ZONE))?,
            "moveAddress" => self.moves.address = Some(value.to_owned()),
            "moveListen" => value.clone_into(&mut self.moves.listen),
            "movePorts" => {
                let want = "two ports with a - between them, as in 49152-49215";
                self.moves.ports = ports(value).ok_or_else(|| bad(want))?;
            }
            "moveStall" => {
                let seconds = value.parse().ok().filter(|n| (1..=3600).contains(n));
                let seconds = seconds.ok_or_else(|| bad("seconds, from 1 to 3600"))?;
                self.moves.stall = Duration::from_secs(seconds);
            }
            "accel" => {
                self.accel = accel(value).ok_or_else(|| bad("try, kvm or tcg"))?;
            }
            _ => return Err(ConfigError::UnknownKey(key.to_owned())),
        }
        Ok(())
    }
}

/// Processors of this machine; two if nobody knows.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}

/// At least two: one for memory, one for disks.
fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first > 0 && first < last).then_some((first, last))
}

fn accel(word: &str) -> Option<AccelChoice> {
    match word {
        "try" => Some(AccelChoice::Try),
        "kvm" => Some(AccelChoice::Kvm),
        "tcg" => Some(AccelChoice::Tcg),
        _ => None,
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let url = "qemu:///var/lib/poly%20virt/?maxStarts=3&user=vms&accel=tcg&imageDir=/srv/a&imageDir=/srv/b";
        let config = QemuConfig::from_url(url).expect("readable");
        assert_eq!(config.state_dir, PathBuf::from("/var/lib/poly virt"));
        assert_eq!(config.max_starts, 3);
        assert_eq!(config.user.as_deref(), Some("vms"));
        assert_eq!(config.accel, AccelChoice::Tcg);
        assert_eq!(config.image_dirs.len(), 2);
    }

    #[test]
    fn where_moves_come_in_is_read() {
        let url = "qemu:///v?host=hv-a&moveAddress=10.0.0.1&moveListen=fd00::1&movePorts=5000-5001&moveStall=5";
        let config = QemuConfig::from_url(url).expect("readable");
        assert_eq!(config.host.as_deref(), Some("hv-a"));
        let expected = MoveConfig {
            address: Some("10.0.0.1".to_owned()),
            listen: "fd00::1".to_owned(),
            ports: (5000, 5001),
            stall: Duration::from_secs(5),
        };
        assert_eq!(config.moves, expected);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (url, word) in [
            ("mock://memory", "mock://memory"),
            ("qemu://", "qemu:///a/folder"),
            ("qemu://host/x", "host"),
            ("qemu:///a/../etc", ".."),
            ("qemu:///a?maxStart=2", "maxStarts"),
            ("qemu:///a?maxStarts=0", "from 1"),
            ("qemu:///a?emulator=qemu", "absolute"),
            ("qemu:///a?accel=xen", "kvm"),
            ("qemu:///a?user=", "user"),
            ("qemu:///a?devices=gpu", "name@0000:41:00.0"),
            ("qemu:///a?imageHosts=none", "others or any"),
            ("qemu:///a?movePorts=5-5", "49152-49215"),
            ("qemu:///a?moveStall=0", "seconds"),
            ("qemu:///a?host=", "a name"),
            ("qemu:///a?labels=disktype", "key=value"),
            ("qemu:///a?zone=", "a name"),
        ] {
            let error = QemuConfig::from_url(url).expect_err(url).to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
    }
}
