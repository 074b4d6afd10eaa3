//! The pages of docs/reference that are made from the code. `UPDATE_GENERATED=1 cargo test -p polyvirt` writes them.

mod dialects;
mod fields;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::CommandFactory;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use polyvirt_admission::ReviewLabels;
use polyvirt_api::infra::{
    DriftKind, Provider, ProviderSpec, ProviderType, VirtualMachine, VirtualMachineSpec,
};
use polyvirt_contract::ErrorKind;
use polyvirt_engine::census::Census;
use polyvirt_engine::context::Stores;
use polyvirt_engine::metrics::{Circuit, KindLabel, Metrics, ProviderLabels};
use polyvirt_engine::runtime::queue::{Queue, Urgency};
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::kind;
use prometheus_client::registry::Registry;

use crate::cli::Cli;

const HEAD: &str = "<!-- Made from the code. Change the code, then run `make generate`. -->\n\n";

/// Name and text of each page.
fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("cli.md", cli()),
        ("conditions.md", conditions()),
        ("fields.md", fields::page()),
        ("metrics.md", metrics()),
        ("api.md", api()),
    ]
}

fn cli() -> String {
    let mut page = format!("{HEAD}# Command line\n");
    let mut command = Cli::command();
    command.build();
    help(&mut page, &mut command, "polyvirt", 2);
    page
}

fn help(page: &mut String, command: &mut clap::Command, path: &str, depth: usize) {
    let text = command.render_long_help().to_string();
    let _ = write!(
        page,
        "\n{} `{path}`\n\n```text\n{}\n```\n",
        "#".repeat(depth),
        text.trim_end()
    );
    for child in command
        .get_subcommands_mut()
        .filter(|c| !c.is_hide_set() && c.get_name() != "help")
    {
        let path = format!("{path} {}", child.get_name());
        help(page, child, &path, depth + 1);
    }
}

fn conditions() -> String {
    let kinds = [
        (
            kind::READY,
            "Every kind",
            "As declared. False: the reason says what is missing; `kubectl wait --for=condition=Ready` waits for it.",
        ),
        (kind::PROVISIONING, "VirtualMachine", "Being created."),
        (
            kind::RECONFIGURING,
            "VirtualMachine",
            "Size, disks or networks are being changed.",
        ),
        (
            kind::DELETING,
            "Every kind",
            "Being deleted; the message says what it waits for and how to force it.",
        ),
        (
            kind::DRIFTED,
            "VirtualMachine",
            "Somebody changed the VM on the hypervisor.",
        ),
        (
            kind::RESTART_REQUIRED,
            "VirtualMachine",
            "A change takes effect at the next restart.",
        ),
        (
            kind::FIELDS_HONOURED,
            "VirtualMachine, Provider, VMSnapshot, VMMigration, Machine, VirtualMachine of novacron.io",
            "False: some fields that are set have no effect on this provider, in this runtime mode or any more; the message names them. See [fields](fields.md).",
        ),
        (
            kind::REVERTED,
            "VirtualMachine",
            "The VM went back to the snapshot in spec.snapshot.revertToRef. False: it is on its way, or the reason says why not.",
        ),
        (
            kind::QUIESCED,
            "VMSnapshot",
            "The guest had written its buffers out when the snapshot was taken.",
        ),
        (kind::IMPORTING, "VMImage", "On its way to a provider."),
        (
            kind::RUNTIME_READY,
            "Provider",
            "The code that speaks to the hypervisor runs.",
        ),
        (kind::AVAILABLE, "Provider", "The hypervisor answers."),
        (
            "VirtualMachineReady",
            "Machine",
            "The VM exists: VMCreated. False: VMCreating, or VMFailed.",
        ),
        (
            "StorageReady",
            "Machine",
            "The disks are there: PVCBound. False: PVCPending.",
        ),
        (
            "NetworkReady",
            "Machine",
            "The networks are known: NetworkConfigured. False: NetworkFailed.",
        ),
        (
            "InfrastructureReady",
            "Machine",
            "The VM exists, in the word of cluster managers.",
        ),
        (
            "LiveMigratable",
            "VirtualMachine of novacron.io",
            "The VM may move while it runs: MigrationEnabled. False: MigrationDisabled.",
        ),
        (
            kind::CAPABILITIES,
            "Provider",
            "What the provider can do was read from it.",
        ),
    ];
    let mut page = format!(
        "{HEAD}# Conditions and reasons\n\n## Conditions\n\n| condition | on | meaning |\n|---|---|---|\n"
    );
    for (name, on, meaning) in kinds {
        let _ = writeln!(page, "| `{name}` | {on} | {meaning} |");
    }
    page.push_str("\n## Reasons\n\nOf conditions and of events.\n\n| reason | what it means, and what to do |\n|---|---|\n");
    for reason in Reason::ALL {
        let _ = writeln!(page, "| `{reason}` | {} |", reason.explanation().trim());
    }
    page
}

