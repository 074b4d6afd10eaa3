//! The node that a VM goes to.
//!
//! ```text
//!   named by the declaration   required affinity, by the node's name: it starts nowhere else
//!   chosen by the manager      preferred affinity, and what it was chosen by as a required one: a node that is full, drained or
//!                              dead is left for another that meets it, and KubeVirt may move the VM as it needs to
//! ```
//!
//! Older versions wrote a selector on the node's label in both cases, which nailed the VM to it; a change or a move takes it off.
//! What was asked for is written down in the annotation [`PLACED`], for changes do not say it again.

use kube::core::DynamicObject;
use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_contract::model::{CreateVm, HostDemand, HostTerm, Placement};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kinds::{CREATING, HOSTNAME, PLACED, annotation, items};
use crate::map::to_kubevirt::put;

const SELECTOR: &str = "/spec/template/spec/nodeSelector/kubernetes.io~1hostname";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// How firmly a node is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Bond {
    /// Rather there than elsewhere.
    #[default]
    Rather,
    /// Nowhere else.
    Only,
}

/// Where a VM goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Seat {
    /// The node; empty for any.
    host: String,
    bond: Bond,
    /// The node meets one of these terms at least, as Kubernetes writes them; without any, every node will do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terms: Vec<Value>,
    /// The node that it was bound to until it was moved: what names that one is not heard again.
    #[serde(skip_serializing_if = "String::is_empty")]
    left: String,
}

impl Seat {
    /// Where a VM goes that this was asked for, and of which that is there.
    pub(crate) fn of(
        request: &CreateVm,
        options: &KubevirtOptions,
        live: Option<&DynamicObject>,
    ) -> Self {
        let asked = request.placement.as_ref().map(Self::asked);
        let asked = asked.unwrap_or_default();
        let Some(live) = live.filter(|live| annotation(live, CREATING).is_none()) else {
            return asked;
        };
        let was = match annotation(live, PLACED) {
            // The selector is somebody's own wish.
            None if options.node_selector.contains_key(HOSTNAME) => Self::default(),
            _ => Self::read(live),
        };
        if asked.host.is_empty() || asked.host == was.left {
            was
        } else {
            asked
        }
    }

    fn asked(placement: &Placement) -> Self {
        let chosen = placement.chosen.as_ref();
        Self {
            host: placement.host.clone(),
            bond: chosen.map_or(Bond::Only, |_| Bond::Rather),
            terms: chosen.iter().flat_map(|c| &c.terms).map(term).collect(),
            left: String::new(),
        }
    }

    /// What is written down, or the selector of an older version.
    pub(crate) fn read(live: &DynamicObject) -> Self {
        if let Some(written) = annotation(live, PLACED) {
            return serde_json::from_str(written).unwrap_or_default();
        }
        let pin = live.data.pointer(SELECTOR).and_then(Value::as_str);
        Self {
            host: pin.unwrap_or_default().to_owned(),
            ..Self::default()
        }
    }

    /// The same, when the VM is not bound to its node any more.
    pub(crate) fn freed(self) -> Self {
        Self {
            host: String::new(),
            bond: Bond::Rather,
            left: self.host,
            ..self
        }
    }

    /// As it is written down; `None` if nothing was asked for.
    pub(crate) fn text(&self) -> Option<String> {
        (*self != Self::default()).then(|| json!(self).to_string())
    }

    /// The affinity that somebody wishes, with what follows from the node.
    pub(crate) fn affinity(&self, wished: Option<&Value>) -> Value {
        let mut affinity = wished.cloned().unwrap_or_else(|| json!({}));
        let nodes = affinity.get("nodeAffinity").cloned();
        let mut nodes = nodes.unwrap_or_else(|| json!({}));
        let place = format!("/{REQUIRED}/nodeSelectorTerms");
        let required = self.required(items(&nodes, &place));
        if !required.is_empty() {
            nodes[REQUIRED] = json!({"nodeSelectorTerms": required});
        }
        let likes = items(&nodes, &format!("/{PREFERRED}")).iter().cloned();
        let preferred: Value = likes.chain(self.preference()).collect();
        put(&mut nodes, PREFERRED, preferred);
        put(&mut affinity, "nodeAffinity", nodes);
        affinity
    }

