//! `polyvirt crds`.

use std::io::Write;

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use serde_json::json;

use super::manager;
use crate::cli::{Crds, Format};

/// Prints or applies the CustomResourceDefinitions.
pub async fn run(options: Crds) -> anyhow::Result<()> {
    if options.apply {
        return apply(&options).await;
    }
    let definitions = polyvirt_api::crds_with(options.vm_short_name.names());
    print(&text(options.output, &definitions)?)
}

/// As the chart does before it installs or upgrades the manager. Fields that others have set are taken over.
async fn apply(options: &Crds) -> anyhow::Result<()> {
    let client = manager::client(options.kubeconfig.as_deref()).await?;
    let definitions = polyvirt_api::crds_with(options.vm_short_name.names());
    let applied = polyvirt_testkit::apply_crds(&client, &definitions).await;
    applied.context("The CustomResourceDefinitions cannot be applied")?;
    let names: Vec<_> = definitions.iter().map(ResourceExt::name_any).collect();
    print(&names.join("\n"))
}

fn text(format: Format, definitions: &[CustomResourceDefinition]) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(&json!({
            "apiVersion": "v1",
            "kind": "List",
            "items": definitions,
        }))?,
        Format::Yaml => yaml(definitions)?,
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

fn yaml(definitions: &[CustomResourceDefinition]) -> anyhow::Result<String> {
    let documents: Result<Vec<_>, _> = definitions.iter().map(serde_saphyr::to_string).collect();
    let documents = documents.context("Cannot write YAML")?;
    let trimmed: Vec<_> = documents.iter().map(|d| d.trim_end()).collect();
    Ok(format!("---\n{}\n", trimmed.join("\n---\n")))
}
