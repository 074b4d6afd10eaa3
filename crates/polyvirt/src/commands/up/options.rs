//! What `up`, `down` and `status` can be told, and what they remember.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use polyvirt_testkit::local::FixedPorts;
use serde::{Deserialize, Serialize};

use super::image::Image;
use crate::cli::VmShortName;
use crate::commands::vm::seconds;

/// Options of `polyvirt up`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where everything is kept
    #[command(flatten)]
    pub folder: Folder,
    /// What runs the VMs
    #[arg(long, value_enum, default_value_t = Hypervisor::Qemu)]
    pub provider: Hypervisor,
    /// Disk image of the first VM, qcow2, raw or vmdk: a file, or an http:, https:, registry: or file: address
    #[arg(long, value_name = "PATH|URL")]
    image: Option<String>,
    /// Digest of that image; refuse any other bytes. SHA-256 if no algorithm is named
    #[arg(long, value_name = "[ALGORITHM:]DIGITS", requires = "image")]
    image_checksum: Option<String>,
    /// What else to try: more kinds of hypervisor
    #[arg(long, value_enum, value_name = "WHAT")]
    pub with: Vec<Extra>,
    /// Start the control plane and the manager, and declare no VM
    #[arg(long)]
    pub no_sample: bool,
    /// Which VirtualMachine kubectl means by vm and virtualmachines [default: infra, or that of the last time]
    #[arg(long, value_enum, value_name = "API")]
    pub vm_short_name: Option<VmShortName>,
    /// How long the first VM may take to boot
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub timeout: Duration,
    /// Where to listen
    #[command(flatten)]
    pub ports: PortOptions,
}

/// Where everything is kept.
#[derive(Clone, Debug, Args)]
pub struct Folder {
    /// Folder with all data, logs and the kubeconfig; without it /var/lib/polyvirt for root, else
    /// ~/.local/share/polyvirt
    #[arg(long, env = "POLYVIRT_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// What runs the VMs of `polyvirt up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hypervisor {
    /// QEMU on this machine: real VMs
    Qemu,
    /// None: VMs that only look real
    Mock,
}

/// What `polyvirt up` can start beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Extra {
    /// Two clusters in which KubeVirt is simulated, for the Machines of the Viti Stack
    Kubevirt,
    /// The libvirt of this machine; one is started if none runs
    Libvirt,
}

/// Ports on 127.0.0.1.
#[derive(Clone, Debug, Args)]
#[allow(
    clippy::struct_field_names,
    reason = "the names are those of the flags"
)]
pub struct PortOptions {
    /// Port of the API server [default: 21443, or that of the last time]
    #[arg(long, value_name = "PORT")]
    pub api_port: Option<u16>,
    /// Port of etcd [default: 21379, or that of the last time]
    #[arg(long, value_name = "PORT")]
    pub etcd_port: Option<u16>,
    /// Port of the manager's consoles [default: 21444, or that of the last time]
    #[arg(long, value_name = "PORT")]
    pub gateway_port: Option<u16>,
    /// Port of the manager's admission webhooks [default: 21445, or that of the last time]
    #[arg(long, value_name = "PORT")]
    pub webhook_port: Option<u16>,
    /// Port of the manager's metrics [default: 21080, or that of the last time]
    #[arg(long, value_name = "PORT")]
    pub metrics_port: Option<u16>,
    /// Port of the manager's health [default: 21081, or that of the last time]
    #[arg(long, value_name = "PORT")]
    pub health_port: Option<u16>,
}

/// Options of `polyvirt down`.
#[derive(Clone, Debug, Args)]
pub struct DownOptions {
    /// Where everything is kept
    #[command(flatten)]
    pub folder: Folder,
    /// Remove the folder too: all VMs, disks and objects are lost
    #[arg(long)]
    pub purge: bool,
    /// How long guests may take to shut down before their power is cut
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub grace: Duration,
}

