//! `polyvirt vm`: the verbs of daily use.

pub mod connect;
mod console;
mod describe;
mod events;
mod exec;
mod explain;
mod list;
mod logs;
pub mod migrate;
pub mod options;
mod plain;
mod power;
mod snapshot;
mod socket;
mod ssh;
mod terminal;
mod vnc;

use std::io::Write;
use std::time::Duration;

use kube::{Api, Client};
use polyvirt_api::infra::{VMPhase, VirtualMachine};
use polyvirt_api::novacron;

use super::table::{Cell, Paint};
use crate::cli::Format;
use crate::exit::Failure;
use connect::unreachable;
use options::{Options, Verb};

pub use logs::last_lines;
pub use plain::plain;

/// A cluster, and the namespace that is meant.
pub struct Cluster {
    /// The way to it.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
    /// The address of the API server, for people.
    pub server: String,
}

impl Cluster {
    /// The VirtualMachines of the namespace.
    pub fn vms(&self) -> Api<VirtualMachine> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The VirtualMachine of that name.
    pub async fn vm(&self, name: &str) -> anyhow::Result<VirtualMachine> {
        if let Some(found) = self.find(name).await? {
            return Ok(found);
        }
        // Who may not read them is told what is missing here.
        match self.find_of_novacron(name).await {
            Ok(Some(_)) => Err(Failure::NotFound(format!(
                "Nothing was made of {name} of novacron.io yet: `polyvirt vm explain {name}` says why"
            ))
            .into()),
            _ => Err(self.missing(name).into()),
        }
    }

    async fn find(&self, name: &str) -> anyhow::Result<Option<VirtualMachine>> {
        let found = self.vms().get_opt(name).await;
        found.map_err(|e| unreachable(self, e, "VirtualMachines cannot be read"))
    }

    /// One of NovaCron; a cluster that does not serve them has none.
    async fn find_of_novacron(
        &self,
        name: &str,
    ) -> anyhow::Result<Option<novacron::VirtualMachine>> {
        let all: Api<novacron::VirtualMachine> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let found = all.get_opt(name).await;
        found.map_err(|e| unreachable(self, e, "VirtualMachines of NovaCron cannot be read"))
    }

    fn missing(&self, name: &str) -> Failure {
        Failure::NotFound(format!(
            "There is no VirtualMachine {name} in the namespace {}: `polyvirt vm list -A` shows all",
            self.namespace
        ))
    }
}

/// Does what was asked for.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = connect::connect(&options.place).await?;
    match options.verb {
        Verb::List(list) => list::run(&cluster, &list).await,
        Verb::Describe(shown) => describe::run(&cluster, &shown).await,
        Verb::Explain(shown) => explain::run(&cluster, &shown).await,
        Verb::Events(shown) => events::run(&cluster, &shown).await,
        Verb::Start(change) => power::start(&cluster, &change).await,
        Verb::Stop(stop) => power::stop(&cluster, &stop).await,
        Verb::Restart(change) => power::restart(&cluster, &change).await,
        Verb::Snapshot(taken) => snapshot::take(&cluster, &taken).await,
        Verb::Snapshots(shown) => snapshot::list(&cluster, &shown).await,
        Verb::Revert(back) => snapshot::revert(&cluster, &back).await,
        Verb::Migrate(moved) => migrate::run(&cluster, &moved).await,
        Verb::Console(named) => console::run(&cluster, &named.name).await,
        Verb::Vnc(vnc) => vnc::run(&cluster, &vnc).await,
        Verb::Logs(logs) => logs::run(&cluster, &logs).await,
        Verb::Exec(exec) => exec::run(&cluster, &exec).await,
        Verb::Ssh(ssh) => ssh::run(&cluster, &ssh).await,
    }
}

/// What to tell whoever wants something of a VM that does not run.
fn is_off(name: &str) -> String {
    format!("{name} is off: `polyvirt vm start {name}` starts it")
}

/// Reads a number of seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches('s').parse().map(Duration::from_secs);
    number.map_err(|_| format!("{text:?} is no number of seconds"))
}

/// A phase, in the colour of its meaning.
pub fn phase_cell(phase: VMPhase) -> Cell {
    let paint = match phase {
        VMPhase::Running => Paint::Good,
        VMPhase::Stopped => Paint::Plain,
        VMPhase::Failed => Paint::Bad,
        VMPhase::Pending
        | VMPhase::Provisioning
        | VMPhase::Reconfiguring
        | VMPhase::Migrating
        | VMPhase::Deleting => Paint::Busy,
    };
    Cell::new(format!("{phase:?}"), paint)
}

/// An object for programs.
fn print_object(object: &impl serde::Serialize, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => print(&format!("{:#}\n", serde_json::to_value(object)?)),
        Format::Yaml => print(&serde_saphyr::to_string(object)?),
    }
    Ok(())
}

/// To standard output; whoever read has had enough if it cannot be written.
pub fn print(text: &str) {
    print_bytes(text.as_bytes());
}

fn print_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// To standard error, where words about the work go.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds() {
        assert_eq!(seconds("90"), Ok(Duration::from_secs(90)));
        assert_eq!(seconds("90s"), Ok(Duration::from_secs(90)));
        assert!(seconds("soon").is_err());
    }
}
