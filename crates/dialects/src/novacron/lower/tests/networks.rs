//! Network cards.

use serde_json::json;

use super::*;

fn on(world: &World, networks: Value) -> Result<Lowered, LowerError> {
    world.lower(&made_of(&json!({ "networks": networks })))
}

fn readme() -> Value {
    json!([
        {"name": "management", "type": "bridge",
         "ipv4": {"method": "static", "address": "10.0.1.10/24", "gateway": "10.0.1.1"}},
        {"name": "data", "type": "sr-iov", "ipv4": {"method": "dhcp"}},
    ])
}

fn two_bridges() -> Value {
    let mut networks = readme();
    networks[1]["type"] = json!("bridge");
    networks
}

#[test]
fn several_interfaces_get_a_network_each() {
    let found = on(&World::default(), two_bridges()).unwrap();
    let cards = serde_json::to_value(&found.vm.spec.networks).unwrap();
    assert_eq!(
        cards,
        json!([
            {"name": "management", "networkRef": {"name": "my-vm-management"},
             "ipAddress": "10.0.1.10", "prefix": 24, "gateway": "10.0.1.1"},
            {"name": "data", "networkRef": {"name": "my-vm-data"}},
        ])
    );
    let made: Vec<_> = found
        .networks
        .iter()
        .map(|n| {
            let libvirt = n.spec.network.libvirt.clone().unwrap();
            (
                n.metadata.name.clone().unwrap(),
                libvirt.network_name.unwrap(),
            )
        })
        .collect();
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        made,
        [
            pair("my-vm-management", "management"),
            pair("my-vm-data", "data")
        ]
    );
    assert!(
        found
            .networks
            .iter()
            .all(|n| n.metadata.owner_references.is_some())
    );
    assert_eq!(found.ignored, Vec::<String>::new());
    assert_eq!(found.vm.spec.network_data, None);
}

#[test]
fn an_sr_iov_network_is_a_virtual_function_of_the_host() {
    for kind in [
        ProviderType::Libvirt,
        ProviderType::Qemu,
        ProviderType::Mock,
    ] {
        let found = on(&World::on(kind), readme()).unwrap();
        let names: Vec<_> = found.vm.spec.networks.iter().map(|n| &n.name).collect();
        assert_eq!(names, ["management"], "{kind:?}");
        assert_eq!(found.networks.len(), 1, "no object for it");
        let wanted = serde_json::to_value(found.vm.spec.resources.unwrap()).unwrap();
        let function = json!({"name": "nic-data", "type": "sriov", "model": "data", "count": 1});
        assert_eq!(wanted, json!({"devices": [function]}));
        assert_eq!(found.ignored, Vec::<String>::new());
    }
    let fixed = json!([{"name": "data", "type": "sr-iov",
        "ipv4": {"method": "static", "address": "10.0.0.2/8"}, "ipv6": {"method": "auto"}}]);
    let found = on(&World::default(), fixed).unwrap();
    let field = |family: &str| format!("spec.template.spec.networks[0].{family}");
    assert_eq!(found.ignored, [field("ipv4"), field("ipv6")]);
    let elsewhere = on(&World::on(ProviderType::Vsphere), readme()).unwrap();
    assert_eq!(elsewhere.vm.spec.networks.len(), 2);
    assert_eq!(elsewhere.ignored, ["spec.template.spec.networks[1].type"]);
}

#[test]
fn an_sr_iov_network_that_somebody_made_or_that_is_plugged_in_stays_a_card() {
    let made = World {
        networks: vec!["data"],
        ..World::default()
    };
    let first = on(&made, readme()).unwrap();
    assert_eq!(first.vm.spec.networks.len(), 2);
    assert_eq!(first.vm.spec.resources, None);
    assert_eq!(first.ignored, ["spec.template.spec.networks[1].type"]);
    let later = World {
        before: Some(first.vm.clone()),
        ..World::default()
    };
    assert_eq!(on(&later, readme()).unwrap().vm.spec, first.vm.spec);
}

#[test]
fn a_network_that_somebody_made_is_used() {
    let world = World {
        networks: vec!["data", "default"],
        ..World::default()
    };
    let both = json!([{"name": "data", "type": "ovs"}, {"name": "default", "type": "bridge"}]);
    let found = on(&world, both).unwrap();
    let name = |index: usize| {
        found.vm.spec.networks[index]
            .network_ref
            .clone()
            .unwrap()
            .name
    };
    assert_eq!(
        (name(0), name(1)),
        ("data".to_owned(), "default".to_owned())
    );
    assert_eq!(found.networks, []);
}

#[test]
fn a_card_stays_where_it_was_plugged_in() {
    let first = on(&World::default(), two_bridges()).unwrap();
    let later = World {
        networks: vec!["data"],
        before: Some(first.vm.clone()),
        ..World::default()
    };
    let found = on(&later, two_bridges()).unwrap();
    assert_eq!(found.vm.spec, first.vm.spec);
    assert_eq!(found.networks, first.networks);
}

#[test]
fn each_kind_of_provider_has_its_own_section() {
    let one = |name: &str| json!([{"name": name, "type": "bridge"}]);
    let network =
        |kind, name| on(&World::on(kind), one(name)).map(|l| l.networks[0].spec.network.clone());
    let vsphere = network(ProviderType::Vsphere, "VM-Net").unwrap();
    assert_eq!(
        vsphere.vsphere.unwrap().portgroup.as_deref(),
        Some("VM-Net")
    );
    let proxmox = network(ProviderType::Proxmox, "vmbr1").unwrap();
    assert_eq!(proxmox.proxmox.unwrap().bridge.as_deref(), Some("vmbr1"));
    let error = network(ProviderType::Proxmox, "data").expect_err("no bridge of Proxmox");
    assert!(
        error.message().contains("VMNetworkAttachment data"),
        "{error}"
    );
}

