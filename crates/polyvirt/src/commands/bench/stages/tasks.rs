//! The same creation on a provider that answers with tasks, as hypervisors do.

use std::time::Duration;

use polyvirt_provider_mock::{MockConfig, TaskMode, Times};

use super::REST;
use super::create::create_and_wait;
use crate::commands::bench::Bench;
use crate::commands::bench::budgets::{Name, count};

/// How long a create takes there.
const CREATE: Duration = Duration::from_secs(2);

/// A provider with tasks: `asyncTasks=true&createTime=2s`.
pub fn provider() -> MockConfig {
    MockConfig {
        tasks: TaskMode::Async,
        times: Times {
            create: CREATE,
            ..Times::default()
        },
        ..MockConfig::default()
    }
}

/// Creates all VMs at once and counts what the manager writes.
pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let vms = bench.plan.vms;
    let mark = bench.lab.ledger.mark()?;
    tracing::info!("creating {vms} VMs on a provider with tasks");
    create_and_wait(bench).await?;
    bench.lab.settle(REST).await?;
    let writes = bench.lab.ledger.since(mark)?;
    bench.figure(Name::TaskWrites, vms, count(writes.vms()) / count(vms));
    bench.figure(Name::TaskEvents, vms, count(writes.events()) / count(vms));
    let about = "create with tasks: writes of the manager";
    bench.report.fact(about, writes.list());
    Ok(())
}