/// A family shows itself only once it has a sample, so each gets one.
fn sampled() -> Metrics {
    let metrics = Metrics::default();
    let provider = ProviderLabels {
        provider_type: "mock".into(),
        provider: "default/playground".into(),
    };
    metrics.pass("VirtualMachine", "success", Duration::ZERO);
    metrics.call(
        &provider,
        "Create",
        Err(ErrorKind::Unavailable),
        Duration::ZERO,
    );
    metrics.waited(Urgency::Event, Duration::ZERO);
    metrics.vm_ready("mock", Duration::ZERO);
    metrics.moves.ended("mock", "moved");
    metrics
        .moves
        .took("mock", Duration::ZERO, Some(Duration::ZERO));
    metrics.drift_corrected(&provider, DriftKind::Power);
    metrics.circuit(&provider, Circuit::Open);
    metrics.tasks(&provider, 1);
    metrics.unclaimed(&provider, 1);
    metrics.leads(polyvirt_pki::MANAGER_NAME);
    metrics.address_found(&provider, Duration::ZERO);
    metrics
        .objects
        .get_or_create(&KindLabel {
            kind: "VirtualMachine",
        })
        .set(1);
    metrics
}

/// One sample of each family.
fn sampled_reviews() -> polyvirt_admission::Metrics {
    let metrics = polyvirt_admission::Metrics::default();
    let labels = ReviewLabels {
        kind: "VirtualMachine",
        operation: "CREATE",
        verdict: "allowed",
    };
    metrics.reviewed("validate", &labels, Duration::ZERO);
    metrics
}

/// One VM on one Provider.
fn sampled_census() -> Census {
    let stores = Arc::<Stores>::default();
    let mut vm = VirtualMachine::new("web", VirtualMachineSpec::default());
    vm.spec.provider_ref.name = "playground".to_owned();
    stores.vms.watched(vm);
    let mut provider = Provider::new("playground", ProviderSpec::new(ProviderType::Mock));
    provider.metadata.namespace = Some("default".to_owned());
    stores.providers.watched(provider);
    Census::new(stores, Queue::new(1))
}

fn metrics() -> String {
    let mut registry = Registry::default();
    sampled().register(&mut registry);
    sampled_reviews().register(&mut registry);
    registry.register_collector(Box::new(sampled_census()));
    dialects::machines().register(&mut registry);
    dialects::vms_of_novacron().register(&mut registry);
    registry.register_collector(Box::new(dialects::figures_of_novacron()));
    let mut text = String::new();
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    let mut page = format!(
        "{HEAD}# Metrics\n\nServed by the manager on `/metrics` as OpenMetrics text.\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
    );
    let lines: Vec<_> = text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        let Some((name, meaning)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' '))
        else {
            continue;
        };
        let kind = lines
            .get(i + 1)
            .and_then(|l| l.rsplit(' ').next())
            .unwrap_or_default();
        let suffix = if kind == "counter" { "_total" } else { "" };
        let labels = lines.get(i + 2).map(|l| labels(l)).unwrap_or_default();
        let _ = writeln!(
            page,
            "| `{name}{suffix}` | {kind} | {labels} | {} |",
            meaning.trim_end_matches('.')
        );
    }
    page
}

