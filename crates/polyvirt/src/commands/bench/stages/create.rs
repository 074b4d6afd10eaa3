//! All VMs are declared at once: what does it take until they run, and how much of it would bare writes take?

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher;
use polyvirt_api::infra::{VirtualMachine, VirtualMachineStatus};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{REST, seconds};
use crate::commands::bench::budgets::{Name, count};
use crate::commands::bench::floor::{self, Shape};
use crate::commands::bench::objects::vm_name;
use crate::commands::bench::report::number;
use crate::commands::bench::writes::Writes;
use crate::commands::bench::{Bench, Plan};

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let vms = bench.plan.vms;
    let sample = Sample::of(bench, &vm_name(vms / 2));
    let mark = bench.lab.ledger.mark()?;
    bench.lab.mock.reset_counts();
    tracing::info!("creating {vms} VMs");
    let cpu = bench.lab.manager.process.cpu()?;
    let took = create_and_wait(bench).await?;
    let cpu = bench.lab.manager.process.cpu()?.saturating_sub(cpu);
    bench.lab.settle(REST).await?;
    let writes = bench.lab.ledger.since(mark)?;
    figures(bench, &writes);
    bench.report.fact(
        "create: processor time of the manager",
        format!("{} ms per VM", number(seconds(cpu) * 1000.0 / count(vms))),
    );
    if bench.wants(Name::CreateTime) {
        ratio(bench, took, &writes, sample).await?;
    }
    Ok(())
}

pub(super) async fn create_and_wait(bench: &Bench) -> anyhow::Result<Duration> {
    let vms = bench.plan.vms;
    let (before, _) = bench.lab.screen.counts();
    let begin = Instant::now();
    let requests = bench.lab.create_vms(0..vms);
    let ready = bench
        .lab
        .screen
        .until("all VMs are ready", Plan::limit(vms), |picture| {
            picture.ready >= before + vms
        });
    let (created, ready) = tokio::join!(requests, ready);
    created?;
    Ok(ready?.duration_since(begin))
}

fn figures(bench: &mut Bench, writes: &Writes) {
    let vms = bench.plan.vms;
    let counts = bench.lab.mock.counts();
    let calls = |number: u64| count(usize::try_from(number).unwrap_or(usize::MAX)) / count(vms);
    bench.figure(Name::CreateWrites, vms, count(writes.vms()) / count(vms));
    bench.figure(Name::CreateEvents, vms, count(writes.events()) / count(vms));
    bench.figure(Name::CreateMutations, vms, calls(counts.mutations()));
    let reads = number(calls(counts.calls() - counts.mutations()));
    let made: Vec<_> = counts
        .made()
        .map(|(rpc, count)| format!("{} {rpc}", count.calls))
        .collect();
    bench
        .report
        .fact("create: writes of the manager", writes.list());
    bench.report.fact(
        "create: writes of other objects in total",
        writes.others().to_string(),
    );
    bench.report.fact(
        "create: provider reads per VM",
        format!("{reads} (all calls: {})", made.join(", ")),
    );
}

async fn ratio(
    bench: &mut Bench,
    took: Duration,
    writes: &Writes,
    sample: Sample,
) -> anyhow::Result<()> {
    let vms = bench.plan.vms;
    let name = sample.name.clone();
    let shape = Shape::of(&bench.lab, vms, writes, &name, sample.statuses()).await?;
    tracing::info!("measuring the floor: the same writes without a manager");
    let floor = floor::measure(&bench.lab, shape).await?;
    bench.figure(Name::CreateTime, vms, seconds(took) / seconds(floor));
    let speed = number(count(vms) / seconds(took));
    let text = format!(
        "{} s ({speed} VMs a second), floor {} s",
        number(seconds(took)),
        number(seconds(floor))
    );
    bench
        .report
        .fact("create: time until all were Running", text);
    Ok(())
}

/// Each status that one VM had in turn.
struct Sample {
    name: String,
    seen: Arc<Mutex<Vec<VirtualMachineStatus>>>,
    task: JoinHandle<()>,
}

impl Sample {
    fn of(bench: &Bench, name: &str) -> Self {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let stream = watcher(bench.lab.vms(), config);
        let seen = Arc::default();
        let task = tokio::spawn(record(stream.boxed(), Arc::clone(&seen)));
        Self {
            name: name.to_owned(),
            seen,
            task,
        }
    }

    fn statuses(self) -> Vec<Value> {
        self.task.abort();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter()
            .filter_map(|status| serde_json::to_value(status).ok())
            .collect()
    }
}

async fn record(
    mut stream: futures::stream::BoxStream<
        'static,
        watcher::Result<watcher::Event<VirtualMachine>>,
    >,
    seen: Arc<Mutex<Vec<VirtualMachineStatus>>>,
) {
    while let Some(event) = stream.next().await {
        let Ok(watcher::Event::Apply(VirtualMachine {
            status: Some(status),
            ..
        })) = event
        else {
            continue;
        };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.last() != Some(&status) {
            seen.push(status);
        }
    }
}