    fn required(&self, wished: &[Value]) -> Vec<Value> {
        let only = self.is_at(Bond::Only).then(|| vec![named(&self.host)]);
        let lists = [wished, &self.terms, only.as_deref().unwrap_or_default()];
        let said = lists.into_iter().filter(|list| !list.is_empty());
        said.fold(Vec::new(), |met: Vec<Value>, list| match met.as_slice() {
            [] => list.to_vec(),
            met => met
                .iter()
                .flat_map(|a| list.iter().map(move |b| both(a, b)))
                .collect(),
        })
    }

    fn preference(&self) -> Option<Value> {
        let rather = self.is_at(Bond::Rather);
        rather.then(|| json!({"weight": 100, "preference": named(&self.host)}))
    }

    fn is_at(&self, bond: Bond) -> bool {
        self.bond == bond && !self.host.is_empty()
    }
}

/// The one node that the spec of a machine lets it be at, by its name or its label; `None` if it may be at others.
pub(crate) fn bound_to(spec: &Value) -> Option<&str> {
    let selector = spec.get("nodeSelector").and_then(|s| s.get(HOSTNAME));
    let only = || {
        let mut names = required_of(spec).iter().map(only_name);
        let first = names.next()??;
        names.all(|name| name == Some(first)).then_some(first)
    };
    selector.and_then(Value::as_str).or_else(only)
}

/// The spec's selector and affinity without what binds it to one node.
pub(crate) fn freed(spec: &Value) -> (Value, Value) {
    let nothing = || json!({});
    let mut selector = spec.get("nodeSelector").cloned().unwrap_or_else(nothing);
    if let Some(labels) = selector.as_object_mut() {
        labels.remove(HOSTNAME);
    }
    let mut affinity = spec.get("affinity").cloned().unwrap_or_else(nothing);
    let kept: Vec<Value> = required_of(spec).iter().filter_map(without_name).collect();
    if let Some(nodes) = affinity
        .get_mut("nodeAffinity")
        .and_then(Value::as_object_mut)
    {
        nodes.remove(REQUIRED);
        if !kept.is_empty() {
            nodes.insert(REQUIRED.to_owned(), json!({"nodeSelectorTerms": kept}));
        }
    }
    (selector, affinity)
}

fn required_of(spec: &Value) -> &[Value] {
    items(
        spec,
        &format!("/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"),
    )
}

/// The name that a term demands.
fn only_name(term: &Value) -> Option<&str> {
    let demand = items(term, "/matchFields").iter().find(|d| binds(d))?;
    demand.pointer("/values/0").and_then(Value::as_str)
}

fn binds(demand: &Value) -> bool {
    demand["key"] == "metadata.name" && demand["operator"] == "In"
}

/// `None` if nothing is left of the term, which would be met by no node.
fn without_name(term: &Value) -> Option<Value> {
    let fields = items(term, "/matchFields").iter().filter(|d| !binds(d));
    let mut kept = json!({});
    put(&mut kept, "matchFields", fields.cloned().collect());
    put(
        &mut kept,
        "matchExpressions",
        term["matchExpressions"].clone(),
    );
    (kept != json!({})).then_some(kept)
}

fn named(host: &str) -> Value {
    json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [host]}]})
}

fn both(one: &Value, other: &Value) -> Value {
    let mut term = json!({});
    for list in ["matchExpressions", "matchFields"] {
        let place = format!("/{list}");
        let all = items(one, &place).iter().chain(items(other, &place));
        put(&mut term, list, all.cloned().collect());
    }
    term
}

fn term(term: &HostTerm) -> Value {
    let demands = |list: &[HostDemand]| list.iter().map(demand).collect::<Value>();
    let mut written = json!({});
    put(&mut written, "matchExpressions", demands(&term.labels));
    put(&mut written, "matchFields", demands(&term.name));
    written
}

fn demand(demand: &HostDemand) -> Value {
    let mut written = json!({"key": demand.key, "operator": demand.operator});
    put(&mut written, "values", json!(demand.values));
    written
}