/// The names of the labels of a sample.
fn labels(sample: &str) -> String {
    let inside = sample
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map_or("", |(inside, _)| inside);
    let names = inside
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, _)| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

fn api() -> String {
    let mut page = format!(
        "{HEAD}# API\n\nThe kinds of `infra.virtrigaud.io/v1beta1`, then those of `vitistack.io/v1alpha1` and `novacron.io/v1alpha1`. `*` marks a field that is required; `kubectl explain` tells the same.\n"
    );
    for crd in polyvirt_api::crds() {
        kind_page(&mut page, &crd);
    }
    page
}

fn kind_page(page: &mut String, crd: &CustomResourceDefinition) {
    let names = &crd.spec.names;
    let short = names.short_names.clone().unwrap_or_default().join(", ");
    // Two groups have VirtualMachines.
    let group = match crd.spec.group.as_str() {
        polyvirt_api::novacron::GROUP => format!(" ({})", crd.spec.group),
        _ => String::new(),
    };
    let _ = write!(page, "\n## {}{group}\n\n", names.kind);
    let schema = crd
        .spec
        .versions
        .first()
        .and_then(|v| v.schema.as_ref())
        .and_then(|s| s.open_api_v3_schema.as_ref());
    let Some(schema) = schema else { return };
    let _ = write!(
        page,
        "{} Plural `{}`, short `{short}`.\n\n| field | type | meaning |\n|---|---|---|\n",
        sentence(schema.description.as_deref()),
        names.plural
    );
    for part in ["spec", "status"] {
        if let Some(node) = schema.properties.as_ref().and_then(|p| p.get(part)) {
            fields(page, part, node);
        }
    }
}

/// Structures of Kubernetes itself are documented there; ours are shown to the last field.
fn fields(page: &mut String, path: &str, node: &JSONSchemaProps) {
    const FOREIGN: [&str; 6] = [
        "affinity",
        "livenessProbe",
        "readinessProbe",
        "securityContext",
        "env",
        "conditions",
    ];
    let required = node.required.clone().unwrap_or_default();
    for (name, child) in node.properties.iter().flatten() {
        let full = format!("{path}.{name}");
        let star = if required.contains(name) { "*" } else { "" };
        let _ = writeln!(
            page,
            "| `{full}`{star} | {} | {} |",
            type_of(child),
            sentence(child.description.as_deref()).replace('|', "\\|")
        );
        if !FOREIGN.contains(&name.as_str()) {
            below(page, &full, child);
        }
    }
}

fn below(page: &mut String, path: &str, node: &JSONSchemaProps) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    };
    fields(page, path, node);
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &node.items {
        fields(page, &format!("{path}[]"), item);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &node.additional_properties {
        fields(page, &format!("{path}.*"), value);
    }
}

fn type_of(node: &JSONSchemaProps) -> String {
    if let Some(values) = &node.enum_ {
        let words: Vec<_> = values
            .iter()
            .map(|v| v.0.as_str().map_or_else(|| v.0.to_string(), str::to_owned))
            .collect();
        return words.join(" \\| ");
    }
    let kind = node.type_.clone().unwrap_or_else(|| "quantity".to_owned());
    match &node.default {
        Some(default) => format!("{kind} = `{}`", default.0),
        None => kind,
    }
}

fn sentence(text: Option<&str>) -> String {
    text.unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_fresh() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        let update = std::env::var_os("UPDATE_GENERATED").is_some();
        for (name, text) in pages() {
            let path = folder.join(name);
            if update {
                std::fs::write(&path, &text).expect("written");
            }
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                there == text,
                "{} is old: run make generate",
                path.display()
            );
        }
    }

    #[test]
    fn every_kind_and_metric_is_there() {
        let api = api();
        assert_eq!(api.matches("\n## ").count(), 18);
        assert!(api.contains("| `spec.providerRef.name`* |"));
        assert!(metrics().contains("`virtrigaud_manager_reconcile_total`"));
        assert!(metrics().contains("`kubevirt_operator_machines_total`"));
        assert!(cli().contains("polyvirt provider"));
    }
}
