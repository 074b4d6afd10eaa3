//! `polyvirt conformance`.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, bail};
use polyvirt_conformance::{Outcome, Profile, Verdict};
use polyvirt_contract::grpc::{self, Target, TlsFiles};

use crate::cli::Conformance;

/// Runs the suite against a provider at an address, and prints a line a check.
pub async fn run(options: Conformance) -> anyhow::Result<()> {
    let address = options.address.or(options.endpoint).unwrap_or_default();
    let mut target = Target::new(address.trim_start_matches("grpc://"));
    if let Some(folder) = options.tls_dir.clone() {
        let files = TlsFiles::in_directory(folder);
        target = target.with_tls(match &options.server_name {
            Some(name) => files.with_domain_name(name),
            None => files,
        });
    }
    let provider = grpc::connect(target).context("The address cannot be used")?;
    let mut profile = Profile::simulated().on_networks(&options.networks);
    if options.basic {
        profile = profile.basic();
    }
    let report = polyvirt_conformance::run_telling(Arc::new(provider), &profile, tell).await;
    if let Some(file) = &options.junit {
        std::fs::write(file, report.junit())
            .with_context(|| format!("Cannot write {}", file.display()))?;
    }
    let (failed, all) = (report.failures().count(), report.outcomes.len());
    let unasked = report.not_applicable().count();
    let passed = all - failed - unasked;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{passed} passed, {failed} failed, {unasked} not applicable"
    )?;
    match failed {
        0 => Ok(()),
        n => bail!("{n} of {all} checks failed"),
    }
}

/// A line for each check, as it ends.
fn tell(outcome: &Outcome) {
    let (word, why) = match &outcome.verdict {
        Verdict::Pass => ("ok", format!(" ({} ms)", outcome.took.as_millis())),
        Verdict::Fail(why) => ("FAILED", format!(": {why}")),
        Verdict::NotApplicable(why) => ("n/a", format!(": {why}")),
    };
    // Whoever closes the output has read enough.
    let _ = writeln!(std::io::stdout(), "{word:>6}  {}{why}", outcome.check);
}
