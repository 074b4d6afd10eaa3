//! What `polyvirt provider` can be told.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use polyvirt_api::infra::ProviderType;
use polyvirt_contract::credentials::CREDENTIALS_DIR;

/// Options of `polyvirt provider`.
#[derive(Clone, Debug, Args)]
pub struct ProviderCommand {
    /// The kind of hypervisor
    #[arg(value_enum)]
    pub kind: ProviderKind,
    /// The hypervisor, as in Provider.spec.endpoint
    #[arg(long, env = "PROVIDER_ENDPOINT", value_name = "URL")]
    pub endpoint: Option<String>,
    /// Serve gRPC on this port
    #[arg(long, default_value_t = 9443)]
    pub port: u16,
    /// Serve /healthz and /readyz on this port; 0 to switch it off
    #[arg(long, default_value_t = 8080)]
    pub health_port: u16,
    /// Listen on this address
    #[arg(long, default_value = "0.0.0.0", value_name = "IP")]
    pub bind: std::net::IpAddr,
    /// Folder with tls.crt, tls.key and ca.crt
    #[arg(long, default_value = "/etc/virtrigaud/tls", value_name = "DIR")]
    pub tls_dir: PathBuf,
    /// Folder with the keys of the credentials for the hypervisor, one file each
    #[arg(long, default_value = CREDENTIALS_DIR, value_name = "DIR")]
    pub credentials_dir: PathBuf,
    /// Let in only clients whose certificate carries one of these names (comma separated): DNS, URI or common name
    #[arg(
        long,
        env = "VIRTRIGAUD_PROVIDER_ALLOWED_SANS",
        default_value = "",
        hide_default_value = true,
        value_name = "NAMES"
    )]
    pub allowed_sans: String,
    /// Serve without TLS if the folder holds no certificates. For tests only
    #[arg(long, env = "VIRTRIGAUD_PROVIDER_INSECURE")]
    pub insecure: bool,
    /// Do not look at the hypervisor's certificate, as Provider.spec.insecureSkipVerify
    #[arg(long, env = "TLS_INSECURE_SKIP_VERIFY")]
    pub insecure_skip_verify: bool,
    /// A name that tells this provider from others of the same hypervisor, such as the UID of its object
    #[arg(
        long,
        env = "PROVIDER_INSTANCE",
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    pub instance: String,
    /// End when this process ends, which started this one
    #[arg(long, hide = true, value_name = "PID")]
    pub with_parent: Option<i32>,
}

/// Hypervisors that this program can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProviderKind {
    /// None: VMs in memory or in a folder, with every lie that a real one tells
    Mock,
    /// QEMU on this machine, without a daemon
    Qemu,
    /// A libvirt, on this machine or another
    Libvirt,
    /// KubeVirt, in this cluster or another
    Kubevirt,
}

impl From<ProviderKind> for ProviderType {
    fn from(kind: ProviderKind) -> Self {
        match kind {
            ProviderKind::Mock => Self::Mock,
            ProviderKind::Qemu => Self::Qemu,
            ProviderKind::Libvirt => Self::Libvirt,
            ProviderKind::Kubevirt => Self::Kubevirt,
        }
    }
}
