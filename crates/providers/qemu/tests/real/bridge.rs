//! Cards on a bridge of the host: two guests, fixed addresses, no server in between. Where the kernel tells VLANs apart, each
//! has a second card in one; where it does not, such a card is refused.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use polyvirt_contract::model::{CreateVm, NicSpec, PowerOp, StaticAddress, VmRef};
use polyvirt_contract::{ErrorKind, Provider as _};

use crate::lab::{Lab, desired, nic};

const BRIDGE: &str = "pvtest0";
/// Networks, by the second number of their addresses.
const PLAIN: u8 = 77;
const TAGGED: u8 = 78;
/// The VLAN of the guests, another one, and the ends of both on the host.
const VLAN: u16 = 42;
const OTHER_VLAN: u16 = 43;
const END: &str = "pvtest0.42";
const OTHER_END: &str = "pvtest0.43";

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

    /// Lets VLANs be told apart from now on, with an end of two of them on the host; false if the kernel does not know how.
    fn filter() -> bool {
        if !Path::new("/sys/class/net")
            .join(BRIDGE)
            .join("bridge/vlan_filtering")
            .exists()
        {
            return false;
        }
        assert!(ip(&[
            "link",
            "set",
            BRIDGE,
            "type",
            "bridge",
            "vlan_filtering",
            "1"
        ]));
        for (end, vlan) in [(END, VLAN), (OTHER_END, OTHER_VLAN)] {
            let vlan = vlan.to_string();
            let joins = ["vlan", "add", "dev", BRIDGE, "vid", &vlan, "self"];
            assert!(run("bridge", &joins).is_some());
            assert!(ip(&[
                "link", "add", "link", BRIDGE, "name", end, "type", "vlan", "id", &vlan
            ]));
            assert!(ip(&["link", "set", end, "up"]));
        }
        true
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        ip(&["link", "del", BRIDGE]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    run("ip", arguments).is_some()
}

/// What the program says, if it ends well.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program)
        .args(arguments)
        .output()
        .expect("iproute2 is installed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(said)
}

fn card(name: &str, address: String) -> NicSpec {
    NicSpec {
        bridge: BRIDGE.to_owned(),
        address: Some(StaticAddress {
            ip: address,
            prefix: 24,
            ..StaticAddress::default()
        }),
        ..nic(name)
    }
}

/// A VM with one card on each of these networks: the bridge as it is, and its VLAN.
fn on_bridge(name: &str, number: u32, place: u8, networks: &[u8]) -> CreateVm {
    let cards = networks.iter().enumerate().map(|(at, network)| NicSpec {
        vlan: if *network == TAGGED { VLAN } else { 0 },
        ..card(&format!("eth{at}"), address(*network, place))
    });
    CreateVm {
        networks: cards.collect(),
        ..desired(name, number)
    }
}

fn address(network: u8, place: u8) -> String {
    format!("10.{network}.0.{place}")
}

fn ports() -> usize {
    let ports = std::fs::read_dir(format!("/sys/class/net/{BRIDGE}/brif")).expect("a bridge");
    ports.count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_on_a_bridge_reach_each_other_and_vlans_are_kept_apart() {
    let lab = Lab::new().await;
    let _bridge = Bridge::new();
    a_vlan_needs_a_bridge_that_filters(&lab).await;
    let networks: &[u8] = if Bridge::filter() {
        &[PLAIN, TAGGED]
    } else {
        &[PLAIN]
    };
    let one = lab.create(&on_bridge("one", 40, 1, networks)).await;
    let two = lab.create(&on_bridge("two", 41, 2, networks)).await;
    for vm in [&one, &two] {
        lab.power(vm, PowerOp::On).await;
        lab.until(vm, "the agent", |state| {
            crate::lab::agent(state) == "connected"
        })
        .await;
    }
    same_mac_is_refused(&lab, &one).await;
    assert_eq!(ports(), 2 * networks.len());
    for (vm, place) in [(&one, 1), (&two, 2)] {
        let expected: Vec<_> = networks
            .iter()
            .map(|network| address(*network, place))
            .collect();
        lab.until(vm, "its fixed addresses", |state| state.ips == expected)
            .await;
    }
    for network in networks {
        let reaches = format!("ping -c 1 -W 2 {} >/dev/null", address(*network, 2));
        lab.until_runs(&one, &reaches).await;
    }
    if networks.contains(&TAGGED) {
        ports_are_in_their_vlans();
        the_vlan_is_the_one_that_was_asked_for(&lab, &one).await;
    }
    lab.delete(&one).await;
    lab.delete(&two).await;
    assert_eq!(ports(), 0, "a network device is left behind");
}

/// Of the ports two are in the VLAN and in no other, and their guests know nothing of it.
fn ports_are_in_their_vlans() {
    let told = run("bridge", &["-j", "vlan", "show"]).expect("told");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let ports = told.as_array().into_iter().flatten();
    let of_guests = ports.filter(|port| {
        let name = port["ifname"].as_str().unwrap_or_default();
        name.starts_with("pv") && !name.starts_with(BRIDGE)
    });
    let tagged: Vec<_> = of_guests
        .map(|port| &port["vlans"])
        .filter(|vlans| {
            vlans
                .as_array()
                .is_some_and(|all| all.iter().any(|vlan| vlan["vlan"] == VLAN))
        })
        .collect();
    let only = serde_json::json!([{"vlan": VLAN, "flags": ["PVID", "Egress Untagged"]}]);
    assert_eq!(tagged, [&only, &only]);
}

/// The guest reaches the host's end of its own VLAN, and not the one of another VLAN with the same address.
async fn the_vlan_is_the_one_that_was_asked_for(lab: &Lab, vm: &VmRef) {
    let reaches = "ping -c 1 -W 2 10.78.0.9 >/dev/null";
    assert!(ip(&["address", "add", "10.78.0.9/24", "dev", END]));
    lab.until_runs(vm, reaches).await;
    assert!(ip(&["address", "del", "10.78.0.9/24", "dev", END]));
    assert!(ip(&["address", "add", "10.78.0.9/24", "dev", OTHER_END]));
    let script =
        format!("ip neigh flush dev eth1 2>/dev/null; if {reaches}; then echo reached; fi");
    assert_eq!(lab.run(vm, &script).await, "");
}

async fn a_vlan_needs_a_bridge_that_filters(lab: &Lab) {
    let vm = lab.create(&on_bridge("vlan", 43, 3, &[TAGGED])).await;
    let error = lab.provider.power(&vm, PowerOp::On.into()).await;
    let error = error.expect_err("the bridge does not filter");
    assert!(error.message.contains("vlan_filtering"), "{error}");
    lab.delete(&vm).await;
    assert_eq!(ports(), 0, "a network device is left behind");
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
