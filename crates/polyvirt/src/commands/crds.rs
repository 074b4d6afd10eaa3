//! `polyvirt crds`.

use std::io::Write;

use anyhow::Context;
use serde_json::json;

use crate::cli::{Crds, Format};

/// Prints the CustomResourceDefinitions.
pub fn run(options: &Crds) -> anyhow::Result<()> {
    let text = match options.output {
        Format::Json => serde_json::to_string_pretty(&json!({
            "apiVersion": "v1",
            "kind": "List",
            "items": polyvirt_api::crds(),
        }))?,
        Format::Yaml => yaml()?,
    };
    match writeln!(std::io::stdout(), "{}", text.trim_end()) {
        // Whoever read has had enough: `polyvirt crds | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("Cannot write"),
    }
}

fn yaml() -> anyhow::Result<String> {
    let documents: Result<Vec<_>, _> = polyvirt_api::crds()
        .iter()
        .map(serde_saphyr::to_string)
        .collect();
    let documents = documents.context("Cannot write YAML")?;
    let trimmed: Vec<_> = documents.iter().map(|d| d.trim_end()).collect();
    Ok(format!("---\n{}\n", trimmed.join("\n---\n")))
}
