//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use polyvirt_pki::MANAGER_NAME;

mod defaults;
mod hooks;
mod novacron;
mod pods;
mod provider;
mod rbac;
mod vitistack;
mod vm_short_name;
mod webhooks;

pub use defaults::Home;
pub use hooks::Hooks;
pub use novacron::Novacron;
pub use pods::{Pods, RemoteProviders};
pub use provider::ProviderCommand;
pub use rbac::Rbac;
pub use vitistack::Vitistack;
pub use vm_short_name::VmShortName;
pub use webhooks::{FailurePolicy, Webhooks};

/// What the exit code tells; kept in step with [`crate::exit`].
const EXIT_CODES: &str = "Exit codes:
  0  done
  1  failed; `polyvirt status`: not healthy
  2  the command line cannot be understood
  3  what was named does not exist
  4  not done within the time
`polyvirt vm exec` and `polyvirt vm ssh` end with the code of the program that they ran.";

/// Every virtual machine, one Kubernetes API.
#[derive(Debug, Parser)]
#[command(
    name = "polyvirt",
    version,
    about,
    propagate_version = true,
    after_long_help = EXIT_CODES,
    max_term_width = 100
)]
pub struct Cli {
    /// For every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// What to log: a level (error, warn, info, debug, trace) or a filter such as `polyvirt_engine=debug`
    #[arg(
        long,
        global = true,
        env = "LOG_LEVEL",
        default_value = "info",
        value_name = "LEVEL"
    )]
    pub log_level: String,
    /// How to log
    #[arg(
        long,
        global = true,
        env = "LOG_FORMAT",
        default_value = "text",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines, one object a line.
    Json,
}

impl LogFormat {
    /// As it is written on a command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a control plane, the manager and a first VM on this machine
    Up(crate::commands::up::options::Options),
    /// Stop what `up` has started, VMs included
    Down(crate::commands::up::options::DownOptions),
    /// Show what `up` has started, and how it is
    Status(crate::commands::up::options::StatusOptions),
    /// Look at VMs, start and stop them, and get into them
    Vm(crate::commands::vm::options::Options),
    /// Look at hosts of a provider, and empty them
    Host(crate::commands::host::Options),
    /// Run the controllers against a cluster
    Manager(Box<Manager>),
    /// Serve a hypervisor to managers over gRPC
    Provider(ProviderCommand),
    /// Print the CustomResourceDefinitions, or apply them to a cluster
    Crds(Crds),
    /// Print the roles that a manager needs, and no wider ones
    Rbac(Rbac),
    /// Check a provider at an address against the contract
    Conformance(Conformance),
    /// Print the completion script of a shell
    Completion(Completion),
    /// Behave like KubeVirt in a cluster without nodes; `up --with kubevirt` does
    #[command(hide = true)]
    KubevirtSim(OneCluster),
    /// Delete namespaces and the dependents of deleted objects in a cluster without kube-controller-manager; `up` does
    #[command(hide = true)]
    ClusterControllers(OneCluster),
    /// Measure what the manager and guests cost, against their budgets, on a control plane of its own
    Bench(crate::commands::bench::Options),
}

/// Who reads what a command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Whoever runs a service and reads its log.
    Operators,
    /// Whoever typed the command and waits for it.
    People,
}

impl Command {
    /// Who reads what the command says.
    pub fn audience(&self) -> Audience {
        match self {
            Self::Manager(_)
            | Self::Provider(_)
            | Self::KubevirtSim(_)
            | Self::ClusterControllers(_) => Audience::Operators,
            _ => Audience::People,
        }
    }
}

