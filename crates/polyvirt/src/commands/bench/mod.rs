//! `polyvirt bench`: what the manager and the QEMU provider cost, against their budgets.
//!
//! ```text
//!   this process                          children
//!   bench ── creates, edits, watches ──►  kube-apiserver ── etcd
//!   mock  ◄── gRPC ── manager ──────────────────▲
//!     ▲ counts, out-of-band changes             └── audit log: who wrote what
//! ```
//!
//! Counts and ratios, not seconds: they mean the same on any machine. Guests are measured by another arrangement: [`guest`].

mod budgets;
mod docs;
mod floor;
mod guest;
mod lab;
mod manager;
mod objects;
mod options;
mod report;
mod running;
mod screen;
mod stages;
mod writes;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use polyvirt_provider_mock::MockConfig;

use budgets::{BUDGETS, Budget, LARGE, Name, OF_MANAGER, Stage, VMS};
use lab::Lab;
pub use options::{Options, Output};
use report::{Circumstances, Report};

const QUICK_VMS: usize = 300;
const QUICK_LARGE: usize = 2000;

/// Thorough or quick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Full,
    Quick,
}

/// What is to be measured, and how.
#[derive(Clone, Debug)]
struct Plan {
    vms: usize,
    large: usize,
    pace: Pace,
    only: Vec<Name>,
    image: Option<PathBuf>,
}

impl Plan {
    fn of(options: &Options) -> Self {
        let (pace, vms, large) = if options.quick {
            (Pace::Quick, QUICK_VMS, QUICK_LARGE)
        } else {
            (Pace::Full, VMS, LARGE)
        };
        let vms = options.vms.unwrap_or(vms);
        Self {
            vms,
            large: options.large.unwrap_or(large).max(vms),
            pace,
            only: options.only.clone(),
            image: options.image.clone(),
        }
    }

    fn wants(&self, budget: &Budget) -> bool {
        self.only.is_empty() || self.only.contains(&budget.name)
    }

    fn wants_any(&self, stages: &[Stage]) -> bool {
        BUDGETS
            .iter()
            .any(|budget| stages.contains(&budget.stage) && self.wants(budget))
    }

    fn pick<T>(&self, full: T, quick: T) -> T {
        match self.pace {
            Pace::Full => full,
            Pace::Quick => quick,
        }
    }

    /// Generous: a limit only for what will never come.
    fn limit(vms: usize) -> Duration {
        Duration::from_secs(120)
            + Duration::from_millis(50) * u32::try_from(vms).unwrap_or(u32::MAX)
    }
}

/// What all stages work with.
struct Bench {
    lab: Lab,
    plan: Plan,
    report: Report,
}

impl Bench {
    fn wants(&self, name: Name) -> bool {
        name.budget().is_some_and(|budget| self.plan.wants(budget))
    }

    /// Takes a figure, if it was asked for.
    fn figure(&mut self, name: Name, vms: usize, value: f64) {
        if let Some(budget) = name.budget().filter(|budget| self.plan.wants(budget)) {
            self.report.figure(budget, vms, value);
        }
    }
}

/// Measures, prints, and fails if a budget is exceeded.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let plan = Plan::of(&options);
    let mut report = Report::new(Circumstances::here(plan.vms, plan.large));
    let outcome = measure(&plan, &mut report).await;
    print(&options, &report)?;
    outcome?;
    if let Some(path) = &options.write_docs {
        docs::write(path, &report)?;
    }
    match report.over().as_slice() {
        [] => Ok(()),
        names => bail!(
            "Over budget: {}",
            names
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let guest = guest::requirements(plan)?;
    if plan.wants_any(OF_MANAGER) {
        on_lab(plan, report, MockConfig::default(), Arrangement::Plain).await?;
    }
    if plan.wants_any(&[Stage::Tasks]) {
        let config = stages::tasks::provider();
        on_lab(plan, report, config, Arrangement::Tasks).await?;
    }
    guest::run(plan, guest, report).await
}

/// What the provider of a lab is like, which decides what is measured there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrangement {
    /// It answers when the work is done.
    Plain,
    /// It answers with tasks.
    Tasks,
}

async fn on_lab(
    plan: &Plan,
    report: &mut Report,
    config: MockConfig,
    arrangement: Arrangement,
) -> anyhow::Result<()> {
    let mut bench = Bench {
        lab: Lab::start(config).await?,
        plan: plan.clone(),
        report: Report::new(report.circumstances.clone()),
    };
    let outcome = match arrangement {
        Arrangement::Plain => stages(&mut bench).await,
        Arrangement::Tasks => stages::tasks::run(&mut bench).await,
    };
    report.append(bench.report);
    outcome.with_context(|| {
        format!(
            "The log of the manager ends with:\n{}",
            bench.lab.manager.process.last_words()
        )
    })
}

async fn stages(bench: &mut Bench) -> anyhow::Result<()> {
    stages::create::run(bench).await?;
    if bench.plan.wants_any(&[Stage::Memory]) {
        stages::memory::run(bench)?;
    }
    if bench.plan.wants_any(&[Stage::Rest]) {
        stages::rest::run(bench).await?;
    }
    if bench.plan.wants_any(&[Stage::Drift]) {
        stages::drift::run(bench).await?;
    }
    if bench.plan.wants_any(&[Stage::Edit]) {
        stages::edit::run(bench).await?;
    }
    if bench.plan.wants_any(&[Stage::Large, Stage::Restart]) {
        stages::large::run(bench).await?;
    }
    if bench.plan.wants_any(&[Stage::Restart]) {
        stages::restart::run(bench).await?;
    }
    Ok(())
}

fn print(options: &Options, report: &Report) -> anyhow::Result<()> {
    let text = match options.output {
        Output::Table => report.table(),
        Output::Json => serde_json::to_string_pretty(&report.json())? + "\n",
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("Cannot write")
}
