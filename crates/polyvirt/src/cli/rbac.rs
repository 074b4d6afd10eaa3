//! Options of `polyvirt rbac`.

use clap::Args;

use crate::rights::Switch;

/// Options of `polyvirt rbac`.
#[derive(Clone, Debug, Args)]
pub struct Rbac {
    /// For a manager that works in these namespaces only (comma separated); without it in the whole cluster
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub namespaces: Vec<String>,
    /// The namespace of the manager
    #[arg(long, default_value = "polyvirt-system", value_name = "NAMESPACE")]
    pub own_namespace: String,
    /// The name of the release
    #[arg(long, default_value = "polyvirt", value_name = "NAME")]
    pub release: String,
    /// The ServiceAccount of the manager; without it RELEASE-manager
    #[arg(long, value_name = "NAME")]
    pub service_account: Option<String>,
    /// What is switched on beside the defaults of the chart
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SWITCHES")]
    pub with: Vec<Switch>,
    /// What is switched off
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SWITCHES")]
    pub without: Vec<Switch>,
    /// Secrets in its namespace with certificates that somebody else keeps
    #[arg(long, value_delimiter = ',', value_name = "SECRETS")]
    pub certificates: Vec<String>,
}