/// Options of `polyvirt manager`.
#[derive(Clone, Debug, Args)]
pub struct Manager {
    /// Kubeconfig file; without it the usual places, then the pod's own account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Work in these namespaces only (comma separated)
    #[arg(
        long,
        env = "WATCH_NAMESPACES",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    pub namespaces: Vec<String>,
    /// Passes in flight for one provider
    #[arg(long, default_value_t = 32, value_name = "N")]
    pub concurrency: usize,
    /// Work only while this manager holds a Lease, so that several can run and one works
    #[arg(long, env = "LEADER_ELECT")]
    pub leader_elect: bool,
    /// The namespace of the Lease; without it that of the pod, or polyvirt-system
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,
    /// The name of the Lease
    #[arg(long, default_value = MANAGER_NAME, value_name = "NAME")]
    pub leader_election_id: String,
    /// Serve /metrics here; 0 to switch it off. Without it :8080 in a pod, 127.0.0.1:8080 elsewhere
    #[arg(long, env = "METRICS_BIND_ADDRESS", value_name = "ADDRESS")]
    pub metrics_bind_address: Option<Bind>,
    /// Serve /healthz and /readyz here; 0 to switch it off. Without it :8081 in a pod, 127.0.0.1:8081 elsewhere
    #[arg(long, env = "HEALTH_PROBE_BIND_ADDRESS", value_name = "ADDRESS")]
    pub health_probe_bind_address: Option<Bind>,
    /// Serve consoles and commands in guests to the API server here; 0 to switch it off
    #[arg(long, default_value = "0", value_name = "ADDRESS")]
    pub gateway_bind_address: Bind,
    /// The Service through which the API server reaches that address
    #[arg(
        long,
        default_value = "polyvirt-system/polyvirt-gateway",
        value_name = "NAMESPACE/NAME"
    )]
    pub gateway_service: String,
    /// The name of this machine, if the manager runs outside the cluster: then the Service is made, for that name
    #[arg(long, value_name = "NAME")]
    pub gateway_host: Option<String>,
    /// Which VirtualMachine `kubectl get virtualmachines` means, as `polyvirt crds` was told for the short name vm; needs the gateway
    #[arg(long, value_enum, default_value_t = VmShortName::Infra, value_name = "API")]
    pub vm_short_name: VmShortName,
    /// A Secret with tls.crt, tls.key and ca.crt that somebody else keeps, in the namespace of that Service; without it the manager's own authority signs a certificate
    #[arg(long, value_name = "SECRET")]
    pub gateway_certificate: Option<String>,
    /// Whom Providers, VMClasses and VMImages without spec.consumerNamespaceSelector are for: their own namespace (closed) or all (open)
    #[arg(long, env = "SHARING", value_enum, default_value_t = Sharing::Closed)]
    pub sharing: Sharing,
    /// The pods of providers
    #[command(flatten)]
    pub pods: Pods,
    /// The admission webhooks
    #[command(flatten)]
    pub webhooks: Webhooks,
    /// Hooks that call web servers
    #[command(flatten)]
    pub hooks: Hooks,
    /// Machines
    #[command(flatten)]
    pub vitistack: Vitistack,
    /// VMs of NovaCron
    #[command(flatten)]
    pub novacron: Novacron,
}

/// Whom objects without `spec.consumerNamespaceSelector` are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sharing {
    /// Their own namespace
    Closed,
    /// All namespaces, as in earlier releases
    Open,
}

impl From<Sharing> for polyvirt_plan::sharing::Sharing {
    fn from(sharing: Sharing) -> Self {
        match sharing {
            Sharing::Closed => Self::Closed,
            Sharing::Open => Self::Open,
        }
    }
}

/// An address to listen on: `host:port`, `:port` for all interfaces, or `0` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind(pub Option<SocketAddr>);

impl Cli {
    /// Reads the command line. As the kubectl plugin `kubectl-polyvirt`, every verb is one of `polyvirt vm`.
    pub fn read() -> Self {
        let kind = std::env::var_os("PROVIDER_TYPE");
        Self::parse_from(translated(std::env::args_os().collect(), kind))
    }
}

/// As the kubectl plugin, every verb is one of `polyvirt vm`. In a pod that a manager made for a provider, which is any manager
/// of the contract, the type is in the environment and there are only options.
fn translated(mut words: Vec<OsString>, provider: Option<OsString>) -> Vec<OsString> {
    let program = words.first().map(PathBuf::from);
    let name = program.as_ref().and_then(|path| path.file_name());
    if name.is_some_and(|name| name == "kubectl-polyvirt") {
        words.insert(1, "vm".into());
    }
    let only_options = words.len() > 1 && is_port(&words[1]);
    if let Some(kind) = provider.filter(|_| only_options) {
        words.splice(1..1, ["provider".into(), kind]);
    }
    words
}

