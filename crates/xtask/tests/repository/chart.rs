//! The Helm chart holds together: no value without a use, no use without a value, no alert without a runbook.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{read, root};

fn values() -> Value {
    serde_saphyr::from_str(&read("charts/polyvirt/values.yaml")).unwrap()
}

fn templates() -> String {
    let folder = std::fs::read_dir(root().join("charts/polyvirt/templates")).unwrap();
    let texts = folder.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    texts.collect()
}

/// The words that begin after each `mark` and go on as long as `part` holds.
fn words(text: &str, mark: &str, part: fn(char) -> bool) -> BTreeSet<String> {
    let rests = text
        .match_indices(mark)
        .map(|(at, _)| &text[at + mark.len()..]);
    let words = rests.map(|rest| rest.split(|c| !part(c)).next().unwrap_or_default());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The paths of values that templates read, such as `image.tag`.
fn used() -> BTreeSet<String> {
    let found = words(&templates(), "Values.", |c| c.is_alphanumeric() || c == '.');
    found
        .iter()
        .map(|path| path.trim_end_matches('.').to_owned())
        .collect()
}

/// The paths of all values that hold no further ones.
fn leaves(value: &Value, path: &str, into: &mut Vec<String>) {
    match value.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => fields
            .iter()
            .for_each(|(name, inner)| leaves(inner, &below(path, name), into)),
        None => into.push(path.to_owned()),
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[test]
fn every_value_is_used() {
    let used = used();
    let mut all = Vec::new();
    leaves(&values(), "", &mut all);
    let within = |leaf: &str, path: &str| leaf == path || leaf.starts_with(&format!("{path}."));
    let dead: Vec<_> = all
        .iter()
        .filter(|leaf| !used.iter().any(|path| within(leaf, path)))
        .collect();
    assert!(
        dead.is_empty(),
        "values.yaml promises what no template reads: {dead:?}"
    );
}

#[test]
fn every_use_has_a_value() {
    let values = values();
    let known = |path: &str| {
        values
            .pointer(&format!("/{}", path.replace('.', "/")))
            .is_some()
    };
    let unknown: Vec<_> = used().into_iter().filter(|path| !known(path)).collect();
    assert!(
        unknown.is_empty(),
        "templates read what values.yaml does not have: {unknown:?}"
    );
}

#[test]
fn the_schema_knows_each_value_and_no_other() {
    let schema: Value = serde_json::from_str(&read("charts/polyvirt/values.schema.json")).unwrap();
    same_keys(&values(), &schema, "");
}

fn same_keys(value: &Value, schema: &Value, path: &str) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let in_schema: Vec<_> = properties.keys().collect();
    let in_values: Vec<_> = value.as_object().unwrap().keys().collect();
    let sorted = |mut names: Vec<&String>| {
        names.sort();
        names.into_iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        sorted(in_values),
        sorted(in_schema),
        "values and schema differ at {path:?}"
    );
    for (name, inner) in properties {
        same_keys(&value[name], inner, &below(path, name));
    }
}

#[test]
fn every_alert_has_a_runbook() {
    let rules = read("charts/polyvirt/templates/prometheusrule.yaml");
    let runbooks = read("docs/howto/runbooks.md");
    let alerts = words(&rules, "alert: ", char::is_alphanumeric);
    assert!(!alerts.is_empty());
    for alert in alerts {
        assert!(
            runbooks.contains(&format!("\n## {alert}\n")),
            "no runbook for {alert}"
        );
        let anchor = format!("#{}\n", alert.to_lowercase());
        assert!(rules.contains(&anchor), "{alert} does not name its runbook");
    }
}

#[test]
fn alerts_and_dashboard_use_metrics_that_exist() {
    let known = words(&read("docs/reference/metrics.md"), "| `", |c| {
        c.is_alphanumeric() || c == '_'
    });
    let rules = read("charts/polyvirt/templates/prometheusrule.yaml");
    let dashboard = read("charts/polyvirt/dashboards/polyvirt.json");
    serde_json::from_str::<Value>(&dashboard).unwrap();
    for prefix in [
        "virtrigaud_",
        "leader_election_",
        "kubevirt_operator_",
        "novacron_",
    ] {
        for rest in words(&(rules.clone() + &dashboard), prefix, |c| {
            c.is_alphanumeric() || c == '_'
        }) {
            let name = format!("{prefix}{}", rest.trim_end_matches("_bucket"));
            assert!(known.contains(&name), "{name} is no metric of the manager");
        }
    }
}

#[test]
fn roles_for_guests_are_those_of_the_plain_manifests() {
    let chart = read("config/default/polyvirt.yaml");
    let plain = read("config/rbac/guests.yaml");
    let rules = plain
        .lines()
        .filter(|line| line.starts_with("  - apiGroups") || line.starts_with("    "));
    for rule in rules.filter(|line| !line.contains("aggregate-to")) {
        assert!(chart.contains(rule), "the chart lacks: {rule}");
    }
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart: Value = serde_saphyr::from_str(&read("charts/polyvirt/Chart.yaml")).unwrap();
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}
