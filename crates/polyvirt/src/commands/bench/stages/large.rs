//! Many more VMs, and the memory that they cost.

use std::time::Duration;

use super::{REST, seconds};
use crate::commands::bench::budgets::{Name, count};
use crate::commands::bench::report::number;
use crate::commands::bench::{Bench, Plan};

const PROGRESS: Duration = Duration::from_secs(10);

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let (vms, large) = (bench.plan.vms, bench.plan.large);
    tracing::info!("creating VMs up to {large}");
    let begin = tokio::time::Instant::now();
    tokio::select! {
        created = create_and_wait(bench) => created?,
        never = progress(bench) => never,
    }
    let speed = number(count(large - vms) / seconds(begin.elapsed()));
    bench
        .report
        .fact("large: speed of creation", format!("{speed} VMs a second"));
    bench.lab.settle(REST).await?;
    let memory = bench.lab.manager.process.memory()?;
    bench.figure(Name::MemoryLarge, large, memory.resident);
    bench.report.fact(
        "large: peak of memory",
        format!("{} MiB", number(memory.peak)),
    );
    Ok(())
}

async fn create_and_wait(bench: &Bench) -> anyhow::Result<()> {
    let (vms, large) = (bench.plan.vms, bench.plan.large);
    let ready = bench
        .lab
        .screen
        .until("all VMs are ready", Plan::limit(large), |picture| {
            picture.ready > large
        });
    let (created, ready) = tokio::join!(bench.lab.create_vms(vms..large), ready);
    created?;
    ready.map(drop)
}

async fn progress(bench: &Bench) -> ! {
    loop {
        tokio::time::sleep(PROGRESS).await;
        let (ready, _) = bench.lab.screen.counts();
        tracing::info!("{ready} VMs are ready");
    }
}