/// Options of `polyvirt status`.
#[derive(Clone, Debug, Args)]
pub struct StatusOptions {
    /// Where everything is kept
    #[command(flatten)]
    pub folder: Folder,
    /// The format
    #[arg(long, short, value_enum, default_value_t = StatusFormat::Table)]
    pub output: StatusFormat,
}

/// How `polyvirt status` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    /// For people
    Table,
    /// For programs
    Json,
}

impl Options {
    /// The image that the user names, looked at.
    pub fn image(&self) -> anyhow::Result<Option<Image>> {
        let checksum = self.image_checksum.as_deref();
        let image = self.image.as_deref();
        image.map(|text| Image::parse(text, checksum)).transpose()
    }
}

impl Folder {
    /// The one that is meant where none can be named: that of the environment, else the usual one.
    pub fn usual() -> Self {
        Self {
            state_dir: env_path("POLYVIRT_STATE_DIR"),
        }
    }

    /// The folder that is meant.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(given) = &self.state_dir {
            return std::path::absolute(given).context("The state folder has no usable path");
        }
        if rustix::process::geteuid().is_root() {
            return Ok(PathBuf::from("/var/lib/polyvirt"));
        }
        let data = env_path("XDG_DATA_HOME")
            .or_else(|| env_path("HOME").map(|home| home.join(".local/share")));
        let data = data.context("HOME is not set: name a folder with --state-dir")?;
        Ok(data.join("polyvirt"))
    }
}

fn env_path(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(PathBuf::from(value))
}

/// What the next run has to know of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// The API server.
    pub api: u16,
    /// The store.
    pub etcd: u16,
    /// Consoles.
    pub gateway: u16,
    /// Admission webhooks.
    #[serde(default = "webhook")]
    pub webhook: u16,
    /// Metrics.
    pub metrics: u16,
    /// Health.
    pub health: u16,
    /// No port, but to be known as well: what kubectl means by vm.
    #[serde(default)]
    pub vm_short_name: VmShortName,
}

/// Earlier runs did not remember it.
const fn webhook() -> u16 {
    21_445
}

impl Default for Ports {
    // Below the ports that Linux takes for outgoing connections, and apart from what usually runs.
    fn default() -> Self {
        Self {
            api: 21_443,
            etcd: 21_379,
            gateway: 21_444,
            webhook: webhook(),
            metrics: 21_080,
            health: 21_081,
            vm_short_name: VmShortName::default(),
        }
    }
}

impl Ports {
    /// What was remembered in the folder, or the usual ones.
    pub fn remembered(folder: &Path) -> Self {
        let text = fs::read(folder.join("settings.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// With what the user asks for.
    pub fn with(self, options: &PortOptions) -> Self {
        Self {
            api: options.api_port.unwrap_or(self.api),
            etcd: options.etcd_port.unwrap_or(self.etcd),
            gateway: options.gateway_port.unwrap_or(self.gateway),
            webhook: options.webhook_port.unwrap_or(self.webhook),
            metrics: options.metrics_port.unwrap_or(self.metrics),
            health: options.health_port.unwrap_or(self.health),
            vm_short_name: self.vm_short_name,
        }
    }

    /// For the next run.
    pub fn remember(self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join("settings.json");
        let text = serde_json::to_vec(&self)?;
        fs::write(&path, text).with_context(|| format!("Cannot write {}", path.display()))
    }

    /// Those of the control plane.
    pub fn control_plane(self) -> FixedPorts {
        FixedPorts {
            etcd: self.etcd,
            apiserver: self.api,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_remembered_and_flags_win() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(Ports::remembered(dir.path()), Ports::default());
        let mut options = PortOptions {
            api_port: Some(1),
            etcd_port: None,
            gateway_port: None,
            webhook_port: None,
            metrics_port: None,
            health_port: None,
        };
        let first = Ports::default().with(&options);
        first.remember(dir.path()).expect("written");
        options.api_port = None;
        let second = Ports::remembered(dir.path()).with(&options);
        assert_eq!((second.api, second.etcd), (1, 21_379));
    }
}
