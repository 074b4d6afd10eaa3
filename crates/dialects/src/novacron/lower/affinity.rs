//! Which nodes a VM wants: whether its words are known.

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
};

use super::error::LowerError;

const ROOT: &str = "spec.template.spec.affinity.nodeAffinity";
const VMS: &str = "spec.template.spec.affinity";

/// What the schema cannot say: operators, and how many values each takes.
pub(super) fn check(affinity: Option<&Affinity>) -> Result<(), LowerError> {
    let Some(affinity) = affinity else {
        return Ok(());
    };
    if let Some(nodes) = &affinity.node_affinity {
        check_nodes(nodes)?;
    }
    check_vms(affinity)
}

fn check_nodes(nodes: &NodeAffinity) -> Result<(), LowerError> {
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

/// Terms for other VMs, near and away, that must hold and that should.
fn check_vms(affinity: &Affinity) -> Result<(), LowerError> {
    let near = affinity.pod_affinity.as_ref();
    let away = affinity.pod_anti_affinity.as_ref();
    let lists = [
        (
            "podAffinity",
            near.map(|a| &a.required_during_scheduling_ignored_during_execution),
            near.map(|a| &a.preferred_during_scheduling_ignored_during_execution),
        ),
        (
            "podAntiAffinity",
            away.map(|a| &a.required_during_scheduling_ignored_during_execution),
            away.map(|a| &a.preferred_during_scheduling_ignored_during_execution),
        ),
    ];
    for (kind, required, preferred) in lists {
        let at = format!("{VMS}.{kind}");
        for (index, each) in required.into_iter().flatten().flatten().enumerate() {
            let list = "requiredDuringSchedulingIgnoredDuringExecution";
            vm_term(&format!("{at}.{list}[{index}]"), each)?;
        }
        for (index, each) in preferred.into_iter().flatten().flatten().enumerate() {
            let list = "preferredDuringSchedulingIgnoredDuringExecution";
            let at = format!("{at}.{list}[{index}].podAffinityTerm");
            vm_term(&at, &each.pod_affinity_term)?;
        }
    }
    Ok(())
}

fn vm_term(at: &str, term: &PodAffinityTerm) -> Result<(), LowerError> {
    if term.topology_key.trim().is_empty() {
        let message = "Say near to what: a label of hosts, such as kubernetes.io/hostname";
        return Err(LowerError::invalid(format!("{at}.topologyKey"), message));
    }
    let selector = term.label_selector.as_ref();
    let demands = selector.and_then(|s| s.match_expressions.as_ref());
    for (index, each) in demands.into_iter().flatten().enumerate() {
        let values = each.values.as_deref().unwrap_or_default();
        let advice = match each.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => "In and NotIn need values",
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                "Exists and DoesNotExist take no values"
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => continue,
            _ => {
                "There is no such operator for labels of VMs. Write In, NotIn, Exists or DoesNotExist"
            }
        };
        let field = format!("{at}.labelSelector.matchExpressions[{index}].operator");
        return Err(LowerError::invalid(field, advice));
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
