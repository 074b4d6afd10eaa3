//! Network cards, and what they are attached to.

use polyvirt_plan::Reason;

use super::*;

fn prod() -> World {
    world()
        .network(
            "prod",
            json!({"name": "prod", "networkInterfaces": [{"vlan": "100"}]}),
        )
        .network("flat", json!({"name": "flat"}))
        .network("own", json!({"name": "own", "vlan": 7, "bridge": "br1"}))
        .network(
            "wrong",
            json!({"name": "wrong", "networkInterfaces": [{"vlan": "many"}]}),
        )
}

fn attachment(lowered: &Lowered, card: &str) -> Option<(String, Value)> {
    let option = options(lowered).networks[card].attachment.clone()?;
    let config = serde_json::from_str(option.config.as_deref()?).unwrap();
    Some((option.name, config))
}

#[test]
fn a_card_is_attached_to_the_network_that_it_names() {
    let lowered = prod().spec(json!({"networks": [
        {"name": "eth0", "networkName": "prod", "model": "virtio"},
        {"name": "eth1", "networkName": "flat", "model": "e1000"},
        {"name": "eth2", "networkName": "own"},
        {"name": "eth3"},
    ]}));
    let bridge = |name: &str, vlan: Option<u16>| {
        let mut plugin = json!({"type": "bridge", "bridge": name, "ipam": {}});
        if let Some(vlan) = vlan {
            plugin["vlan"] = vlan.into();
        }
        json!({"cniVersion": "1.0.0", "name": name, "plugins": [plugin]})
    };
    for (card, expected) in [
        ("eth0", Some(("vlan100", bridge("br0", Some(100))))),
        ("eth1", Some(("bridge-br0", bridge("br0", None)))),
        ("eth2", Some(("vlan7-br1", bridge("br1", Some(7))))),
        ("eth3", None),
    ] {
        let expected = expected.map(|(name, config)| (name.to_owned(), config));
        assert_eq!(attachment(&lowered, card), expected, "{card}");
    }
    let options = options(&lowered);
    assert_eq!(options.networks["eth0"].model, None);
    assert_eq!(options.networks["eth1"].model.as_deref(), Some("e1000"));
    let labels = &options.networks["eth0"].attachment.as_ref().unwrap().labels;
    assert_eq!(labels["vitistack.io/vlan-id"], "100");
    assert_eq!(labels["vitistack.io/managed-by"], "kubevirt-operator");
    let names: Vec<_> = lowered.vm.spec.networks.iter().map(|n| &n.name).collect();
    assert_eq!(names, ["eth0", "eth1", "eth2", "eth3"]);
}

#[test]
fn a_network_that_is_not_there_is_told() {
    for (network, text) in [
        (
            "gone",
            "spec.networks[0].networkName: There is no NetworkConfiguration gone",
        ),
        ("wrong", "has a VLAN that is no number"),
    ] {
        let networks = json!([{"name": "eth0", "networkName": network}]);
        let error = prod().error(json!({ "networks": networks }));
        assert_eq!(error.reason(), Reason::NetworkConfigurationNotFound);
        assert_eq!(error.network(), Some(network));
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_machine_that_lists_no_networks_has_one_card() {
    let pods = world().spec(json!({}));
    assert_eq!(pods.nics.len(), 1);
    assert_eq!(
        (pods.nics[0].name.as_str(), pods.nics[0].vlan),
        ("default", None)
    );
    assert_eq!(attachment(&pods, "default"), None);
    let spec =
        json!({"network": {"networkNamespaceName": "team", "interfaces": [{"name": "eth0"}]}});
    let missing = world().error(spec.clone());
    assert!(
        missing
            .to_string()
            .contains("There is no NetworkNamespace team")
    );
    let mut world = world();
    world.space = Some(NetworkNamespace::new(
        "team",
        NetworkNamespaceSpec::default(),
    ));
    let waiting = world.error(spec.clone());
    assert!(waiting.to_string().contains("no VLAN yet"), "{waiting}");
    for (vlan, expected) in [
        (Some(42), "vlan42"),
        (Some(0), "bridge-br0"),
        (None, "bridge-br0"),
    ] {
        let status = NetworkNamespaceStatus {
            vlan_id: vlan,
            ..NetworkNamespaceStatus::default()
        };
        world.space.as_mut().unwrap().status = Some(status);
        let lowered = world.spec(spec.clone());
        assert_eq!(attachment(&lowered, "eth0").unwrap().0, expected);
    }
}

#[test]
fn addresses_are_given_or_known_or_made() {
    let spec = json!({"networks": [
        {"name": "a", "macAddress": "52-54-00-AB-34-56"},
        {"name": "b"},
        {"name": "c"},
    ]});
    let mut world = world();
    world.macs.insert("a".into(), "02:00:00:00:00:01".into());
    world.macs.insert("b".into(), "02:00:00:00:00:02".into());
    let macs = |world: &World| {
        let nics = world.spec(spec.clone()).nics;
        nics.into_iter().map(|nic| nic.mac).collect::<Vec<_>>()
    };
    let first = macs(&world);
    assert_eq!(first[0], "52:54:00:ab:34:56");
    assert_eq!(first[1], "02:00:00:00:00:02");
    assert!(
        first[2].starts_with("02:12:") && first[2].len() == 17,
        "{first:?}"
    );
    assert_eq!(macs(&world), first);
    world.taken.push(first[2].clone());
    let second = macs(&world);
    assert_ne!(second[2], first[2]);
    world.settings.mac_set = 0x0a;
    assert!(macs(&world)[2].starts_with("02:0a:"));
    let sent = &world.spec(spec.clone()).vm.spec.networks[0];
    assert_eq!(sent.mac_address.as_deref(), Some("52:54:00:ab:34:56"));
}
