//! Any desired VM survives the wire.

use std::collections::BTreeMap;

use bytes::Bytes;
use polyvirt_contract::model::*;
use polyvirt_contract::wire::{reconfigure_request, reconfigured, v1};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,12}", any::<String>()]
}

fn raw_bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        vec(any::<u8>(), 0..24).prop_map(Bytes::from),
        text().prop_map(Bytes::from),
    ]
}

fn texts_by_key() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..4)
}

fn performance() -> impl Strategy<Value = PerformanceProfile> {
    (text(), any::<[bool; 4]>(), text()).prop_map(|(latency, flags, threads)| PerformanceProfile {
        latency_sensitivity: latency,
        cpu_hot_add: flags[0],
        memory_hot_add: flags[1],
        virtualization_based_security: flags[2],
        nested_virtualization: flags[3],
        hyper_threading_policy: threads,
    })
}

fn security() -> impl Strategy<Value = SecurityProfile> {
    (any::<[bool; 5]>(), text(), text()).prop_map(|(flags, version, keys)| SecurityProfile {
        secure_boot: flags[0],
        tpm: flags[1],
        tpm_version: version,
        vtd: flags[2],
        encryption: flags[3],
        key_provider: keys,
        require_encryption: flags[4],
    })
}

/// Memory is never negative.
fn limits() -> impl Strategy<Value = ResourceLimits> {
    let memory = || option::of(0..i64::MAX >> 20);
    (any::<[Option<i32>; 3]>(), memory(), memory()).prop_map(|(cpu, limit, reservation)| {
        ResourceLimits {
            cpu_limit: cpu[0],
            cpu_reservation: cpu[1],
            memory_limit_mib: limit,
            memory_reservation_mib: reservation,
            cpu_shares: cpu[2],
        }
    })
}

fn class() -> impl Strategy<Value = ClassSpec> {
    let disk = (text(), any::<u32>()).prop_map(|(disk_type, size_gib)| DiskDefaults {
        disk_type,
        size_gib,
    });
    (
        any::<u32>(),
        any::<u64>(),
        prop_oneof![Just(Firmware::Bios), Just(Firmware::Uefi)],
        option::of(disk),
        text(),
        texts_by_key(),
        option::of(performance()),
        option::of(security()),
        option::of(limits()),
    )
        .prop_map(
            |(cpu, memory, firmware, disk, tools, extra, performance, security, limits)| {
                ClassSpec {
                    cpu,
                    memory_mib: memory,
                    firmware,
                    disk_defaults: disk,
                    guest_tools_policy: tools,
                    extra_config: extra,
                    performance,
                    security,
                    limits,
                }
            },
        )
}

fn image() -> impl Strategy<Value = ImageSource> {
    let pull = prop_oneof![
        Just(Pull::IfNotPresent),
        Just(Pull::Always),
        Just(Pull::Never)
    ];
    let sum = (text(), text());
    (text(), text(), text(), text(), sum, pull, text()).prop_map(
        |(template_name, path, url, format, (checksum, checksum_type), pull, reader)| ImageSource {
            template_name,
            path,
            url,
            format,
            checksum,
            checksum_type,
            pull,
            reader,
        },
    )
}

/// An address has an IP, and a name server has no comma in it.
fn address() -> impl Strategy<Value = StaticAddress> {
    let server = "[0-9a-f:.]{1,16}";
    ("[0-9a-f:.]{1,16}", any::<u8>(), text(), vec(server, 0..3)).prop_map(
        |(ip, prefix, gateway, dns)| StaticAddress {
            ip,
            prefix,
            gateway,
            dns,
        },
    )
}

fn nic() -> impl Strategy<Value = NicSpec> {
    let texts = (text(), text(), text(), text(), text());
    (
        texts,
        any::<u16>(),
        option::of(address()),
        any::<Option<i32>>(),
        any::<u32>(),
    )
        .prop_map(
            |((name, network, bridge, model, mac), vlan, address, pci_slot, mtu)| NicSpec {
                name,
                network,
                bridge,
                vlan,
                model,
                mac,
                address,
                pci_slot,
                mtu,
            },
        )
}

