//! Cards that leave a machine while it runs.
//!
//! KubeVirt unplugs a card that its VirtualMachine calls absent, and strikes it from the VirtualMachine when it is out. A card that
//! is simply left out stays in the machine until the next start. It does that for cards on a bridge that have a network of
//! their own, and for none that was plugged by a KubeVirt that counted cards instead of naming them.

use serde_json::{Value, json};

use crate::kinds::{items, text};
use crate::map::cards::Card;

/// The state that asks KubeVirt to unplug a card.
const ABSENT: &str = "absent";
const INTERFACES: &str = "/domain/devices/interfaces";

/// A card that is to be unplugged, as the VirtualMachine names it until it is out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) interface: Value,
    pub(crate) network: Value,
}

/// Whether a VM, or a machine that runs, still names a card that is to be unplugged.
pub(crate) fn is_unplugging(object: &Value) -> bool {
    let places = ["/spec/template/spec", "/spec"];
    let cards = |place: &&str| items(object, &format!("{place}{INTERFACES}"));
    let mut cards = places.iter().flat_map(cards);
    cards.any(|card| text(card, "/state") == ABSENT)
}

/// The cards that the machine has, that do not stay, and that KubeVirt can unplug.
pub(crate) fn leaving(vm: &Value, instance: &Value, stay: &[Card]) -> Vec<Leaving> {
    let networks = items(vm, "/spec/template/spec/networks");
    let goes = |card: &&Value| {
        let name = text(card, "/name");
        !stay.iter().any(|card| card.name == name) && is_plugged(instance, name)
    };
    let leaves = |card: &Value| {
        let network = named(networks, text(card, "/name"))?;
        let mut interface = card.clone();
        interface["state"] = json!(ABSENT);
        can_leave(card, network).then(|| Leaving {
            interface,
            network: network.clone(),
        })
    };
    let cards = items(vm, &format!("/spec/template/spec{INTERFACES}")).iter();
    cards.filter(goes).filter_map(leaves).collect()
}

/// Whether a card of a VirtualMachine comes and goes while the machine runs. What a machine boots from does not.
fn can_leave(card: &Value, network: &Value) -> bool {
    let multus = network.get("multus");
    let first = network.pointer("/multus/default") == Some(&json!(true));
    card.get("bridge").is_some() && card.get("bootOrder").is_none() && multus.is_some() && !first
}

fn is_plugged(instance: &Value, name: &str) -> bool {
    let told = named(items(instance, "/status/interfaces"), name);
    let counted = told.is_some_and(|card| is_counted(text(card, "/podInterfaceName")));
    named(items(instance, &format!("/spec{INTERFACES}")), name).is_some() && !counted
}

/// Whether the pod's interface has a number for a name, as those of KubeVirt before 1.0 have.
fn is_counted(interface: &str) -> bool {
    let number = interface.strip_prefix("net").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn named<'a>(entries: &'a [Value], name: &str) -> Option<&'a Value> {
    entries.iter().find(|entry| text(entry, "/name") == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(vm: &Value, instance: &Value) -> Vec<String> {
        let all = leaving(vm, instance, &[]);
        let name = |card: &Leaving| text(&card.interface, "/name").to_owned();
        all.iter().map(name).collect()
    }

    fn machine(card: &Value, network: &Value) -> (Value, Value) {
        let spec = json!({"networks": [network], "domain": {"devices": {"interfaces": [card]}}});
        let told = json!([{"name": "a", "podInterfaceName": "pod37a8eec1ce1"}]);
        (
            json!({"spec": {"template": {"spec": spec}}}),
            json!({"spec": spec, "status": {"interfaces": told}}),
        )
    }

    #[test]
    fn only_cards_on_a_bridge_of_their_own_leave_a_running_machine() {
        let multus = json!({"name": "a", "multus": {"networkName": "lan"}});
        let pod = json!({"name": "a", "pod": {}});
        let first = json!({"name": "a", "multus": {"networkName": "lan", "default": true}});
        let bridge = json!({"name": "a", "bridge": {}});
        let boots = json!({"name": "a", "bridge": {}, "bootOrder": 2});
        for (card, network, leaves) in [
            (&bridge, &multus, true),
            (&json!({"name": "a", "sriov": {}}), &multus, false),
            (&json!({"name": "a", "masquerade": {}}), &pod, false),
            (&bridge, &pod, false),
            (&bridge, &first, false),
            (&boots, &multus, false),
        ] {
            let (vm, instance) = machine(card, network);
            assert_eq!(names(&vm, &instance).len(), usize::from(leaves), "{card}");
        }
        let (vm, instance) = machine(&bridge, &multus);
        assert_eq!(
            leaving(&vm, &instance, &[])[0].interface,
            json!({"name": "a", "bridge": {}, "state": "absent"})
        );
    }

    #[test]
    fn a_card_that_the_machine_does_not_have_is_struck_at_once() {
        let card = json!({"name": "a", "bridge": {}});
        let (vm, mut instance) = machine(&card, &json!({"name": "a", "multus": {}}));
        instance["status"]["interfaces"][0]["podInterfaceName"] = json!("net1");
        assert_eq!(names(&vm, &instance), Vec::<String>::new(), "a number");
        assert_eq!(names(&vm, &json!({})), Vec::<String>::new());
    }
}
