//! Options of the manager about Machines.

use clap::{Args, ValueEnum};
use polyvirt_dialects::vitistack::Settings;
use polyvirt_dialects::vitistack::settings::{self, ConfigsNamespace};

use super::pods::Span;

/// Options of `polyvirt manager` about Machines (vitistack.io). The variables are those of its KubeVirt operator.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Machines (vitistack.io)")]
pub struct Vitistack {
    /// The namespace of KubevirtConfigs; * for every namespace
    #[arg(
        long,
        env = "KUBEVIRT_CONFIGS_NAMESPACE",
        default_value = "default",
        value_name = "NAMESPACE"
    )]
    pub kubevirt_configs_namespace: String,
    /// The KubevirtConfig of Machines that name none
    #[arg(long, env = "DEFAULT_KUBEVIRT_CONFIG", value_name = "NAME")]
    pub default_kubevirt_config: Option<String>,
    /// What stands before the name of a Machine in the name of its VM
    #[arg(
        long,
        env = "VM_NAME_PREFIX",
        default_value = "vm-",
        value_name = "PREFIX"
    )]
    pub vm_name_prefix: String,
    /// The value of the label vitistack.io/managed-by
    #[arg(
        long,
        env = "MANAGED_BY",
        default_value = "kubevirt-operator",
        value_name = "NAME"
    )]
    pub managed_by: String,
    /// Model of the CPU of VMs; without it KubeVirt's own, host-model
    #[arg(long, env = "CPU_MODEL", value_name = "MODEL")]
    pub cpu_model: Option<String>,
    /// Access mode of disks of which neither the Machine nor the StorageProfile says it
    #[arg(long, env = "PVC_ACCESS_MODE", value_name = "MODE")]
    pub pvc_access_mode: Option<String>,
    /// Volume mode of disks of which neither the Machine nor the StorageProfile says it
    #[arg(long, env = "PVC_VOLUME_MODE", value_name = "MODE")]
    pub pvc_volume_mode: Option<String>,
    /// StorageClass of disks that name none; without it the cluster's default
    #[arg(long, env = "STORAGE_CLASS_NAME", value_name = "NAME")]
    pub storage_class_name: Option<String>,
    /// The second byte of hardware addresses that are made, in hexadecimal
    #[arg(long, env = "MAC_SET", default_value = "12", value_name = "HEX", value_parser = mac_set)]
    pub mac_set: u8,
    /// Version in the CNI configurations that are made
    #[arg(
        long,
        env = "NETWORK_ATTACHMENT_DEFINITION_CNI_VERSION",
        default_value = "1.0.0",
        value_name = "VERSION"
    )]
    pub cni_version: String,
    /// Where the addresses of Machines are read: the running VM, or what was handed out to it
    #[arg(long, env = "IP_SOURCE", value_enum, default_value_t = IpSource::Vmi, ignore_case = true)]
    pub ip_source: IpSource,
    /// How long a Machine waits for something that tells nobody when it comes; all else is told at once
    #[arg(
        long,
        env = "RECONCILE_INTERVAL",
        default_value = "30s",
        value_name = "TIME"
    )]
    pub reconcile_interval: Span,
    /// Machines that are looked at at the same time
    #[arg(
        long,
        env = "MAX_CONCURRENT_RECONCILES",
        default_value_t = 5,
        value_name = "N"
    )]
    pub max_concurrent_reconciles: usize,
    /// The same as --leader-elect, which it overrules; without either true in a pod and false elsewhere
    #[arg(long, env = "LEADER_ELECTION", value_name = "TRUE|FALSE")]
    pub leader_election: Option<bool>,
    /// The namespace of this manager, where no other option says it
    #[arg(long, env = "NAMESPACE", value_name = "NAMESPACE")]
    pub operator_namespace: Option<String>,
}

/// Where the addresses of Machines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IpSource {
    /// The running VM
    Vmi,
    /// The status of its NetworkConfiguration
    #[value(name = "networkconfiguration")]
    NetworkConfiguration,
}

impl From<IpSource> for settings::IpSource {
    fn from(source: IpSource) -> Self {
        match source {
            IpSource::Vmi => Self::Vmi,
            IpSource::NetworkConfiguration => Self::NetworkConfiguration,
        }
    }
}

fn mac_set(text: &str) -> Result<u8, String> {
    u8::from_str_radix(text, 16)
        .map_err(|_| format!("{text:?} is no byte: write two digits, such as 12 or 0a"))
}

impl Vitistack {
    /// As the controller takes them. An empty variable says nothing.
    pub fn settings(&self) -> Settings {
        let given = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
        Settings {
            configs_namespace: ConfigsNamespace::parse(&self.kubevirt_configs_namespace),
            default_config: given(&self.default_kubevirt_config),
            vm_name_prefix: self.vm_name_prefix.clone(),
            managed_by: self.managed_by.clone(),
            cpu_model: given(&self.cpu_model),
            access_mode: given(&self.pvc_access_mode),
            volume_mode: given(&self.pvc_volume_mode),
            storage_class: given(&self.storage_class_name),
            mac_set: self.mac_set,
            cni_version: self.cni_version.clone(),
            ip_source: self.ip_source.into(),
            media: settings::Reach::default(),
            resync: self.reconcile_interval.0,
            concurrency: self.max_concurrent_reconciles,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        vitistack: Vitistack,
    }

    #[test]
    fn the_defaults_are_those_of_the_operator() {
        let alone = Alone::parse_from(["x"]);
        assert_eq!(alone.vitistack.settings(), Settings::default());
    }

    #[test]
    fn a_byte_is_a_byte() {
        assert_eq!(mac_set("0a"), Ok(10));
        assert!(mac_set("xyz").is_err() && mac_set("123").is_err());
    }
}
