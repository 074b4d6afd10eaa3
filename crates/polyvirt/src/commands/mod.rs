//! One file a command.

pub mod bench;
mod cluster_controllers;
mod completion;
mod conformance;
mod crds;
#[cfg(test)]
mod docs;
mod down;
pub mod host;
mod kubevirt_sim;
mod manager;
mod probes;
mod provider;
mod rbac;
mod status;
mod table;
pub mod up;
pub mod vm;

use std::time::Duration;

use anyhow::Context;
use polyvirt_otlp::Exporter;
use tokio_util::sync::CancellationToken;

use crate::cli::{Cli, Command};

/// So long the end of the program waits for a collector.
const LAST_TRACES: Duration = Duration::from_secs(1);

/// Runs what was asked for.
pub fn run(cli: Cli, traces: Option<Exporter>) -> anyhow::Result<()> {
    match cli.command {
        Command::Bench(options) => block_on(bench::run(options)),
        Command::Completion(options) => {
            completion::run(&options);
            Ok(())
        }
        Command::Conformance(options) => block_on(conformance::run(options)),
        Command::Crds(options) => block_on(crds::run(options)),
        Command::Down(options) => block_on(down::run(options)),
        Command::Host(options) => block_on(host::run(options)),
        Command::KubevirtSim(options) => serve_on(kubevirt_sim::run(options)),
        Command::ClusterControllers(options) => serve_on(cluster_controllers::run(options)),
        Command::Manager(options) => serve_on(traced(traces, manager::run(*options))),
        Command::Provider(options) => serve_on(traced(traces, provider::run(options))),
        Command::Rbac(options) => rbac::run(options),
        Command::Status(options) => block_on(status::run(options)),
        Command::Up(options) => block_on(up::run(options, &cli.global)),
        Command::Vm(options) => block_on(vm::run(options)),
    }
}

/// Sends traces beside the work, for as long as that goes on.
async fn traced(
    traces: Option<Exporter>,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let sending = traces.map(|exporter| tokio::spawn(exporter.run(stop.clone().cancelled_owned())));
    let result = work.await;
    stop.cancel();
    if let Some(sending) = sending {
        let _ = tokio::time::timeout(LAST_TRACES, sending).await;
    }
    result
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    run_on(tokio::runtime::Builder::new_multi_thread(), work)
}

/// For what runs for long and waits most of the time. One thread would let whatever holds it up hold up everything: leases,
/// probes, webhooks and all providers. Each keeps memory of its own, and the machine may have many processors, so there are
/// few. `TOKIO_WORKER_THREADS` says otherwise.
fn serve_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        builder.worker_threads(workers());
    }
    run_on(builder, work)
}

/// As many as there are processors, but two at least and four at most.
fn workers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    processors.clamp(2, 4)
}

fn run_on(
    mut builder: tokio::runtime::Builder,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let runtime = builder.enable_all().build();
    runtime.context("Cannot start the runtime")?.block_on(work)
}

/// Ends when the user or the system asks the program to stop.
async fn stop_signal() {
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = terminate => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
