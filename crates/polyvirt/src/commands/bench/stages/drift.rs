//! A VM is powered off behind our back: how soon is it in the status?

use std::time::Duration;

use anyhow::Context;
use polyvirt_api::infra::PowerState;
use polyvirt_contract::VmId;
use tokio::time::Instant;

use super::{REST, percentile, seconds};
use crate::commands::bench::Bench;
use crate::commands::bench::budgets::Name;
use crate::commands::bench::lab::Lab;
use crate::commands::bench::objects::vm_name;
use crate::commands::bench::report::number;

const LIMIT: Duration = Duration::from_secs(30);

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let trials = bench.plan.pick(20, 10);
    tracing::info!("powering VMs off behind the manager's back");
    let ids = bench.lab.vm_ids();
    let mut latencies = Vec::with_capacity(trials);
    for trial in 0..trials {
        // Spread over all VMs, lest the first ones are special.
        let name = vm_name(trial * bench.plan.vms / trials);
        let id = ids
            .get(&name)
            .with_context(|| format!("{name} is not on the provider"))?;
        latencies.push(seconds(power_off(&bench.lab, &name, id).await?));
    }
    let [median, high, worst] = [50, 95, 100].map(|p| percentile(&mut latencies, p));
    bench.figure(Name::DriftLatency, bench.plan.vms, high);
    bench.report.fact(
        "drift: median and worst",
        format!("{} s, {} s", number(median), number(worst)),
    );
    bench.lab.settle(REST).await
}

/// Powers the VM off and, when that has been seen, on again.
async fn power_off(lab: &Lab, name: &str, id: &VmId) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    lab.mock.out_of_band().power_off(id)?;
    let off = |picture: &_| power(picture, name) == Some(PowerState::Off);
    let seen = lab.screen.until("the status says Off", LIMIT, off).await?;
    lab.mock.out_of_band().power_on(id)?;
    let on = |picture: &_| power(picture, name) == Some(PowerState::On);
    lab.screen.until("the status says On", LIMIT, on).await?;
    Ok(seen.duration_since(begin))
}

fn power(picture: &crate::commands::bench::screen::Picture, name: &str) -> Option<PowerState> {
    picture.vm(name).power
}
