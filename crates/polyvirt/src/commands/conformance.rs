//! `polyvirt conformance`.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, bail};
use polyvirt_conformance::{Profile, Verdict};
use polyvirt_contract::grpc::{self, Target, TlsFiles};

use crate::cli::Conformance;

/// Runs the suite against a provider at an address, and prints a line a check.
pub async fn run(options: Conformance) -> anyhow::Result<()> {
    let mut target = Target::new(&options.address);
    if let Some(folder) = options.tls_dir.clone() {
        let files = TlsFiles::in_directory(folder);
        target = target.with_tls(match &options.server_name {
            Some(name) => files.with_domain_name(name),
            None => files,
        });
    }
    let provider = grpc::connect(target).context("The address cannot be used")?;
    let profile = if options.basic {
        Profile::simulated().basic()
    } else {
        Profile::simulated()
    };
    let report = polyvirt_conformance::run(Arc::new(provider), &profile).await;
    let mut out = std::io::stdout().lock();
    for outcome in &report.outcomes {
        let (word, why) = match &outcome.verdict {
            Verdict::Pass => ("ok", String::new()),
            Verdict::Fail(why) => ("FAILED", format!(": {why}")),
            Verdict::NotApplicable(why) => ("n/a", format!(": {why}")),
        };
        writeln!(out, "{word:>6}  {}{why}", outcome.check)?;
    }
    match report.failures().count() {
        0 => Ok(()),
        n => bail!("{n} of {} checks failed", report.outcomes.len()),
    }
}
