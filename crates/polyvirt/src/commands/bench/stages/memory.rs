//! The memory of a manager at rest.

use crate::commands::bench::Bench;
use crate::commands::bench::budgets::Name;
use crate::commands::bench::report::number;

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let memory = bench.lab.manager.process.memory()?;
    bench.figure(Name::Memory, bench.plan.vms, memory.resident);
    bench
        .report
        .fact("memory: peak", format!("{} MiB", number(memory.peak)));
    Ok(())
}
