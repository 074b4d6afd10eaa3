//! What it costs to run a guest by Polyvirt instead of by hand.
//!
//! ```text
//!   bench ── VirtualMachine ──► kube-apiserver ── manager ── gRPC ── provider ── QEMU ── "GUEST ready"
//!   bench ── the same arguments, a disk over the same image ─────────────────── QEMU ── "GUEST ready"
//! ```

mod hand;
mod lab;
mod objects;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};

use super::Plan;
use super::budgets::{Budget, Name, Stage};
use super::report::{Report, number};
use super::stages::{percentile, seconds};
use crate::commands::stop_signal;
use hand::ByHand;
use lab::GuestLab;

/// What the test guest says when it is up.
const READY: &[u8] = b"GUEST ready";
/// How long anything may take, on the slowest of machines.
const LIMIT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(5);
/// VMs whose provider is measured.
const VMS: usize = 20;

/// Whether guests can be measured here.
pub enum Guests {
    /// From this image.
    From(PathBuf),
    /// Nobody asked.
    NotWanted,
    /// For this reason.
    Impossible(String),
}

/// Looks at once for all that will be needed later.
pub fn requirements(plan: &Plan) -> anyhow::Result<Guests> {
    if !plan.wants_any(&[Stage::Guest]) {
        return Ok(Guests::NotWanted);
    }
    for program in ["qemu-system-x86_64", "qemu-img"] {
        if !answers(program) {
            let reason = format!("{program} is not installed (on Debian: hack/packages.sh)");
            return Ok(Guests::Impossible(reason));
        }
    }
    let image = plan.image.as_ref();
    let Some(image) = image.filter(|path| !path.as_os_str().is_empty()) else {
        bail!(
            "The budgets of guests need the test guest: give its path with --image (hack/guest.sh prints it), or name other budgets with --only"
        );
    };
    let image = std::path::absolute(image)?;
    if !image.is_file() {
        bail!("There is no image at {}", image.display());
    }
    Ok(Guests::From(image))
}

fn answers(program: &str) -> bool {
    let answer = Command::new(program).arg("--version").output();
    answer.is_ok_and(|output| output.status.success())
}

/// Measures what was asked for; says why if that cannot be done.
pub async fn run(plan: &Plan, guests: Guests, report: &mut Report) -> anyhow::Result<()> {
    let image = match guests {
        Guests::From(image) => image,
        Guests::NotWanted => return Ok(()),
        Guests::Impossible(reason) => {
            report.fact("guest: not measured", reason);
            return Ok(());
        }
    };
    let lab = GuestLab::start(&image).await?;
    tokio::select! {
        outcome = measure(plan, &lab, report) => outcome.with_context(|| lab.last_words()),
        // QEMU does not end with the bench by itself; the lab sees to it when it is dropped.
        () = stop_signal() => Err(anyhow!("The bench was asked to stop")),
    }
}

async fn measure(plan: &Plan, lab: &GuestLab, report: &mut Report) -> anyhow::Result<()> {
    if let Some(budget) = wanted(plan, Name::GuestReady) {
        overhead(plan, lab, report, budget).await?;
    }
    if let Some(budget) = wanted(plan, Name::GuestMemory) {
        memory(lab, report, budget).await?;
    }
    Ok(())
}

fn wanted(plan: &Plan, name: Name) -> Option<&'static Budget> {
    name.budget().filter(|budget| plan.wants(budget))
}

/// The same guest both ways in turn, so that whatever else the machine does falls on both.
async fn overhead(
    plan: &Plan,
    lab: &GuestLab,
    report: &mut Report,
    budget: &Budget,
) -> anyhow::Result<()> {
    tracing::info!("preparing the image with a first guest");
    let by_hand = warm_up(lab).await?;
    let (mut applied, mut started) = (Vec::new(), Vec::new());
    for run in 1..=plan.pick(5, 3) {
        applied.push(seconds(lab.boot(&format!("run-{run}")).await?));
        lab.delete_all().await?;
        started.push(seconds(by_hand.boot().await?));
        tracing::info!(
            "guest ready: applied {} s, by hand {} s",
            number(applied[run - 1]),
            number(started[run - 1])
        );
    }
    let [median, floor] = [&mut applied, &mut started].map(|times| percentile(times, 50));
    report.figure(budget, 1, median / floor);
    report.fact(
        "guest: time until it was ready",
        format!("{} s, by hand {} s", number(median), number(floor)),
    );
    Ok(())
}

/// Has the image prepared, and learns what QEMU is started with.
async fn warm_up(lab: &GuestLab) -> anyhow::Result<ByHand> {
    lab.boot("first").await?;
    let by_hand = ByHand::like(lab)?;
    lab.delete_all().await?;
    Ok(by_hand)
}

/// The VMs have nothing to boot from, so that only the provider is at work.
async fn memory(lab: &GuestLab, report: &mut Report, budget: &Budget) -> anyhow::Result<()> {
    tracing::info!("starting {VMS} VMs");
    let before = lab.provider.memory()?;
    lab.run_idle(VMS).await?;
    let after = lab.provider.memory()?;
    report.figure(budget, VMS, after.resident);
    let text = format!(
        "{} MiB, peak {} MiB",
        number(before.resident),
        number(after.peak)
    );
    report.fact("guest: memory of the provider without VMs", text);
    lab.delete_all().await
}
