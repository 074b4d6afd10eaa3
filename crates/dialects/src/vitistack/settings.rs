//! What an administrator sets, once for all Machines.

use std::time::Duration;

pub use polyvirt_disks::fetch::Reach;

/// Where KubevirtConfigs are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigsNamespace {
    /// In one namespace.
    One(String),
    /// In every namespace.
    Every,
}

impl ConfigsNamespace {
    /// `*` is every namespace.
    pub fn parse(word: &str) -> Self {
        match word {
            "*" => Self::Every,
            "" => Self::One("default".to_owned()),
            name => Self::One(name.to_owned()),
        }
    }

    /// Whether configs of that namespace count.
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::One(name) => name == namespace,
            Self::Every => true,
        }
    }
}

/// Where the addresses of a Machine are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpSource {
    /// From the running VM.
    #[default]
    Vmi,
    /// From the status of its NetworkConfiguration, where those who hand out addresses write them.
    NetworkConfiguration,
}

/// What an administrator sets, once for all Machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where KubevirtConfigs are looked for.
    pub configs_namespace: ConfigsNamespace,
    /// The KubevirtConfig of Machines that name none.
    pub default_config: Option<String>,
    /// What stands before the name of a Machine in the name of its VM.
    pub vm_name_prefix: String,
    /// The value of the label vitistack.io/managed-by.
    pub managed_by: String,
    /// Model of the CPU of all VMs. Absent: KubeVirt's own, host-model.
    pub cpu_model: Option<String>,
    /// Access mode of claims of which neither the Machine nor the StorageProfile says it.
    pub access_mode: Option<String>,
    /// Volume mode of claims of which neither the Machine nor the StorageProfile says it.
    pub volume_mode: Option<String>,
    /// StorageClass of disks that name none. Absent: the cluster's default.
    pub storage_class: Option<String>,
    /// The second byte of hardware addresses that are made.
    pub mac_set: u8,
    /// Version in the CNI configurations that are made.
    pub cni_version: String,
    /// Where the addresses of a Machine are read.
    pub ip_source: IpSource,
    /// Which servers are asked how big an installation medium is.
    pub media: Reach,
    /// How often a Machine is looked at though nothing has happened.
    pub resync: Duration,
    /// Machines that are looked at at the same time.
    pub concurrency: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            configs_namespace: ConfigsNamespace::parse("default"),
            default_config: None,
            vm_name_prefix: "vm-".to_owned(),
            managed_by: "kubevirt-operator".to_owned(),
            cpu_model: None,
            access_mode: None,
            volume_mode: None,
            storage_class: None,
            mac_set: 0x12,
            cni_version: "1.0.0".to_owned(),
            ip_source: IpSource::default(),
            media: Reach::default(),
            resync: Duration::from_secs(30),
            concurrency: 5,
        }
    }
}
