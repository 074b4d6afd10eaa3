//! `polyvirt crds`.

use std::io::Write;

use anyhow::Context;
use kube::ResourceExt;
use serde_json::json;

use super::manager;
use crate::cli::{Crds, Format};

/// Prints or applies the CustomResourceDefinitions.
pub async fn run(options: Crds) -> anyhow::Result<()> {
    if options.apply {
        return apply(&options).await;
    }
    print(&text(options.output)?)
}

/// As the chart does before it installs or upgrades the manager. Fields that others have set are taken over.
async fn apply(options: &Crds) -> anyhow::Result<()> {
    let client = manager::client(options.kubeconfig.as_deref()).await?;
    let definitions = polyvirt_api::crds();
    let applied = polyvirt_testkit::apply_crds(&client, &definitions).await;
    applied.context("The CustomResourceDefinitions cannot be applied")?;
    let names: Vec<_> = definitions.iter().map(ResourceExt::name_any).collect();
    print(&names.join("\n"))
}

fn text(format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(&json!({
            "apiVersion": "v1",
            "kind": "List",
            "items": polyvirt_api::crds(),
        }))?,
        Format::Yaml => yaml()?,
    })
}

/// Writes to the standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
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
