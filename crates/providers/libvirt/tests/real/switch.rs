//! A guest on Open vSwitch is in its VLAN, and in no other. Looked at with a guest that another test has booted.

use polyvirt_contract::model::{CreateVm, NicSpec, VmRef};

use crate::lab::{Lab, nic};

/// The card without an address gets one in both networks; one of them is on the other side of the VLAN.
const SETTLE: &str = "
    for card in /sys/class/net/eth*; do
      card=${card##*/}
      ip -4 address show $card | grep -q 'inet 10.0.2' && continue
      ip link set $card up
      ip address add 10.5.0.9/24 dev $card 2>/dev/null
      ip address add 10.6.0.9/24 dev $card 2>/dev/null
    done
    ping -c 1 -W 2 10.5.0.1";
const FAR: &str = "ping -c 2 -W 2 10.6.0.1 >/dev/null && echo reached || echo apart";

/// Gives the VM a card on the switch. By its first one it has an address.
pub fn plug(desired: &mut CreateVm) {
    let ovs = ("libvirt.ovs".to_owned(), "true".to_owned());
    desired.class.extra_config.extend([ovs]);
    desired.networks.push(NicSpec {
        bridge: "ovs0".to_owned(),
        vlan: 5,
        ..nic("eth1")
    });
}

pub async fn is_in_its_vlan(lab: &Lab, vm: &VmRef) {
    lab.until_runs(vm, SETTLE).await;
    assert_eq!(lab.run(vm, FAR).await, "apart");
}
