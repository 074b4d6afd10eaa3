//! Cards on a bridge of the host: two guests, fixed addresses, no server in between.

use std::os::unix::fs::PermissionsExt as _;

use polyvirt_contract::model::{CreateVm, PowerOp, StaticAddress, VmRef};
use polyvirt_contract::{ErrorKind, Provider as _};

use crate::lab::{Lab, desired, nic};

const BRIDGE: &str = "pvtest0";

/// A bridge that goes away with the test.
struct Bridge;

impl Bridge {
    fn new() -> Self {
        ip(&["link", "del", BRIDGE]);
        assert!(
            ip(&["link", "add", BRIDGE, "type", "bridge"]),
            "bridges need root and iproute2"
        );
        assert!(ip(&["link", "set", BRIDGE, "up"]));
        // As udev does on a whole system; small ones go without.
        let everybody = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions("/dev/net/tun", everybody).expect("the module tun is loaded");
        Self
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        ip(&["link", "del", BRIDGE]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let output = std::process::Command::new("ip")
        .args(arguments)
        .output()
        .expect("iproute2 is installed");
    output.status.success()
}

fn on_bridge(name: &str, number: u32, address: &str) -> CreateVm {
    let mut card = nic("eth0");
    BRIDGE.clone_into(&mut card.bridge);
    card.address = Some(StaticAddress {
        ip: address.to_owned(),
        prefix: 24,
        ..StaticAddress::default()
    });
    CreateVm {
        networks: vec![card],
        ..desired(name, number)
    }
}

fn ports() -> usize {
    let ports = std::fs::read_dir(format!("/sys/class/net/{BRIDGE}/brif")).expect("a bridge");
    ports.count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_on_a_bridge_reach_each_other() {
    let lab = Lab::new().await;
    let _bridge = Bridge::new();
    let one = lab.create(&on_bridge("one", 40, "10.77.0.1")).await;
    let two = lab.create(&on_bridge("two", 41, "10.77.0.2")).await;
    for vm in [&one, &two] {
        lab.power(vm, PowerOp::On).await;
        lab.until(vm, "the agent", |state| {
            crate::lab::agent(state) == "connected"
        })
        .await;
    }
    assert_eq!(ports(), 2);
    same_mac_is_refused(&lab, &one).await;
    for (vm, address) in [(&one, "10.77.0.1"), (&two, "10.77.0.2")] {
        lab.until(vm, "its fixed address", |state| state.ips == [address])
            .await;
    }
    lab.until_runs(&one, "ping -c 1 -W 2 10.77.0.2 >/dev/null")
        .await;
    lab.delete(&one).await;
    lab.delete(&two).await;
    a_vlan_needs_a_bridge_that_filters(&lab).await;
    assert_eq!(ports(), 0, "a network device is left behind");
}

async fn a_vlan_needs_a_bridge_that_filters(lab: &Lab) {
    let mut wanted = on_bridge("vlan", 43, "10.77.0.3");
    wanted.networks[0].vlan = 42;
    let vm = lab.create(&wanted).await;
    let error = lab.provider.power(&vm, PowerOp::On.into()).await;
    let error = error.expect_err("the bridge does not filter");
    assert!(error.message.contains("vlan_filtering"), "{error}");
    lab.delete(&vm).await;
}

async fn same_mac_is_refused(lab: &Lab, vm: &VmRef) {
    let state = lab.state(vm).await;
    let mac = state.nics.expect("known")[0].mac.clone();
    let mut thief = desired("thief", 42);
    thief.networks[0].mac = mac.to_uppercase();
    let error = lab.provider.create(thief).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("the VM one"), "{error}");
}
