//! From a VMPlacementPolicy to rules and wishes.

use std::collections::BTreeSet;

use polyvirt_api::infra::{
    AffinityScope, ApplicationAffinity, PlacementAffinity, PlacementAntiAffinity,
    PlacementConstraints, ResourceConstraints, SecurityConstraints, TrustLevel, VMAffinity,
    VMAffinityTerm, VMLabelRequirement, VMPlacementPolicySpec,
};
use polyvirt_plan::quantity;

use crate::affinity::{InvalidAffinity, selector, within};
use crate::labels::{Operator, Requirement};
use crate::request::Wish;
use crate::rule::{NodeTerm, Rule, Selection, Subject, VmTerm, Who};
use crate::storage::Storage;
use crate::world::Topology;

/// The label that says how far a host is trusted.
const TRUST: &str = "polyvirt.io/trust-level";

/// What a policy asks for one VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// What must hold.
    pub rules: Vec<Rule>,
    /// What should hold.
    pub wishes: Vec<Wish>,
    /// Which datastores, and how much of them stays free.
    pub storage: Storage,
    /// The folder, where the VM names none.
    pub folder: Option<String>,
    /// The resource pool, where the VM names none.
    pub resource_pool: Option<String>,
}

/// What the policy of that name asks for this VM, which is in its namespace.
pub fn lower(
    name: &str,
    spec: &VMPlacementPolicySpec,
    vm: &Subject<'_>,
) -> Result<Demands, InvalidAffinity> {
    let weight = spec
        .weight
        .and_then(|w| u32::try_from(w).ok())
        .unwrap_or(1)
        .clamp(1, 100);
    let mut draft = Draft {
        name,
        vm,
        weight,
        demands: Demands::default(),
    };
    draft.constraints(spec.hard.as_ref(), AffinityScope::Strict);
    draft.constraints(spec.soft.as_ref(), AffinityScope::Preferred);
    draft.near(spec.affinity.as_deref())?;
    draft.away(spec.anti_affinity.as_deref())?;
    draft.resources(spec.resource_constraints.as_ref())?;
    draft.security(spec.security_constraints.as_ref());
    Ok(draft.demands)
}

/// What a policy keeps away from a VM that names it, whoever comes later.
pub fn kept_away(spec: &VMPlacementPolicySpec, vm: &Subject<'_>) -> Vec<VmTerm> {
    let away = spec
        .anti_affinity
        .as_deref()
        .and_then(|a| a.vm_anti_affinity.as_ref());
    let terms = away.into_iter().flat_map(|a| &a.required_during_scheduling);
    terms.filter_map(|term| vm_term(term, vm).ok()).collect()
}

struct Draft<'a> {
    name: &'a str,
    vm: &'a Subject<'a>,
    weight: u32,
    demands: Demands,
}

fn set(names: &[String]) -> BTreeSet<String> {
    names.iter().cloned().collect()
}

