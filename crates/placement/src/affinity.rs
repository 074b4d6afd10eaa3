//! From the affinity of Kubernetes to rules and wishes. Where Kubernetes says pod, a VirtualMachine is meant.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use thiserror::Error;

use crate::labels::{Operator, Requirement};
use crate::request::Wish;
use crate::rule::{NodeTerm, Rule, Selection, Subject, VmTerm, Who};
use crate::world::Topology;

/// An affinity that cannot be followed as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidAffinity {
    /// No such operator.
    #[error(
        "{0:?} is no operator. Use In, NotIn, Exists or DoesNotExist, and for labels of hosts also Gt or Lt"
    )]
    Operator(String),
    /// Only the name of a host is known.
    #[error("Field {0:?} of hosts is not known. Use metadata.name, or match labels")]
    Field(String),
    /// Near to what, or away from what, is not said.
    #[error(
        "A term for other VMs has no topologyKey. Write a label of hosts, such as kubernetes.io/hostname"
    )]
    Topology,
    /// A number or size that cannot be read.
    #[error("{0}")]
    Quantity(String),
}

/// What must hold and what should.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lowered {
    /// What must hold.
    pub rules: Vec<Rule>,
    /// What should hold.
    pub wishes: Vec<Wish>,
}

/// The rules and wishes of an affinity, for this VM.
pub fn lower(affinity: &Affinity, vm: &Subject<'_>) -> Result<Lowered, InvalidAffinity> {
    let mut lowered = Lowered::default();
    if let Some(nodes) = &affinity.node_affinity {
        lowered.hosts(nodes)?;
    }
    if let Some(near) = &affinity.pod_affinity {
        let required = near
            .required_during_scheduling_ignored_during_execution
            .iter()
            .flatten();
        let preferred = near
            .preferred_during_scheduling_ignored_during_execution
            .iter()
            .flatten();
        lowered.vms(required, preferred, vm, Rule::Near)?;
    }
    if let Some(away) = &affinity.pod_anti_affinity {
        let required = away
            .required_during_scheduling_ignored_during_execution
            .iter()
            .flatten();
        let preferred = away
            .preferred_during_scheduling_ignored_during_execution
            .iter()
            .flatten();
        lowered.vms(required, preferred, vm, Rule::Away)?;
    }
    Ok(lowered)
}

/// The VMs that a VM with this affinity must not share a place with. Terms that cannot be read keep nobody away.
pub fn kept_away(affinity: &Affinity, vm: &Subject<'_>) -> Vec<VmTerm> {
    let away = affinity.pod_anti_affinity.as_ref();
    let terms = away.and_then(|a| {
        a.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    terms
        .into_iter()
        .flatten()
        .filter_map(|term| vm_term(term, vm).ok())
        .collect()
}

impl Lowered {
    fn hosts(&mut self, affinity: &NodeAffinity) -> Result<(), InvalidAffinity> {
        if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
            let terms = required.node_selector_terms.iter().map(node_term);
            self.rules
                .push(Rule::Nodes(terms.collect::<Result<_, _>>()?));
        }
        for term in affinity
            .preferred_during_scheduling_ignored_during_execution
            .iter()
            .flatten()
        {
            let rule = Rule::Nodes(vec![node_term(&term.preference)?]);
            self.wishes.push(wish(term.weight, rule));
        }
        Ok(())
    }

    fn vms<'t>(
        &mut self,
        required: impl Iterator<Item = &'t PodAffinityTerm>,
        preferred: impl Iterator<Item = &'t WeightedPodAffinityTerm>,
        vm: &Subject<'_>,
        rule: fn(VmTerm) -> Rule,
    ) -> Result<(), InvalidAffinity> {
        for term in required {
            self.rules.push(rule(vm_term(term, vm)?));
        }
        for term in preferred {
            let term_rule = rule(vm_term(&term.pod_affinity_term, vm)?);
            self.wishes.push(wish(term.weight, term_rule));
        }
        Ok(())
    }
}

