//! All VMs have changed while the provider's stream was broken. Does a person who edits one VM have to wait for them?

use std::collections::HashMap;
use std::time::Duration;

use polyvirt_api::infra::PowerState;
use polyvirt_contract::VmId;
use serde_json::json;
use tokio::time::Instant;

use super::{REST, percentile, seconds};
use crate::commands::bench::budgets::Name;
use crate::commands::bench::lab::Lab;
use crate::commands::bench::objects::FIRST_VM;
use crate::commands::bench::report::number;
use crate::commands::bench::{Bench, Plan};

struct Trial {
    edit: Duration,
    background: Duration,
    /// VMs whose status was written before the edit had its effect.
    overtaken_by: usize,
}

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let trials = bench.plan.pick(3, 1);
    let others: HashMap<_, _> = bench
        .lab
        .vm_ids()
        .into_iter()
        .filter(|(name, _)| name != FIRST_VM)
        .collect();
    let mut ratios = Vec::new();
    for _ in 0..trials {
        tracing::info!("all VMs change while the stream is broken, and a person edits one");
        let Trial {
            edit,
            background,
            overtaken_by,
        } = trial(&bench.lab, &others).await?;
        let text = format!(
            "{} s of {} s, after {overtaken_by} of {} statuses",
            number(seconds(edit)),
            number(seconds(background)),
            others.len()
        );
        bench.report.fact("edit: effect and background work", text);
        ratios.push(seconds(edit) / seconds(background));
        recover(&bench.lab, &others).await?;
        bench.lab.settle(REST).await?;
    }
    bench.figure(Name::EditFirst, bench.plan.vms, percentile(&mut ratios, 50));
    Ok(())
}

async fn trial(lab: &Lab, others: &HashMap<String, VmId>) -> anyhow::Result<Trial> {
    let limit = Plan::limit(others.len());
    let begin = Instant::now();
    lab.mock.faults().break_watches();
    for id in others.values() {
        lab.mock.out_of_band().power_off(id)?;
    }
    let some = others.len() / 50 + 1;
    lab.screen
        .until("the background work has begun", limit, |picture| {
            picture.off >= some
        })
        .await?;
    let asked = Instant::now();
    lab.edit(FIRST_VM, json!({"powerState": "Off"})).await?;
    let mut off_then = 0;
    let served = lab
        .screen
        .until("the edited VM is off", limit, |picture| {
            off_then = picture.off;
            picture.vm(FIRST_VM).power == Some(PowerState::Off)
        })
        .await?;
    let all = others.len() + 1;
    let end = lab
        .screen
        .until("all VMs are off", limit, |picture| picture.off >= all)
        .await?;
    Ok(Trial {
        edit: served - asked,
        background: end - begin,
        overtaken_by: off_then.saturating_sub(some),
    })
}

async fn recover(lab: &Lab, others: &HashMap<String, VmId>) -> anyhow::Result<()> {
    for id in others.values() {
        lab.mock.out_of_band().power_on(id)?;
    }
    lab.edit(FIRST_VM, json!({"powerState": "On"})).await?;
    let all = others.len() + 1;
    lab.screen
        .until("all VMs run again", Plan::limit(all), |picture| {
            picture.ready >= all
        })
        .await?;
    Ok(())
}
