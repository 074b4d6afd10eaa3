//! A guest on Open vSwitch is in its VLAN, and in no other.

use polyvirt_contract::model::NicSpec;

use crate::host::Host;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_on_open_vswitch_is_in_its_vlan_and_in_no_other() {
    let lab = Lab::on(Host::with_switch()).await;
    let mut desired = lab.desired("tagged", 1);
    let ovs = ("libvirt.ovs".to_owned(), "true".to_owned());
    desired.class.extra_config.extend([ovs]);
    // By the first one the guest has an address.
    let tagged = NicSpec {
        bridge: "ovs0".to_owned(),
        vlan: 5,
        ..nic("eth1")
    };
    desired.networks = vec![nic("eth0"), tagged];
    let vm = lab.create(&desired).await;
    lab.boot(&vm).await;
    lab.until_runs(&vm, SETTLE).await;
    let far = "ping -c 2 -W 2 10.6.0.1 >/dev/null && echo reached || echo apart";
    assert_eq!(lab.run(&vm, far).await, "apart");
    lab.delete(&vm).await;
}
