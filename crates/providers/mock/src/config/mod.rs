//! How a mock behaves, as a value and as the URL in `Provider.spec.endpoint`.

mod env;
mod url;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Clock;
use crate::faults::{FaultError, Rule};

/// Where VMs are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// Gone with the mock.
    #[default]
    Memory,
    /// One file a VM in this folder; found again when it is opened again.
    Directory(PathBuf),
}

/// What the mock offers beyond `provider.v1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// All extensions.
    #[default]
    Full,
    /// None: identities are ignored, nothing is streamed. As a foreign `provider.v1` server is.
    Basic,
}

/// How work is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskMode {
    /// The answer comes when the work is done.
    #[default]
    Immediate,
    /// The answer is a task.
    Async,
}

/// Whether the size of a running VM changes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resize {
    /// It waits for the next start, unless the class allows hot-add.
    #[default]
    AtRestart,
    /// Growth acts at once.
    Online,
}

/// How long work takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// To create a VM.
    pub create: Duration,
    /// To delete it.
    pub delete: Duration,
    /// To start, stop or restart it.
    pub power: Duration,
    /// To change it.
    pub reconfigure: Duration,
    /// To take, delete or revert to a snapshot.
    pub snapshot: Duration,
    /// To clone it.
    pub clone: Duration,
    /// To prepare an image.
    pub image: Duration,
    /// To export or import a disk.
    pub disk: Duration,
    /// From the start of a VM until its guest has an address.
    pub boot: Duration,
    /// From the request to shut down until the guest has done so.
    pub shutdown: Duration,
}

/// The hosts that the mock pretends to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPool {
    /// How many; they are named `host-1` and so on.
    pub count: u16,
    /// CPUs of each.
    pub cpus: u32,
    /// Memory of each, in MiB.
    pub memory_mib: u64,
    /// Over how many zones they are spread in turn; they are named `zone-1` and so on.
    pub zones: u16,
    /// GPUs of each, named `nvidia.com/tesla-t4`.
    pub gpus: u32,
    /// Virtual functions of network cards of each, named `sriov/net1`.
    pub virtual_functions: u32,
}

impl Default for HostPool {
    fn default() -> Self {
        Self {
            count: 4,
            cpus: 65_536,
            memory_mib: 256 * 1024 * 1024,
            zones: 2,
            gpus: 0,
            virtual_functions: 0,
        }
    }
}

/// How a mock behaves. The default is quick, honest and has plenty of room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MockConfig {
    /// Whose time it is.
    pub clock: Clock,
    /// Where VMs are kept.
    pub storage: Storage,
    /// What it offers.
    pub offer: Offer,
    /// How work is answered.
    pub tasks: TaskMode,
    /// Whether the size of a running VM changes at once.
    pub resize: Resize,
    /// How long work takes.
    pub times: Times,
    /// The hosts.
    pub hosts: HostPool,
    /// Seeds all chance.
    pub seed: u64,
    /// What goes wrong from the beginning.
    pub faults: Vec<Rule>,
    /// Templates, paths and URLs of images that are not there.
    pub missing_images: BTreeSet<String>,
    /// Templates, paths and URLs of images whose checksum does not match.
    pub corrupt_images: BTreeSet<String>,
    /// Where `pvc://claim/…` is mounted: the claim's folder is below this one.
    pub staging: PathBuf,
    /// How many messages a reader of the watch stream may be behind.
    pub watch_buffer: usize,
}

impl Default for MockConfig {
    fn default() -> Self {
        Self {
            clock: Clock::default(),
            storage: Storage::default(),
            offer: Offer::default(),
            tasks: TaskMode::default(),
            resize: Resize::default(),
            times: Times::default(),
            hosts: HostPool::default(),
            seed: 0,
            faults: Vec::new(),
            missing_images: BTreeSet::new(),
            corrupt_images: BTreeSet::new(),
            staging: PathBuf::from("/mnt/migration-storage"),
            watch_buffer: 32_768,
        }
    }
}

/// Why a configuration could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no URL of a mock.
    #[error(
        "Cannot read {0:?} as a mock's endpoint; write mock://memory or mock:///a/folder, with options after a ?"
    )]
    NotAMock(String),
    /// There is no such option.
    #[error("Unknown option {0:?} of the mock; known are {known}", known = url::known_keys())]
    UnknownKey(String),
    /// The option's value makes no sense.
    #[error("Cannot read {value:?} as the mock's option {key}; write {want}")]
    BadValue {
        /// The option.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        want: &'static str,
    },
    /// The option is a fault that cannot be read.
    #[error(transparent)]
    Fault(#[from] FaultError),
}