fn is_port(word: &OsString) -> bool {
    let word = word.to_string_lossy();
    word.starts_with("--port") || word.starts_with("--health-port")
}

impl std::str::FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" {
            return Ok(Self(None));
        }
        let full = if text.starts_with(':') {
            format!("0.0.0.0{text}")
        } else {
            text.to_owned()
        };
        let address = full.parse().map_err(|_| {
            format!("{text:?} is no address: write host:port, :port, or 0 for none")
        })?;
        Ok(Self(Some(address)))
    }
}

/// Options of `polyvirt kubevirt-sim` and `polyvirt cluster-controllers`.
#[derive(Clone, Debug, Args)]
pub struct OneCluster {
    /// Kubeconfig file of an administrator of the cluster
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
}

/// Options of `polyvirt crds`.
#[derive(Clone, Debug, Args)]
pub struct Crds {
    /// The format
    #[arg(long, short, value_enum, default_value_t = Format::Yaml)]
    pub output: Format,
    /// Which VirtualMachine has the short name vm: that of infra.virtrigaud.io, or that of novacron.io
    #[arg(long, value_enum, default_value_t = VmShortName::Infra, value_name = "API")]
    pub vm_short_name: VmShortName,
    /// Apply them to the cluster instead, and wait until it has accepted them
    #[arg(long, conflicts_with = "output")]
    pub apply: bool,
    /// Kubeconfig file; without it the usual places, then the pod's own account
    #[arg(long, requires = "apply", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// Formats of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Documents, one a definition
    Yaml,
    /// One List
    Json,
}

/// Options of `polyvirt completion`.
#[derive(Clone, Debug, Args)]
pub struct Completion {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Options of `polyvirt conformance`.
#[derive(Clone, Debug, Args)]
pub struct Conformance {
    /// Address of the provider, host:port
    #[arg(required_unless_present = "endpoint")]
    pub address: Option<String>,
    /// The same
    #[arg(long, value_name = "ADDRESS", conflicts_with = "address")]
    pub endpoint: Option<String>,
    /// Folder with tls.crt, tls.key and ca.crt; without it plain text
    #[arg(long, value_name = "DIR")]
    pub tls_dir: Option<PathBuf>,
    /// The name in the provider's certificate; without it the host of the address
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// A network for a card of the VMs, "" for the default one; two of them for the checks of cards, which need cards on networks
    /// that the hypervisor has
    #[arg(long = "network", value_name = "NAME")]
    pub networks: Vec<String>,
    /// Ask only for what provider.v1 has, without our extensions
    #[arg(long)]
    pub basic: bool,
    /// Write the report as JUnit XML to this file too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_kubectl_plugin_speaks_of_vms() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let plugin = translated(words("/usr/local/bin/kubectl-polyvirt list"), None);
        assert_eq!(plugin[1..], words("vm list"));
        assert_eq!(
            translated(words("polyvirt vm list"), None),
            words("polyvirt vm list")
        );
    }

    #[test]
    fn a_manager_of_the_contract_can_start_us() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let mock = || Some(OsString::from("mock"));
        assert_eq!(
            translated(words("/polyvirt --port=9443 --health-port=8080"), mock()),
            words("/polyvirt provider mock --port=9443 --health-port=8080")
        );
        assert_eq!(
            translated(words("polyvirt vm list"), mock()),
            words("polyvirt vm list")
        );
        assert_eq!(translated(words("polyvirt"), mock()), words("polyvirt"));
    }

    #[test]
    fn addresses() {
        assert_eq!("0".parse(), Ok(Bind(None)));
        assert_eq!(
            ":8080"
                .parse::<Bind>()
                .ok()
                .and_then(|b| b.0)
                .map(|a| a.to_string()),
            Some("0.0.0.0:8080".into())
        );
        assert!(
            "eighty"
                .parse::<Bind>()
                .is_err_and(|e| e.contains("host:port"))
        );
    }
}
