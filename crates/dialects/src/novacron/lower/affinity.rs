//! Which nodes a VM wants: whether its words are known.

use k8s_openapi::api::core::v1::{Affinity, NodeSelectorRequirement, NodeSelectorTerm};

use super::error::LowerError;

const ROOT: &str = "spec.template.spec.affinity.nodeAffinity";

/// What the schema cannot say: operators, and how many values each takes.
pub(super) fn check(affinity: Option<&Affinity>) -> Result<(), LowerError> {
    let Some(nodes) = affinity.and_then(|a| a.node_affinity.as_ref()) else {
        return Ok(());
    };
    let required = nodes
        .required_during_scheduling_ignored_during_execution
        .as_ref();
    for (index, each) in required
        .iter()
        .flat_map(|r| &r.node_selector_terms)
        .enumerate()
    {
        let at = format!(
            "{ROOT}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{index}]"
        );
        term(&at, each)?;
    }
    let preferred = nodes
        .preferred_during_scheduling_ignored_during_execution
        .as_ref();
    for (index, each) in preferred.into_iter().flatten().enumerate() {
        let at =
            format!("{ROOT}.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference");
        term(&at, &each.preference)?;
    }
    Ok(())
}

fn term(at: &str, term: &NodeSelectorTerm) -> Result<(), LowerError> {
    let lists = [
        ("matchExpressions", &term.match_expressions),
        ("matchFields", &term.match_fields),
    ];
    for (name, list) in lists {
        for (index, each) in list.iter().flatten().enumerate() {
            requirement(&format!("{at}.{name}[{index}]"), each)?;
        }
    }
    Ok(())
}

fn requirement(at: &str, wanted: &NodeSelectorRequirement) -> Result<(), LowerError> {
    let values = wanted.values.as_deref().unwrap_or_default();
    let is_number = |v: &String| v.parse::<i64>().is_ok();
    let advice = match wanted.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => "In and NotIn need values",
        "Exists" | "DoesNotExist" if !values.is_empty() => "Exists and DoesNotExist take no values",
        "Gt" | "Lt" if values.len() != 1 || !values.iter().all(is_number) => {
            "Gt and Lt need one value, a whole number"
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => return Ok(()),
        _ => "There is no such operator. Write In, NotIn, Exists, DoesNotExist, Gt or Lt",
    };
    Err(LowerError::invalid(format!("{at}.operator"), advice))
}
