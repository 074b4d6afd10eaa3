//! What `polyvirt vm` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::Format;

/// Options of `polyvirt vm`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Which cluster and namespace
    #[command(flatten)]
    pub place: Place,
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// Which cluster and namespace.
#[derive(Clone, Debug, Default, Args)]
pub struct Place {
    /// Namespace; without it that of the kubeconfig's context
    #[arg(long, short, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Kubeconfig file; without it $KUBECONFIG, ~/.kube/config, then that of `polyvirt up`
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
}

/// What to do with VMs.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Show all VMs
    #[command(visible_alias = "ls")]
    List(List),
    /// Show all that is known of a VM, with its events
    Describe(Shown),
    /// Show where a VM goes and what is against each other host
    Explain(Shown),
    /// Show what happened to a VM
    Events(Shown),
    /// Switch a VM on
    Start(Change),
    /// Shut a VM down
    Stop(Stop),
    /// Reboot a VM
    Restart(Change),
    /// Take a snapshot of a VM
    Snapshot(Snapshot),
    /// Show the snapshots of a VM, or of all
    Snapshots(Snapshots),
    /// Take a VM back to a snapshot; all that it has written since is lost
    Revert(Revert),
    /// Move a VM to another host of its provider
    Migrate(Migrate),
    /// Attach this terminal to the serial console; Ctrl-] leaves it
    Console(Named),
    /// Make the screen of a VM reachable for a VNC viewer on this machine
    Vnc(Vnc),
    /// Show what the serial console has shown
    Logs(Logs),
    /// Run a command in the guest, by its agent; ends with the command's exit code
    Exec(Exec),
    /// Run ssh to the guest's first address; ends with the exit code of ssh
    Ssh(Ssh),
}

/// One VM.
#[derive(Clone, Debug, Args)]
pub struct Named {
    /// The VirtualMachine
    pub name: String,
}

/// One VM, for people or for programs.
#[derive(Clone, Debug, Args)]
pub struct Shown {
    /// The VirtualMachine
    pub name: String,
    /// The objects themselves, instead of a text for people
    #[arg(long, short, value_enum)]
    pub output: Option<Format>,
}

/// Options of `polyvirt vm list`.
#[derive(Clone, Debug, Args)]
pub struct List {
    /// Those of all namespaces
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// Only those with these labels, such as app=web
    #[arg(long, short = 'l', value_name = "LABELS")]
    pub selector: Option<String>,
    /// The format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// How a list is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table
    Table,
    /// A table with more columns
    Wide,
    /// The names, as kubectl takes them
    Name,
    /// The objects
    Json,
    /// The objects
    Yaml,
}

/// A change to wait for.
#[derive(Clone, Debug, Args)]
pub struct Change {
    /// The VirtualMachine
    pub name: String,
    /// Whether to wait
    #[command(flatten)]
    pub wait: Wait,
}

/// Whether to wait.
#[derive(Clone, Debug, Args)]
pub struct Wait {
    /// Wait until it is done, and show how it goes
    #[arg(long, short)]
    pub wait: bool,
    /// How long to wait
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = super::seconds)]
    pub timeout: Duration,
}

/// Options of `polyvirt vm stop`.
#[derive(Clone, Debug, Args)]
pub struct Stop {
    /// The VirtualMachine
    pub name: String,
    /// Cut the power, without asking the guest
    #[arg(long)]
    pub force: bool,
    /// Whether to wait
    #[command(flatten)]
    pub wait: Wait,
}

/// Options of `polyvirt vm snapshot`.
#[derive(Clone, Debug, Args)]
pub struct Snapshot {
    /// The VirtualMachine
    pub name: String,
    /// Name of the VMSnapshot; without it that of the VM and the time
    #[arg(value_name = "SNAPSHOT")]
    pub called: Option<String>,
    /// Keep the memory, too: the guest goes on from that moment
    #[arg(long)]
    pub memory: bool,
    /// Do not ask the guest to write its buffers out
    #[arg(long)]
    pub no_quiesce: bool,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Whether to wait
    #[command(flatten)]
    pub wait: Wait,
}

/// Options of `polyvirt vm snapshots`.
#[derive(Clone, Debug, Args)]
pub struct Snapshots {
    /// The VirtualMachine; without it all
    pub name: Option<String>,
}

/// Options of `polyvirt vm revert`.
#[derive(Clone, Debug, Args)]
pub struct Revert {
    /// The VirtualMachine
    pub name: String,
    /// The VMSnapshot to go back to
    pub snapshot: String,
    /// Whether to wait
    #[command(flatten)]
    pub wait: Wait,
}

/// Options of `polyvirt vm migrate`.
#[derive(Clone, Debug, Args)]
pub struct Migrate {
    /// The VirtualMachine
    pub name: String,
    /// The host to move to; without it one is chosen
    #[arg(long, value_name = "HOST")]
    pub to: Option<String>,
    /// How to move
    #[command(flatten)]
    pub terms: MoveTerms,
    /// Stop the move that is under way, instead of beginning one
    #[arg(long, conflicts_with = "to")]
    pub cancel: bool,
    /// Whether to wait
    #[command(flatten)]
    pub wait: Wait,
}

/// How a VM moves.
#[derive(Clone, Debug, Default, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is one flag")]
pub struct MoveTerms {
    /// Move a VM that is off, or stop it for the move
    #[arg(long)]
    pub cold: bool,
    /// Compress memory on its way
    #[arg(long)]
    pub compression: bool,
    /// Encrypt memory on its way
    #[arg(long)]
    pub encrypted: bool,
    /// The most to take of the network, such as 10Gbps or 100Mi
    #[arg(long, value_name = "RATE")]
    pub bandwidth: Option<String>,
    /// Slow a guest down that writes faster than it can be moved
    #[arg(long)]
    pub auto_converge: bool,
    /// Start a guest on the target that cannot be moved otherwise, and let it fetch what is missing
    #[arg(long)]
    pub post_copy: bool,
}

/// Options of `polyvirt vm vnc`.
#[derive(Clone, Debug, Args)]
pub struct Vnc {
    /// The VirtualMachine
    pub name: String,
    /// Listen on this port of 127.0.0.1; 0 for any that is free
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Start a viewer, and end with it
    #[arg(long)]
    pub open: bool,
}

/// Options of `polyvirt vm logs`.
#[derive(Clone, Debug, Args)]
pub struct Logs {
    /// The VirtualMachine
    pub name: String,
    /// How many lines
    #[arg(long, value_name = "LINES", default_value_t = 100)]
    pub tail: usize,
    /// Stay, and show what comes
    #[arg(long, short)]
    pub follow: bool,
}

/// Options of `polyvirt vm exec`.
#[derive(Clone, Debug, Args)]
pub struct Exec {
    /// The VirtualMachine
    pub name: String,
    /// Give our standard input to the command
    #[arg(long, short = 'i')]
    pub stdin: bool,
    /// How long it may run
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = super::seconds)]
    pub timeout: Duration,
    /// The program and its arguments; no shell in between
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Options of `polyvirt vm ssh`.
#[derive(Clone, Debug, Args)]
pub struct Ssh {
    /// The VirtualMachine
    pub name: String,
    /// Log in as this user; without it ssh decides
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
    /// For ssh: options, and a command to run
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}