impl Draft<'_> {
    fn put(&mut self, scope: AffinityScope, rule: Rule) {
        match scope {
            AffinityScope::Strict => self.demands.rules.push(rule),
            AffinityScope::Preferred => {
                let weight = self.weight;
                self.demands.wishes.push(Wish { weight, rule });
            }
        }
    }

    fn constraints(&mut self, constraints: Option<&PlacementConstraints>, scope: AffinityScope) {
        let Some(c) = constraints else { return };
        self.named(scope, Topology::Cluster, &c.clusters, &c.excluded_clusters);
        self.named(scope, Topology::Host, &c.hosts, &c.excluded_hosts);
        self.named(scope, Topology::Zone, &c.zones, &[]);
        self.named(scope, Topology::Region, &c.regions, &[]);
        for network in &c.networks {
            self.put(scope, Rule::Network(network.clone()));
        }
        if !c.node_selector.is_empty() {
            self.put(scope, Rule::Labels(c.node_selector.clone()));
        }
        self.stores(scope, c);
        let first =
            |own: &Option<String>, names: &[String]| own.clone().or_else(|| names.first().cloned());
        self.demands.folder = first(&self.demands.folder, &c.folders);
        self.demands.resource_pool = first(&self.demands.resource_pool, &c.resource_pools);
    }

    fn named(
        &mut self,
        scope: AffinityScope,
        topology: Topology,
        wanted: &[String],
        excluded: &[String],
    ) {
        if !wanted.is_empty() {
            self.put(scope, Rule::Named(topology.clone(), set(wanted)));
        }
        if !excluded.is_empty() {
            self.put(scope, Rule::NotNamed(topology, set(excluded)));
        }
    }

    fn stores(&mut self, scope: AffinityScope, c: &PlacementConstraints) {
        let storage = &mut self.demands.storage;
        match scope {
            AffinityScope::Strict => {
                storage.allowed = set(&c.datastores);
                storage.excluded = set(&c.excluded_datastores);
            }
            AffinityScope::Preferred => storage.preferred = set(&c.datastores),
        }
    }

    fn near(&mut self, affinity: Option<&PlacementAffinity>) -> Result<(), InvalidAffinity> {
        let Some(a) = affinity else { return Ok(()) };
        if let Some(vms) = &a.vm_affinity {
            self.vms(vms, Rule::Near)?;
        }
        if let Some(hosts) = a.host_affinity.as_ref().filter(|a| a.enabled) {
            self.together(hosts.scope, Topology::Host, &hosts.preferred_hosts);
        }
        if let Some(clusters) = a.cluster_affinity.as_ref().filter(|a| a.enabled) {
            self.together(
                clusters.scope,
                Topology::Cluster,
                &clusters.preferred_clusters,
            );
        }
        if let Some(zones) = a.zone_affinity.as_ref().filter(|a| a.enabled) {
            self.together(zones.scope, Topology::Zone, &zones.preferred_zones);
        }
        self.application(a.application_affinity.as_ref(), Rule::Near);
        Ok(())
    }

    fn away(&mut self, anti: Option<&PlacementAntiAffinity>) -> Result<(), InvalidAffinity> {
        let Some(a) = anti else { return Ok(()) };
        if let Some(vms) = &a.vm_anti_affinity {
            self.vms(vms, Rule::Away)?;
        }
        if let Some(hosts) = a.host_anti_affinity.as_ref().filter(|a| a.enabled) {
            self.apart(hosts.scope, Topology::Host, hosts.max_vms_per_host);
        }
        if let Some(clusters) = a.cluster_anti_affinity.as_ref().filter(|a| a.enabled) {
            self.apart(
                clusters.scope,
                Topology::Cluster,
                clusters.max_vms_per_cluster,
            );
        }
        if let Some(zones) = a.zone_anti_affinity.as_ref().filter(|a| a.enabled) {
            self.apart(zones.scope, Topology::Zone, zones.max_vms_per_zone);
        }
        self.application(a.application_anti_affinity.as_ref(), Rule::Away);
        Ok(())
    }

    /// In the places that are named, or where the others of this policy are.
    fn together(&mut self, scope: Option<AffinityScope>, topology: Topology, names: &[String]) {
        let rule = if names.is_empty() {
            Rule::Near(self.fellows(topology))
        } else {
            Rule::Named(topology, set(names))
        };
        self.put(scope.unwrap_or(AffinityScope::Preferred), rule);
    }

    fn apart(&mut self, scope: Option<AffinityScope>, topology: Topology, most: Option<i32>) {
        let most = most
            .and_then(|most| usize::try_from(most).ok())
            .unwrap_or(1);
        let rule = Rule::AtMost(self.fellows(topology), most);
        self.put(scope.unwrap_or(AffinityScope::Preferred), rule);
    }

    fn fellows(&self, topology: Topology) -> VmTerm {
        let who = Who::OfPolicy {
            namespace: self.vm.namespace.to_owned(),
            name: self.name.to_owned(),
        };
        VmTerm { who, topology }
    }

    /// A VM without the label is of no application.
    fn application(&mut self, affinity: Option<&ApplicationAffinity>, rule: fn(VmTerm) -> Rule) {
        let Some(a) = affinity.filter(|a| a.enabled) else {
            return;
        };
        let Some(value) = self.vm.labels.get(&a.application_label) else {
            return;
        };
        let who = Who::Labelled(Selection {
            labels: Some(vec![Requirement::equals(&a.application_label, value)]),
            namespaces: BTreeSet::from([self.vm.namespace.to_owned()]),
            namespace_labels: None,
        });
        let term = VmTerm {
            who,
            topology: Topology::Host,
        };
        self.put(a.scope.unwrap_or(AffinityScope::Preferred), rule(term));
    }

    fn vms(
        &mut self,
        affinity: &VMAffinity,
        rule: fn(VmTerm) -> Rule,
    ) -> Result<(), InvalidAffinity> {
        for term in &affinity.required_during_scheduling {
            let term = vm_term(term, self.vm)?;
            self.demands.rules.push(rule(term));
        }
        for term in &affinity.preferred_during_scheduling {
            let weight = u32::try_from(term.weight).unwrap_or(1).clamp(1, 100);
            let rule = rule(vm_term(&term.vm_affinity_term, self.vm)?);
            self.demands.wishes.push(Wish { weight, rule });
        }
        Ok(())
    }

    fn resources(
        &mut self,
        constraints: Option<&ResourceConstraints>,
    ) -> Result<(), InvalidAffinity> {
        let Some(c) = constraints else { return Ok(()) };
        let number = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok());
        let invalid = |e: quantity::QuantityError| InvalidAffinity::Quantity(e.to_string());
        let memory = c.min_memory_per_host.as_ref().map(quantity::mebibytes);
        let disk = c.min_disk_space_per_host.as_ref().map(quantity::bytes_ceil);
        let rules = [
            number(c.min_cpu_per_host).map(Rule::FreeCpus),
            memory.transpose().map_err(invalid)?.map(Rule::FreeMemory),
            number(c.max_cpu_utilization).map(Rule::CpuUse),
            number(c.max_memory_utilization).map(Rule::MemoryUse),
        ];
        let features = c.required_features.iter().cloned().map(Rule::Feature);
        self.demands
            .rules
            .extend(rules.into_iter().flatten().chain(features));
        self.demands.storage.keep_free = disk.transpose().map_err(invalid)?.unwrap_or(0);
        self.demands.storage.most_used_percent = number(c.max_disk_utilization);
        for feature in &c.preferred_features {
            self.put(AffinityScope::Preferred, Rule::Feature(feature.clone()));
        }
        Ok(())
    }

    fn security(&mut self, constraints: Option<&SecurityConstraints>) {
        let Some(c) = constraints else { return };
        let features = [
            (c.require_secure_boot, "polyvirt.io/secure-boot"),
            (c.require_tpm, "polyvirt.io/tpm"),
            (c.require_encrypted_storage, "polyvirt.io/encrypted-storage"),
            (c.require_numa_topology, "polyvirt.io/numa-topology"),
        ];
        for (_, label) in features.into_iter().filter(|(needed, _)| *needed) {
            self.put(AffinityScope::Strict, Rule::Feature(label.to_owned()));
        }
        if let Some(level) = c.trust_level {
            self.put(AffinityScope::Strict, trusted(level));
        }
    }
}

