//! Rows that need no cluster: what the chart offers, and which fields the schema has.

use serde_json::{Value, json};

use super::at;

fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_chart_has_the_parameters_of_the_operators() {
    let text = std::fs::read_to_string(root().join("charts/polyvirt/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    for (path, default) in [
        ("image/pullPolicy", json!("IfNotPresent")),
        ("replicaCount", json!(1)),
        ("nodeSelector", json!({})),
        ("tolerations", json!([])),
        ("affinity", json!({})),
        // Without a tag that of the chart.
        ("image/tag", json!("")),
    ] {
        assert_eq!(*at(&values, path), default, "{path}");
    }
    for path in [
        "image/repository",
        "resources/limits/memory",
        "resources/requests/cpu",
        "resources/requests/memory",
    ] {
        assert!(!at(&values, path).is_null(), "{path}");
    }
}
