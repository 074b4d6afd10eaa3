//! What of the rules speaks of hosts alone, for a hypervisor that moves VMs by itself: it must go on to hold there.

use crate::labels::{Operator, Requirement};
use crate::rule::{NodeTerm, Rule};
use crate::world::Topology;

/// The key of a demand on the name of a host.
const NAME: &str = "metadata.name";

/// Terms of which a host must meet one, if it is to keep the rules about labels and names of hosts. None: there are no such
/// rules. Rules about other VMs and about what is free hold for one moment, and are not among them.
pub fn host_terms(rules: &[Rule]) -> Vec<NodeTerm> {
    let about_hosts = rules.iter().filter_map(alternatives);
    let all = about_hosts.fold(vec![NodeTerm::default()], |met, rule| {
        let pairs = met
            .iter()
            .flat_map(|term| rule.iter().map(move |other| (term, other)));
        pairs.map(|(term, other)| both(term, other)).collect()
    });
    all.into_iter().filter(says).collect()
}

fn says(term: &NodeTerm) -> bool {
    !term.labels.is_empty() || !term.name.is_empty()
}

fn both(one: &NodeTerm, other: &NodeTerm) -> NodeTerm {
    NodeTerm {
        labels: [one.labels.as_slice(), &other.labels].concat(),
        name: [one.name.as_slice(), &other.name].concat(),
    }
}

/// Each way to keep a rule; `None` for one that is not about a host alone.
fn alternatives(rule: &Rule) -> Option<Vec<NodeTerm>> {
    match rule {
        Rule::Labels(labels) => {
            let equal = labels
                .iter()
                .map(|(key, value)| Requirement::equals(key, value));
            Some(vec![of_labels(equal.collect())])
        }
        // A term that says nothing is met by no host.
        Rule::Nodes(terms) => Some(terms.iter().filter(|term| says(term)).cloned().collect()),
        Rule::Named(topology, names) => Some(named(topology, names.iter())),
        Rule::NotNamed(topology, names) => Some(vec![not_named(topology, names.iter())]),
        Rule::Feature(name) => {
            let discovered = format!("feature.node.kubernetes.io/{name}");
            Some([name.as_str(), &discovered].map(has).to_vec())
        }
        Rule::Near(_)
        | Rule::Away(_)
        | Rule::AtMost(..)
        | Rule::Network(_)
        | Rule::FreeCpus(_)
        | Rule::FreeMemory(_)
        | Rule::CpuUse(_)
        | Rule::MemoryUse(_) => None,
    }
}

fn of_labels(labels: Vec<Requirement>) -> NodeTerm {
    NodeTerm {
        labels,
        ..NodeTerm::default()
    }
}

/// The label is there and does not say no.
fn has(key: &str) -> NodeTerm {
    let demand = |operator, values| Requirement {
        key: key.to_owned(),
        operator,
        values,
    };
    let no = vec!["false".to_owned()];
    of_labels(vec![
        demand(Operator::Exists, Vec::new()),
        demand(Operator::NotIn, no),
    ])
}

/// One of these. Kubernetes compares a name with one value at a time.
fn named<'n>(topology: &Topology, names: impl Iterator<Item = &'n String>) -> Vec<NodeTerm> {
    match topology.label() {
        Some(key) => vec![of_labels(vec![Requirement {
            key: key.to_owned(),
            operator: Operator::In,
            values: names.cloned().collect(),
        }])],
        None => names.map(|name| of_name(&[name], Operator::In)).collect(),
    }
}

fn not_named<'n>(topology: &Topology, names: impl Iterator<Item = &'n String>) -> NodeTerm {
    match topology.label() {
        Some(key) => of_labels(vec![Requirement {
            key: key.to_owned(),
            operator: Operator::NotIn,
            values: names.cloned().collect(),
        }]),
        None => of_name(&names.collect::<Vec<_>>(), Operator::NotIn),
    }
}

fn of_name(names: &[&String], operator: Operator) -> NodeTerm {
    let demand = |name: &&String| Requirement {
        key: NAME.to_owned(),
        operator,
        values: vec![(*name).clone()],
    };
    NodeTerm {
        name: names.iter().map(demand).collect(),
        ..NodeTerm::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rule::{VmTerm, Who};

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn told(rules: &[Rule]) -> Vec<String> {
        let demand =
            |d: &Requirement| format!("{} {} {}", d.key, d.operator.word(), d.values.join("|"));
        let term = |term: &NodeTerm| {
            let all = term.labels.iter().chain(&term.name).map(demand);
            all.collect::<Vec<_>>().join(", ")
        };
        host_terms(rules).iter().map(term).collect()
    }

    #[test]
    fn only_what_is_about_hosts_goes_on_to_hold() {
        let labels = || Rule::Labels([("disk".to_owned(), "ssd".to_owned())].into());
        let fellows = VmTerm {
            who: Who::OfPolicy {
                namespace: "a".to_owned(),
                name: "b".to_owned(),
            },
            topology: Topology::Host,
        };
        let equal = |key: &str, value: &str| of_labels(vec![Requirement::equals(key, value)]);
        let either = || Rule::Nodes(vec![equal("zone", "a"), equal("zone", "b")]);
        for (rules, terms) in [
            (vec![], vec![]),
            (vec![Rule::Away(fellows), Rule::FreeCpus(2)], vec![]),
            (vec![labels()], vec!["disk In ssd"]),
            (
                vec![labels(), either()],
                vec!["disk In ssd, zone In a", "disk In ssd, zone In b"],
            ),
            (
                vec![Rule::Named(Topology::Host, set(&["n1", "n2"]))],
                vec!["metadata.name In n1", "metadata.name In n2"],
            ),
            (
                vec![Rule::NotNamed(Topology::Host, set(&["n1", "n2"]))],
                vec!["metadata.name NotIn n1, metadata.name NotIn n2"],
            ),
            (
                vec![Rule::Named(Topology::Zone, set(&["a", "b"]))],
                vec!["topology.kubernetes.io/zone In a|b"],
            ),
            (
                vec![Rule::Feature("sev".to_owned())],
                vec![
                    "sev Exists , sev NotIn false",
                    "feature.node.kubernetes.io/sev Exists , feature.node.kubernetes.io/sev NotIn false",
                ],
            ),
        ] {
            assert_eq!(told(&rules), terms, "{rules:?}");
        }
    }
}