fn wish(weight: i32, rule: Rule) -> Wish {
    let weight = u32::try_from(weight).unwrap_or(1).clamp(1, 100);
    Wish { weight, rule }
}

fn node_term(term: &NodeSelectorTerm) -> Result<NodeTerm, InvalidAffinity> {
    let demands = |list: &Option<Vec<NodeSelectorRequirement>>| {
        let list = list.iter().flatten();
        list.map(|d| requirement(&d.key, &d.operator, d.values.as_ref()))
            .collect::<Result<Vec<_>, _>>()
    };
    let name = demands(&term.match_fields)?;
    match name.iter().find(|demand| demand.key != "metadata.name") {
        Some(other) => Err(InvalidAffinity::Field(other.key.clone())),
        None => Ok(NodeTerm {
            labels: demands(&term.match_expressions)?,
            name,
        }),
    }
}

fn requirement(
    key: &str,
    operator: &str,
    values: Option<&Vec<String>>,
) -> Result<Requirement, InvalidAffinity> {
    let known = Operator::parse(operator);
    Ok(Requirement {
        key: key.to_owned(),
        operator: known.ok_or_else(|| InvalidAffinity::Operator(operator.to_owned()))?,
        values: values.cloned().unwrap_or_default(),
    })
}

fn vm_term(term: &PodAffinityTerm, vm: &Subject<'_>) -> Result<VmTerm, InvalidAffinity> {
    if term.topology_key.trim().is_empty() {
        return Err(InvalidAffinity::Topology);
    }
    let labels = term.label_selector.as_ref().map(selector).transpose()?;
    let own = |keys: &Option<Vec<String>>, operator| own_values(keys.as_ref(), operator, vm.labels);
    let same = own(&term.match_label_keys, Operator::In);
    let other = own(&term.mismatch_label_keys, Operator::NotIn);
    let labels = labels.map(|list| list.into_iter().chain(same).chain(other).collect());
    let namespaces = term.namespaces.clone().unwrap_or_default();
    let who = Selection {
        labels,
        ..within(&namespaces, term.namespace_selector.as_ref(), vm.namespace)?
    };
    Ok(VmTerm {
        who: Who::Labelled(who),
        topology: Topology::parse(&term.topology_key),
    })
}

/// Demands that a label is, or is not, as it is on the VM itself. Labels that it does not have demand nothing.
fn own_values(
    keys: Option<&Vec<String>>,
    operator: Operator,
    labels: &BTreeMap<String, String>,
) -> Vec<Requirement> {
    let known = keys
        .into_iter()
        .flatten()
        .filter_map(|key| Some((key, labels.get(key)?)));
    known
        .map(|(key, value)| Requirement {
            key: key.clone(),
            operator,
            values: vec![value.clone()],
        })
        .collect()
}

/// The namespaces of a term; without any, that of the VM itself.
pub(crate) fn within(
    namespaces: &[String],
    labels: Option<&LabelSelector>,
    own: &str,
) -> Result<Selection, InvalidAffinity> {
    let demands = labels.map(selector).transpose()?;
    let mut names: BTreeSet<String> = namespaces.iter().cloned().collect();
    if names.is_empty() && demands.is_none() {
        names.insert(own.to_owned());
    }
    Ok(Selection {
        labels: None,
        namespaces: names,
        namespace_labels: demands,
    })
}

/// The demands of a label selector.
pub(crate) fn selector(selector: &LabelSelector) -> Result<Vec<Requirement>, InvalidAffinity> {
    let equal = selector.match_labels.iter().flatten();
    let mut demands: Vec<_> = equal
        .map(|(key, value)| Requirement::equals(key, value))
        .collect();
    for demand in selector.match_expressions.iter().flatten() {
        let read = requirement(&demand.key, &demand.operator, demand.values.as_ref())?;
        if matches!(read.operator, Operator::Gt | Operator::Lt) {
            return Err(InvalidAffinity::Operator(demand.operator.clone()));
        }
        demands.push(read);
    }
    Ok(demands)
}
