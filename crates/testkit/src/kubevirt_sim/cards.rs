//! Cards that come and go while a machine runs, as virt-controller and virt-handler treat them.

use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::cluster::{Kind, World};
use super::instance::told;
use super::machine::{TEMPLATE, list};

const CARDS: &str = "/domain/devices/interfaces";

/// Whether cards that the machine has were left out of the VirtualMachine, or are others there. Of cards that come KubeVirt says
/// nothing, though it plugs in only those on a bridge and those of SR-IOV.
pub(super) fn need_restart(vm: &DynamicObject, instance: &DynamicObject) -> bool {
    [CARDS, "/networks"].iter().any(|path| {
        let wanted = list(&vm.data, &format!("{TEMPLATE}{path}"));
        let has = list(&instance.data, &format!("/spec{path}"));
        let same = |card: &Value| {
            wanted
                .iter()
                .any(|other| stateless(other) == stateless(card))
        };
        !has.iter().all(same)
    })
}

fn stateless(card: &Value) -> Value {
    let mut card = card.clone();
    if let Some(fields) = card.as_object_mut() {
        fields.remove("state");
    }
    card
}

fn is_absent(card: &Value) -> bool {
    card["state"] == "absent"
}

fn named<'a>(cards: &'a [Value], name: &Value) -> Option<&'a Value> {
    cards.iter().find(|card| card["name"] == *name)
}

/// Plugs in what has come and unplugs what is called absent. What is out is struck from the VirtualMachine too.
pub(super) async fn bring(
    world: &World,
    vm: &DynamicObject,
    instance: &DynamicObject,
) -> kube::Result<()> {
    let has = list(&instance.data, &format!("/spec{CARDS}"));
    let cards = plugged(&list(&vm.data, &format!("{TEMPLATE}{CARDS}")), &has);
    if cards == has {
        return strike(world, vm, &has).await;
    }
    let all = [
        list(&instance.data, "/spec/networks"),
        list(&vm.data, &format!("{TEMPLATE}/networks")),
    ];
    let networks = of_cards(&all.concat(), &cards);
    let change = json!({
        "spec": {"networks": networks, "domain": {"devices": {"interfaces": cards}}},
        "status": {"interfaces": told(instance, &cards)},
    });
    world.change_as_read(Kind::Vmi, instance, change).await
}

/// The cards of the machine when all has been plugged in and out.
fn plugged(wanted: &[Value], has: &[Value]) -> Vec<Value> {
    let stays = |card: &&Value| !named(wanted, &card["name"]).is_some_and(is_absent);
    let comes = |card: &&Value| {
        let can = card.get("bridge").or(card.get("sriov")).is_some();
        can && !is_absent(card) && named(has, &card["name"]).is_none()
    };
    let stay = has.iter().filter(stays);
    stay.chain(wanted.iter().filter(comes)).cloned().collect()
}

/// The network of each of these cards.
fn of_cards(networks: &[Value], cards: &[Value]) -> Vec<Value> {
    let network = |card: &Value| named(networks, &card["name"]).cloned();
    cards.iter().filter_map(network).collect()
}

/// Strikes cards that are called absent, and that the machine does not have, from the VirtualMachine: like KubeVirt, some time
/// after they are out.
pub(super) async fn strike(world: &World, vm: &DynamicObject, has: &[Value]) -> kube::Result<()> {
    let wanted = list(&vm.data, &format!("{TEMPLATE}{CARDS}"));
    let stays = |card: &&Value| !is_absent(card) || named(has, &card["name"]).is_some();
    let kept: Vec<Value> = wanted.iter().filter(stays).cloned().collect();
    if kept == wanted {
        return Ok(());
    }
    tokio::time::sleep(world.step * 10).await;
    let networks = of_cards(&list(&vm.data, &format!("{TEMPLATE}/networks")), &kept);
    let change = json!({"spec": {"template": {"spec": {
        "networks": networks,
        "domain": {"devices": {"interfaces": kept}},
    }}}});
    world.change_as_read(Kind::Vm, vm, change).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_come_and_go_as_kubevirt_lets_them() {
        let card = |name: &str| json!({"name": name, "bridge": {}});
        let gone = json!({"name": "b", "bridge": {}, "state": "absent"});
        let pod = json!({"name": "p", "masquerade": {}});
        let wanted = [card("a"), gone, card("c"), pod];
        let becomes = plugged(&wanted, &[card("a"), card("b")]);
        assert_eq!(becomes, [card("a"), card("c")]);
    }
}
