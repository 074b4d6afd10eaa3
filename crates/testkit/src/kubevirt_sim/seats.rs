//! The node of a machine, as the scheduler of Kubernetes chooses it: by selector and affinity, as far as they name nodes.

use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::FAULT;
use super::cluster::{Kind, NODES, World};
use super::machine::{TEMPLATE, list};
use kube::ResourceExt as _;

const SELECTOR: &str = "/nodeSelector/kubernetes.io~1hostname";
const REQUIRED: &str =
    "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
const PREFERRED: &str = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";

/// Where a machine of this spec starts; of equal nodes the one with this number. `None`: no node will do.
pub(super) fn start(spec: &Value, number: usize) -> Option<&'static str> {
    let allowed: Vec<&str> = NODES.into_iter().filter(|node| may(spec, node)).collect();
    let wishes = list(spec, PREFERRED);
    let liked = |node: &&&str| wishes.iter().any(|wish| meets(&wish["preference"], node));
    let best = allowed.iter().find(liked).copied();
    best.or_else(|| allowed.get(number % allowed.len().max(1)).copied())
}

/// Where a machine moves to that is there. What is asked for adds to what the machine says; where both speak of the same label,
/// the machine is heard.
pub(super) fn target(spec: &Value, asked: Option<&str>, source: &str) -> Option<&'static str> {
    let own = spec.pointer(SELECTOR).and_then(Value::as_str);
    let wanted = |node: &&str| own.or(asked).is_none_or(|wanted| wanted == *node);
    let others = NODES.into_iter().filter(|node| *node != source);
    others.filter(wanted).find(|node| may(spec, node))
}

fn may(spec: &Value, node: &str) -> bool {
    let selector = spec.pointer(SELECTOR).and_then(Value::as_str);
    let terms = list(spec, REQUIRED);
    let fits = terms.is_empty() || terms.iter().any(|term| meets(term, node));
    selector.is_none_or(|wanted| wanted == node) && fits
}

/// Labels are not looked at: all nodes have the same.
fn meets(term: &Value, node: &str) -> bool {
    let demands = list(term, "/matchFields");
    demands.iter().all(|demand| {
        let named = demand["values"][0] == node;
        named == (demand["operator"] == "In")
    })
}

/// Brings selector and affinity to a machine that runs, as KubeVirt does unless it keeps changes for a restart.
pub(super) async fn bring(
    world: &World,
    vm: &DynamicObject,
    instance: &DynamicObject,
) -> kube::Result<()> {
    let mut change = json!({});
    for field in ["nodeSelector", "affinity"] {
        let wanted = vm.data.pointer(&format!("{TEMPLATE}/{field}"));
        let has = instance.data.pointer(&format!("/spec/{field}"));
        if wanted != has {
            change[field] = exchange(has, wanted);
        }
    }
    let staged = vm
        .annotations()
        .get(FAULT)
        .is_some_and(|fault| fault == "Staged");
    if staged || change == json!({}) {
        return Ok(());
    }
    world
        .change(Kind::Vmi, instance, &json!({"spec": change}))
        .await
}

/// The merge patch that makes one value of the other.
fn exchange(has: Option<&Value>, wanted: Option<&Value>) -> Value {
    let (Some(Value::Object(old)), Some(Value::Object(new))) = (has, wanted) else {
        return wanted.cloned().unwrap_or_default();
    };
    let keys = old.keys().chain(new.keys());
    let one = |key: &String| (key.clone(), exchange(old.get(key), new.get(key)));
    Value::Object(keys.map(one).collect())
}