#[test]
fn kubevirt_is_told_of_sr_iov() {
    let found = on(&World::on(ProviderType::Kubevirt), readme()).unwrap();
    let class = found.vm.spec.class.unwrap();
    let options = KubevirtOptions::of(&class.extra_config).unwrap();
    assert_eq!(options.networks["data"].binding.as_deref(), Some("sriov"));
    assert!(!options.networks.contains_key("management"));
    assert_eq!(found.ignored, Vec::<String>::new());
}

#[test]
fn two_families_are_described_to_the_guest() {
    let networks = json!([
        {"name": "lan", "type": "bridge",
         "ipv4": {"method": "static", "address": "10.0.1.10/24", "gateway": "10.0.1.1", "dns": ["10.0.1.2"]},
         "ipv6": {"method": "static", "address": "2001:db8::10/64", "gateway": "2001:db8::1"}},
        {"name": "out", "type": "bridge", "ipv6": {"method": "auto"}},
        {"name": "old", "type": "bridge", "ipv4": {"method": "dhcp"}},
    ]);
    let found = on(&World::default(), networks).unwrap();
    let data = found
        .vm
        .spec
        .network_data
        .unwrap()
        .cloud_init
        .unwrap()
        .inline
        .unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    let lan = &data["ethernets"]["lan"];
    assert_eq!(lan["addresses"], json!(["10.0.1.10/24", "2001:db8::10/64"]));
    assert_eq!(
        lan["routes"],
        json!([{"to": "0.0.0.0/0", "via": "10.0.1.1"}, {"to": "::/0", "via": "2001:db8::1"}])
    );
    assert_eq!(lan["nameservers"]["addresses"], json!(["10.0.1.2"]));
    assert_eq!(data["ethernets"]["out"]["accept-ra"], json!(true));
    assert_eq!(data["ethernets"]["old"]["dhcp4"], json!(true));
    for card in &found.vm.spec.networks {
        let entry = &data["ethernets"][&card.name];
        assert_eq!(entry["match"]["macaddress"], json!(card.mac_address));
        assert_eq!(card.ip_address, None);
    }
}

#[test]
fn one_family_needs_no_description() {
    for config in [
        json!({"ipv4": {"method": "dhcp"}}),
        json!({}),
        json!({"ipv6": {"method": "static", "address": "2001:db8::10/64"}}),
        json!({"ipv4": {"method": "static", "address": "10.0.0.2/8", "dns": ["10.0.0.1", "10.0.0.9"]}}),
    ] {
        let mut network = config.clone();
        network["name"] = json!("lan");
        network["type"] = json!("bridge");
        let found = on(&World::default(), json!([network])).unwrap();
        assert_eq!(found.vm.spec.network_data, None, "{config}");
        assert_eq!(found.vm.spec.networks[0].mac_address, None);
    }
    for config in [
        json!({"ipv4": {"method": "dhcp", "dns": ["10.0.0.1"]}}),
        json!({"ipv4": {"method": "dhcp"}, "ipv6": {"method": "dhcp"}}),
    ] {
        let mut network = config.clone();
        network["name"] = json!("lan");
        network["type"] = json!("bridge");
        let found = on(&World::default(), json!([network])).unwrap();
        assert!(found.vm.spec.network_data.is_some(), "{config}");
    }
}

#[test]
fn what_is_no_network_is_refused() {
    let lan = |config: Value| {
        let mut network = json!({"name": "lan", "type": "bridge"});
        super::merge(&mut network, &config);
        json!([network])
    };
    for (networks, field) in [
        (lan(json!({"type": "pigeon"})), "[0].type"),
        (lan(json!({"name": "--"})), "[0].name"),
        (
            lan(json!({"ipv4": {"method": "static"}})),
            "[0].ipv4.address",
        ),
        (
            lan(json!({"ipv4": {"method": "static", "address": "10.0.0.1"}})),
            "[0].ipv4.address",
        ),
        (
            lan(json!({"ipv4": {"method": "static", "address": "10.0.0.1/33"}})),
            "[0].ipv4.address",
        ),
        (
            lan(json!({"ipv4": {"method": "static", "address": "2001:db8::1/64"}})),
            "[0].ipv4.address",
        ),
        (lan(json!({"ipv4": {"method": "auto"}})), "[0].ipv4.method"),
        (lan(json!({"ipv6": {"method": "magic"}})), "[0].ipv6.method"),
        (
            lan(json!({"ipv4": {"method": "dhcp", "dns": ["dns.example"]}})),
            "[0].ipv4.dns[0]",
        ),
        (
            lan(json!({"ipv4": {"method": "static", "address": "10.0.0.2/8", "gateway": "::1"}})),
            "[0].ipv4.gateway",
        ),
        (
            json!([{"name": "a b", "type": "bridge"}, {"name": "a-b", "type": "bridge"}]),
            "[1].name",
        ),
    ] {
        let error = on(&World::default(), networks.clone()).expect_err("refused");
        let expected = format!("spec.template.spec.networks{field}");
        assert_eq!(error.field(), expected, "{networks}");
    }
}
