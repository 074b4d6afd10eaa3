//! The manager dies and comes back: it must find everything as it left it, and touch nothing.

use std::time::Duration;

use tokio::time::Instant;

use super::seconds;
use crate::commands::bench::Bench;
use crate::commands::bench::budgets::{Name, count};
use crate::commands::bench::report::number;

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let large = bench.plan.large;
    let quiet = bench
        .plan
        .pick(Duration::from_secs(30), Duration::from_secs(10));
    tracing::info!("killing the manager and starting it again with {large} VMs");
    let mark = bench.lab.ledger.mark()?;
    bench.lab.mock.reset_counts();
    let begin = Instant::now();
    bench.lab.restart_manager().await?;
    let ready = begin.elapsed();
    bench.lab.settle(quiet).await?;
    let (writes, counts) = (bench.lab.ledger.since(mark)?, bench.lab.mock.counts());
    bench.figure(Name::RestartWrites, large, count(writes.total()));
    bench.figure(
        Name::RestartMutations,
        large,
        count(usize::try_from(counts.mutations()).unwrap_or(usize::MAX)),
    );
    facts(bench, ready).await?;
    let made: Vec<_> = counts
        .made()
        .map(|(rpc, count)| format!("{} {rpc}", count.calls))
        .collect();
    bench
        .report
        .fact("restart: calls to the provider", made.join(", "));
    bench
        .report
        .fact("restart: writes of the manager", writes.list());
    Ok(())
}

async fn facts(bench: &mut Bench, ready: Duration) -> anyhow::Result<()> {
    let (memory, cpu) = (
        bench.lab.manager.process.memory()?,
        bench.lab.manager.process.cpu()?,
    );
    let passes = bench.lab.manager.activity().await?.passes;
    bench.report.fact(
        "restart: time until the caches were filled",
        format!("{} s", number(seconds(ready))),
    );
    bench.report.fact(
        "restart: passes and processor time",
        format!("{passes}, {} s", number(seconds(cpu))),
    );
    bench.report.fact(
        "restart: memory now and at its peak",
        format!(
            "{} MiB, {} MiB",
            number(memory.resident),
            number(memory.peak)
        ),
    );
    Ok(())
}