/// Hosts that are trusted so far, or further. One that says nothing is not trusted.
fn trusted(level: TrustLevel) -> Rule {
    const LEVELS: [&str; 4] = ["untrusted", "basic", "trusted", "highly-trusted"];
    let least = match level {
        TrustLevel::Untrusted => 0,
        TrustLevel::Basic => 1,
        TrustLevel::Trusted => 2,
        TrustLevel::HighlyTrusted => 3,
    };
    let enough = Requirement {
        key: TRUST.to_owned(),
        operator: Operator::In,
        values: LEVELS.iter().skip(least).map(ToString::to_string).collect(),
    };
    Rule::Nodes(vec![NodeTerm {
        labels: vec![enough],
        name: Vec::new(),
    }])
}

fn vm_term(term: &VMAffinityTerm, vm: &Subject<'_>) -> Result<VmTerm, InvalidAffinity> {
    let selected = term.label_selector.as_ref().map(selector).transpose()?;
    let further = term.match_expressions.iter().map(requirement);
    let none = selected.is_none() && term.match_expressions.is_empty();
    let labels = (!none).then(|| {
        selected
            .unwrap_or_default()
            .into_iter()
            .chain(further)
            .collect()
    });
    let who = Selection {
        labels,
        ..within(
            &term.namespaces,
            term.namespace_selector.as_ref(),
            vm.namespace,
        )?
    };
    Ok(VmTerm {
        who: Who::Labelled(who),
        topology: Topology::parse(&term.topology_key),
    })
}

fn requirement(demand: &VMLabelRequirement) -> Requirement {
    use polyvirt_api::infra::LabelOperator;
    Requirement {
        key: demand.key.clone(),
        operator: match demand.operator {
            LabelOperator::In => Operator::In,
            LabelOperator::NotIn => Operator::NotIn,
            LabelOperator::Exists => Operator::Exists,
            LabelOperator::DoesNotExist => Operator::DoesNotExist,
        },
        values: demand.values.clone(),
    }
}