fn disk() -> impl Strategy<Value = DiskSpec> {
    let disk_type = prop_oneof![
        Just(DiskType::Thin),
        Just(DiskType::Thick),
        Just(DiskType::EagerZeroedThick),
        Just(DiskType::Ssd),
        Just(DiskType::Hdd),
    ];
    let policy = prop_oneof![Just(ExpandPolicy::Online), Just(ExpandPolicy::Offline)];
    let scsi = (any::<i32>(), text(), text()).prop_map(|(controller, bus, kind)| ScsiSpec {
        controller,
        shared_bus: bus,
        controller_type: kind,
    });
    (
        text(),
        any::<u32>(),
        disk_type,
        policy,
        text(),
        option::of(scsi),
    )
        .prop_map(
            |(name, size_gib, disk_type, expand_policy, storage_class, scsi)| DiskSpec {
                name,
                size_gib,
                disk_type,
                expand_policy,
                storage_class,
                scsi,
            },
        )
}

fn demand() -> impl Strategy<Value = HostDemand> {
    let values = vec(text(), 0..3);
    (text(), text(), values).prop_map(|(key, operator, values)| HostDemand {
        key,
        operator,
        values,
    })
}

fn chosen() -> impl Strategy<Value = Chosen> {
    let demands = || vec(demand(), 0..3);
    let term = (demands(), demands()).prop_map(|(labels, name)| HostTerm { labels, name });
    vec(term, 0..3).prop_map(|terms| Chosen { terms })
}

fn placement() -> impl Strategy<Value = Placement> {
    let names = (text(), text(), text(), text(), text(), text());
    (names, option::of(chosen())).prop_map(
        |((datastore, storage_pod, cluster, folder, host, resource_pool), chosen)| Placement {
            datastore,
            storage_pod,
            cluster,
            folder,
            host,
            resource_pool,
            devices: std::collections::BTreeMap::from([("nvidia.com/gpu".to_owned(), 2)]),
            chosen,
        },
    )
}

fn user_data() -> impl Strategy<Value = UserData> {
    prop_oneof![
        raw_bytes().prop_map(UserData::CloudInit),
        raw_bytes().prop_map(UserData::Ignition),
    ]
}

fn create() -> impl Strategy<Value = CreateVm> {
    let parts = (class(), image(), vec(nic(), 0..3), vec(disk(), 0..3));
    let data = (option::of(user_data()), raw_bytes(), raw_bytes());
    (
        text(),
        parts,
        data,
        option::of(placement()),
        vec(text(), 0..3),
    )
        .prop_map(
            |(name, (class, image, networks, disks), (user, meta, network), placement, tags)| {
                CreateVm {
                    owner: None,
                    name,
                    class,
                    image,
                    networks,
                    disks,
                    user_data: user,
                    meta_data: meta,
                    network_data: network,
                    placement,
                    tags,
                }
            },
        )
}

/// Encoded and decoded, as a peer would.
fn over_the_wire<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).unwrap()
}

proptest! {
    #[test]
    fn create_is_lossless(vm in create()) {
        let sent = over_the_wire(&v1::CreateRequest::try_from(&vm).unwrap());
        prop_assert_eq!(CreateVm::try_from(sent).unwrap(), vm);
    }

    #[test]
    fn reconfigure_is_lossless(vm in create()) {
        let sent = over_the_wire(&reconfigure_request(&"vm-7".into(), &vm).unwrap());
        let (id, desired) = reconfigured(sent).unwrap();
        prop_assert_eq!(id.as_str(), "vm-7");
        prop_assert_eq!(desired, vm);
    }

    #[test]
    fn clone_is_lossless(class in option::of(class()), placement in option::of(placement()), linked: bool) {
        let clone = CloneVm {
            owner: None,
            source: "vm-7".into(),
            target_name: "copy".into(),
            mode: if linked { CloneMode::Linked } else { CloneMode::Full },
            class,
            placement,
            customize_json: "{}".into(),
        };
        let sent = over_the_wire(&v1::CloneRequest::try_from(&clone).unwrap());
        prop_assert_eq!(CloneVm::try_from(sent).unwrap(), clone);
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in any::<String>()) {
        use polyvirt_contract::wire::json::*;
        let _ = read_class(&text);
        let _ = read_networks(&text);
        let _ = read_disks(&text);
        let _ = read_desired(&text);
        let _ = read_prepare(&text);
        let _ = read_class(&serde_json::json!({ "memory": text, "cpu": 1 }).to_string());
    }
}
