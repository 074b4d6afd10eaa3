//! Tables: what a request becomes, and what KubeVirt's answers mean. Every object is held against what KubeVirt's webhooks
//! refuse.

use bytes::Bytes;
use polyvirt_api::kubevirt::{
    Attachment, BootDevice, Cdrom, CloudInitMedium, CloudInitOption, CloudInitPlace, Device,
    DiskOption, Features, KubevirtOptions, NamedKind, NetworkOption, OwnerOption, Topology,
};
use polyvirt_contract::model::{
    ClassSpec, CreateVm, DiskDefaults, DiskSpec, Firmware, ImageSource, NicSpec, Owner, Placement,
    PowerState, ResourceLimits, SecurityProfile, Stage, StaticAddress, UserData,
};
use polyvirt_testkit::kubevirt_sim::refusal;
use serde_json::{Value, json};

use crate::facts::{Fact, InstanceFacts, VmFacts};
use crate::kinds::{Kind, VmKey};
use crate::map::cards::cards;
use crate::map::cloud_init::Seed;
use crate::map::from_kubevirt::Known;
use crate::map::layout::{Layout, Source};
use crate::map::objects::{Anchor, Marks, Shape};
use crate::map::to_kubevirt::{Hot, Making, Run, Wish};

fn key() -> VmKey {
    VmKey::new("team", "web")
}

fn nic(name: &str) -> NicSpec {
    NicSpec {
        name: name.to_owned(),
        ..NicSpec::default()
    }
}

fn request() -> CreateVm {
    CreateVm {
        owner: Some(Owner {
            identity: "id-1".into(),
            namespace: "team".to_owned(),
            name: "web".to_owned(),
        }),
        name: "web".to_owned(),
        class: ClassSpec {
            cpu: 4,
            memory_mib: 2048,
            ..ClassSpec::default()
        },
        image: ImageSource {
            format: "blank".to_owned(),
            ..ImageSource::default()
        },
        networks: vec![nic("net")],
        ..CreateVm::default()
    }
}

/// The VirtualMachine, which KubeVirt must take.
fn built(request: &CreateVm, options: &KubevirtOptions, live: Option<&Value>, hot: Hot) -> Value {
    let key = key();
    let layout = Layout::of(request, options, &key).expect("a layout");
    let cards = cards(&request.networks, options, "id-1").expect("cards");
    let seed = Seed::of(request, &cards, options.cloud_init.unwrap_or_default());
    let wish = Wish {
        key: &key,
        request,
        options,
        layout: &layout,
        cards: &cards,
        seed: seed.as_ref(),
        run: Run::Halted,
        making: Making::Done,
        live,
        hot,
        cluster: "here",
    };
    let vm = wish.virtual_machine().expect("an object");
    assert_eq!(refusal(&vm), None, "{vm:#}");
    vm
}

fn with(change: impl FnOnce(&mut CreateVm, &mut KubevirtOptions)) -> Value {
    let (mut request, mut options) = (request(), KubevirtOptions::default());
    change(&mut request, &mut options);
    built(&request, &options, None, Hot::Stopped)
}

/// What one change of the request must put where.
fn says(what: &str, vm: &Value, expected: &[(&str, Value)]) {
    for (path, value) in expected {
        let pointer = path
            .replace("DOMAIN", "/spec/template/spec/domain")
            .replace("POD", "/spec/template/spec");
        let found = vm.pointer(&pointer).cloned().unwrap_or_default();
        assert_eq!(found, *value, "{what}: {path} of {vm:#}");
    }
}

#[test]
fn size_and_hardware() {
    let plain = with(|_, _| {});
    let one = json!({"sockets": 4, "cores": 1, "threads": 1});
    says(
        "plain",
        &plain,
        &[
            ("DOMAIN/cpu", one),
            ("DOMAIN/memory/guest", json!("2Gi")),
            ("DOMAIN/firmware/bootloader", json!({"bios": {}})),
            ("DOMAIN/devices/autoattachPodInterface", json!(false)),
            ("/spec/runStrategy", json!("Halted")),
            ("/metadata/labels/polyvirt.io~1identity", json!("id-1")),
            (
                "/spec/template/metadata/labels/polyvirt.io~1identity",
                json!("id-1"),
            ),
            (
                "/metadata/annotations/polyvirt.io~1owner-name",
                json!("web"),
            ),
            ("/metadata/annotations/polyvirt.io~1creating", Value::Null),
            ("/spec/running", Value::Null),
        ],
    );
    let shaped = with(|_, options| {
        options.topology = Some(Topology {
            sockets: 1,
            cores: 2,
            threads: 1,
        });
        options.cpu_model = Some("host-model".to_owned());
        options.memory_bytes = Some((2048 << 20) + 4096);
        options.machine_type = Some("pc-q35-rhel9".to_owned());
        options.network_multiqueue = Some(true);
    });
    let cpu = json!({"sockets": 2, "cores": 2, "threads": 1, "model": "host-model"});
    says(
        "shaped",
        &shaped,
        &[
            ("DOMAIN/cpu", cpu),
            ("DOMAIN/memory/guest", json!("2097156Ki")),
            ("DOMAIN/machine/type", json!("pc-q35-rhel9")),
            ("DOMAIN/devices/networkInterfaceMultiqueue", json!(true)),
        ],
    );
}

#[test]
fn firmware_and_features() {
    let secure = with(|request, options| {
        request.class.firmware = Firmware::Uefi;
        request.class.security = Some(SecurityProfile {
            secure_boot: true,
            tpm: true,
            ..SecurityProfile::default()
        });
        options.features = Some(Features {
            acpi: Some(true),
            apic: Some(false),
            hyperv: Some(true),
        });
    });
    says(
        "secure boot",
        &secure,
        &[
            ("DOMAIN/firmware/bootloader/efi/secureBoot", json!(true)),
            ("DOMAIN/features/smm/enabled", json!(true)),
            ("DOMAIN/features/acpi", json!({"enabled": true})),
            ("DOMAIN/features/apic", json!({"enabled": false})),
            ("DOMAIN/features/hyperv/spinlocks/spinlocks", json!(8191)),
            ("DOMAIN/devices/tpm/persistent", json!(true)),
        ],
    );
    let uefi = with(|request, _| request.class.firmware = Firmware::Uefi);
    says(
        "UEFI",
        &uefi,
        &[("DOMAIN/firmware/bootloader/efi/secureBoot", json!(false))],
    );
}

#[test]
fn instancetypes_take_the_place_of_sizes() {
    let vm = with(|_, options| {
        options.instancetype = Some(NamedKind {
            name: "u1.small".to_owned(),
            kind: String::new(),
        });
        options.preference = Some(NamedKind {
            name: "linux".to_owned(),
            kind: "VirtualMachinePreference".to_owned(),
        });
    });
    let kind = "VirtualMachineClusterInstancetype";
    says(
        "instancetype",
        &vm,
        &[
            (
                "/spec/instancetype",
                json!({"name": "u1.small", "kind": kind}),
            ),
            ("/spec/preference/kind", json!("VirtualMachinePreference")),
            ("DOMAIN/cpu", Value::Null),
            ("DOMAIN/memory", Value::Null),
        ],
    );
}

#[test]
fn placement_devices_and_limits() {
    let vm = with(|request, options| {
        request.placement = Some(Placement {
            host: "node-7".to_owned(),
            ..Placement::default()
        });
        request.class.limits = Some(ResourceLimits {
            cpu_limit: Some(2000),
            memory_reservation_mib: Some(1024),
            ..ResourceLimits::default()
        });
        request.tags = vec!["a".to_owned(), "b".to_owned()];
        options
            .node_selector
            .insert("disk".to_owned(), "ssd".to_owned());
        options.tolerations = vec![json!({"key": "gpu", "operator": "Exists"})];
        options.affinity = Some(json!({"podAffinity": {}}));
        options.gpus = vec![Device {
            name: "gpu1".to_owned(),
            device_name: "nvidia.com/A100".to_owned(),
        }];
        options.labels.insert("team".to_owned(), "blue".to_owned());
        options.owner = Some(OwnerOption {
            cluster: "here".to_owned(),
            uid: "u".to_owned(),
            ..OwnerOption::default()
        });
    });
    says(
        "placement",
        &vm,
        &[
            (
                "POD/nodeSelector",
                json!({"disk": "ssd", "kubernetes.io/hostname": "node-7"}),
            ),
            ("POD/tolerations/0/key", json!("gpu")),
            ("POD/affinity", json!({"podAffinity": {}})),
            ("DOMAIN/devices/gpus/0/deviceName", json!("nvidia.com/A100")),
            (
                "DOMAIN/resources",
                json!({"requests": {"memory": "1024Mi"}, "limits": {"cpu": "2000m"}}),
            ),
            ("/metadata/labels/team", json!("blue")),
            ("/metadata/annotations/polyvirt.io~1tags", json!("a,b")),
            ("/metadata/ownerReferences/0/uid", json!("u")),
        ],
    );
    let elsewhere = with(|_, options| {
        options.owner = Some(OwnerOption {
            cluster: "there".to_owned(),
            ..OwnerOption::default()
        });
    });
    says(
        "an owner elsewhere",
        &elsewhere,
        &[("/metadata/ownerReferences", Value::Null)],
    );
}

#[test]
fn disks_boot_in_the_order_that_was_asked_for() {
    let order = |list: &[BootDevice]| {
        let list = list.to_vec();
        with(move |_, options| {
            options.boot_order = list;
            options.cdrom = Some(Cdrom {
                name: "cdrom-iso".to_owned(),
                claim: "web-iso".to_owned(),
                url: "https://example.com/x.iso".to_owned(),
                size_bytes: 1 << 30,
            });
        })
    };
    let (disk, cdrom, card) = (
        "DOMAIN/devices/disks/0/bootOrder",
        "DOMAIN/devices/disks/1/bootOrder",
        "DOMAIN/devices/interfaces/0/bootOrder",
    );
    for (list, d, c, n) in [
        (&[][..], json!(1), json!(2), Value::Null),
        (
            &[BootDevice::Network, BootDevice::Disk][..],
            json!(2),
            Value::Null,
            json!(1),
        ),
        (
            &[BootDevice::Cdrom, BootDevice::Disk, BootDevice::Network][..],
            json!(2),
            json!(1),
            json!(3),
        ),
    ] {
        says("boot", &order(list), &[(disk, d), (cdrom, c), (card, n)]);
    }
}

#[test]
fn a_disk_that_is_there_keeps_its_claim_and_one_that_comes_is_plugged_in() {
    let (mut request, options) = (request(), KubevirtOptions::default());
    let mut live = built(&request, &options, None, Hot::Stopped);
    live["spec"]["template"]["spec"]["volumes"][0] =
        json!({"name": "root", "persistentVolumeClaim": {"claimName": "restored"}});
    live["spec"]["template"]["spec"]["domain"]["devices"]["disks"][0]["disk"]["bus"] =
        json!("sata");
    request.disks = vec![DiskSpec {
        name: "data".to_owned(),
        size_gib: 3,
        ..DiskSpec::default()
    }];
    let vm = built(&request, &options, Some(&live), Hot::Running);
    let hot = json!({"claimName": "web-data", "hotpluggable": true});
    says(
        "plugged in",
        &vm,
        &[
            (
                "POD/volumes/0/persistentVolumeClaim/claimName",
                json!("restored"),
            ),
            ("DOMAIN/devices/disks/0/disk/bus", json!("sata")),
            ("POD/volumes/1/persistentVolumeClaim", hot),
            ("DOMAIN/devices/disks/1/disk/bus", json!("scsi")),
        ],
    );
    let again = built(&request, &options, Some(&vm), Hot::Stopped);
    assert_eq!(
        again["spec"], vm["spec"],
        "what is so already is left alone"
    );
}

#[test]
fn cards_are_plugged_in_where_they_belong() {
    let vm = with(|request, options| {
        request.networks = vec![
            NicSpec {
                model: "E1000".to_owned(),
                mac: "02:AA:00:00:00:01".to_owned(),
                ..nic("pods")
            },
            NicSpec {
                network: "other/vlan7".to_owned(),
                ..nic("named")
            },
            nic("option"),
        ];
        let attachment = Attachment {
            name: "sriov-net".to_owned(),
            ..Attachment::default()
        };
        let option = NetworkOption {
            attachment: Some(attachment),
            binding: Some("sriov".to_owned()),
        };
        options.networks.insert("option".to_owned(), option);
    });
    let card = "DOMAIN/devices/interfaces";
    says(
        "cards",
        &vm,
        &[
            ("POD/networks/0", json!({"name": "pods", "pod": {}})),
            (&format!("{card}/0/masquerade"), json!({})),
            (&format!("{card}/0/model"), json!("e1000")),
            (&format!("{card}/0/macAddress"), json!("02:aa:00:00:00:01")),
            ("POD/networks/1/multus/networkName", json!("other/vlan7")),
            (&format!("{card}/1/bridge"), json!({})),
            ("POD/networks/2/multus/networkName", json!("sriov-net")),
            (&format!("{card}/2/sriov"), json!({})),
            (&format!("{card}/2/model"), Value::Null),
        ],
    );
}

#[test]
fn what_can_never_work_names_its_field() {
    let refused = |change: fn(&mut CreateVm, &mut KubevirtOptions)| {
        let (mut request, mut options) = (request(), KubevirtOptions::default());
        change(&mut request, &mut options);
        let layout = Layout::of(&request, &options, &key());
        let cards = cards(&request.networks, &options, "id");
        let error = layout
            .and_then(|layout| crate::check::layout(&layout))
            .err();
        error
            .or(cards.err())
            .expect("refused")
            .field
            .unwrap_or_default()
    };
    for (field, change) in [
        (
            "spec.imageRef",
            (|r, _| r.image = ImageSource::default()) as fn(&mut CreateVm, &mut KubevirtOptions),
        ),
        ("spec.imageRef", |r, _| {
            r.image = ImageSource {
                url: "ftp://x".to_owned(),
                ..ImageSource::default()
            }
        }),
        ("network.libvirt.model", |r, _| {
            r.networks[0].model = "vmxnet3".to_owned()
        }),
        ("spec.networks", |r, _| r.networks.push(nic("second"))),
        ("spec.networks[0]", |_, o| {
            o.networks.insert(
                "net".to_owned(),
                NetworkOption {
                    attachment: None,
                    binding: Some("sriov".to_owned()),
                },
            );
        }),
        ("spec.disks", |r, _| {
            r.disks = vec![DiskSpec {
                name: "root".to_owned(),
                size_gib: 1,
                ..DiskSpec::default()
            }]
        }),
        ("class.extraConfig", |_, o| {
            o.root_disk = Some(DiskOption {
                bus: Some("nvme".to_owned()),
                ..DiskOption::default()
            })
        }),
    ] {
        assert_eq!(refused(change), field);
    }
}

#[test]
fn first_boot_data_stand_where_they_fit() {
    let data = |text: &str, keep, medium| {
        let (mut request, mut options) = (request(), KubevirtOptions::default());
        request.user_data = Some(UserData::CloudInit(Bytes::copy_from_slice(text.as_bytes())));
        options.cloud_init = Some(CloudInitOption { medium, keep });
        built(&request, &options, None, Hot::Stopped)["spec"]["template"]["spec"]["volumes"][1]
            .clone()
    };
    let secret = json!({"secretRef": {"name": "web-cloudinit"}});
    let (no_cloud, drive) = (CloudInitMedium::NoCloud, CloudInitMedium::ConfigDrive);
    for (volume, expected) in [
        (
            data("x", CloudInitPlace::Secret, no_cloud),
            json!({"cloudInitNoCloud": secret}),
        ),
        (
            data("x", CloudInitPlace::Secret, drive),
            json!({"cloudInitConfigDrive": secret}),
        ),
        (
            data("x", CloudInitPlace::Inline, no_cloud),
            json!({"cloudInitNoCloud": {"userData": "x"}}),
        ),
        (
            data(&"x".repeat(2049), CloudInitPlace::Inline, no_cloud),
            json!({"cloudInitNoCloud": secret}),
        ),
    ] {
        let mut volume = volume;
        volume.as_object_mut().expect("an object").remove("name");
        assert_eq!(volume, expected);
    }
}

#[test]
fn fixed_addresses_reach_the_guest_and_ignition_goes_by_config_drive() {
    let mut request = request();
    request.networks[0].address = Some(StaticAddress {
        ip: "10.0.0.5".to_owned(),
        prefix: 24,
        ..StaticAddress::default()
    });
    let cards = cards(&request.networks, &KubevirtOptions::default(), "id-1").expect("cards");
    let seed = Seed::of(&request, &cards, CloudInitOption::default()).expect("a seed");
    let volume = seed.volume("s");
    assert_eq!(
        volume["cloudInitNoCloud"]["networkDataSecretRef"]["name"],
        "s"
    );
    assert!(seed.secret().expect("data").get("networkdata").is_some());
    request.user_data = Some(UserData::Ignition(Bytes::from_static(b"{}")));
    let seed = Seed::of(&request, &cards, CloudInitOption::default()).expect("a seed");
    assert!(seed.volume("s").get("cloudInitConfigDrive").is_some());
}

#[test]
fn images_become_sources() {
    let image = |url: &str, path: &str, template: &str| ImageSource {
        url: url.to_owned(),
        path: path.to_owned(),
        template_name: template.to_owned(),
        ..ImageSource::default()
    };
    let there = |namespace: &str| VmKey::new(namespace, "golden");
    for (image, source) in [
        (
            image("https://a/x", "", ""),
            Source::Http {
                url: "https://a/x".to_owned(),
                checksum: String::new(),
            },
        ),
        (
            image("docker://quay.io/x", "", ""),
            Source::Registry {
                url: "docker://quay.io/x".to_owned(),
            },
        ),
        (
            image("s3://b/x", "", ""),
            Source::S3 {
                url: "s3://b/x".to_owned(),
            },
        ),
        (
            image("gs://b/x", "", ""),
            Source::Gcs {
                url: "gs://b/x".to_owned(),
            },
        ),
        (
            image("pvc://images/golden", "", ""),
            Source::Claim(there("images")),
        ),
        (image("pvc:///golden", "", ""), Source::Claim(there("team"))),
        (
            image("snapshot://images/golden", "", ""),
            Source::Snapshot(there("images")),
        ),
        (image("", "golden", ""), Source::Claim(there("team"))),
        (
            image("", "", "images/golden"),
            Source::DataSource(there("images")),
        ),
    ] {
        assert_eq!(
            Source::of_image(&image, "team").expect("understood"),
            source,
            "{image:?}"
        );
    }
}

#[test]
fn claims_and_volumes_are_owned_by_the_vm() {
    let mut request = request();
    request.class.disk_defaults = Some(DiskDefaults {
        disk_type: String::new(),
        size_gib: 20,
    });
    let key = key();
    let none = std::collections::BTreeMap::new();
    let anchor = Anchor {
        key: &key,
        uid: "u-1",
        marks: Marks {
            owner: request.owner.as_ref(),
            labels: &none,
        },
    };
    let disk = |request: &CreateVm| {
        let layout = Layout::of(request, &KubevirtOptions::default(), &key).expect("a layout");
        anchor.disk(&layout.root, &Shape::default())
    };
    let (kind, claim) = disk(&request);
    assert_eq!(kind, Kind::Claim);
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "20Gi");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u-1");
    assert_eq!(claim["metadata"]["annotations"]["polyvirt.io/vm"], "web");
    request.image = ImageSource {
        url: "https://a/x".to_owned(),
        checksum: "ab".to_owned(),
        checksum_type: "sha512".to_owned(),
        ..ImageSource::default()
    };
    let (kind, volume) = disk(&request);
    assert_eq!(kind, Kind::DataVolume);
    assert_eq!(volume["spec"]["source"]["http"]["checksum"], "sha512:ab");
    request.image = ImageSource {
        template_name: "golden".to_owned(),
        ..ImageSource::default()
    };
    let reference = disk(&request).1["spec"]["sourceRef"].clone();
    assert_eq!(
        reference,
        json!({"kind": "DataSource", "namespace": "team", "name": "golden"})
    );
}

fn vm_facts(status: Value) -> VmFacts {
    let object = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": "web", "namespace": "team", "labels": {"polyvirt.io/identity": "id-1"}},
        "spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 4}, "memory": {"guest": "2Gi"}}}}},
        "status": status,
    });
    let object = serde_json::from_value(object).expect("an object");
    match Fact::read(Kind::Vm, &object) {
        Some(Fact::Vm(facts)) => *facts,
        other => panic!("{other:?}"),
    }
}

fn state(vm: &VmFacts, instance: Option<&InstanceFacts>) -> polyvirt_contract::model::VmState {
    let key = key();
    let known = Known {
        key: &key,
        vm,
        instance,
        claims: std::collections::BTreeMap::new(),
        snapshots: None,
        revision: 1,
    };
    known.state()
}

fn instance(phase: &str) -> InstanceFacts {
    InstanceFacts {
        phase: phase.to_owned(),
        ..InstanceFacts::default()
    }
}

#[test]
fn every_printable_status_has_a_meaning() {
    let failing = json!([{"type": "Ready", "status": "False", "message": "why"}]);
    for (printable, phase, power, fault) in [
        ("Stopped", None, PowerState::Off, ""),
        ("Provisioning", None, PowerState::Off, ""),
        ("WaitingForVolumeBinding", None, PowerState::Off, ""),
        (
            "WaitingForReceiver",
            Some("WaitingForSync"),
            PowerState::Off,
            "",
        ),
        ("Starting", Some("Scheduling"), PowerState::Off, ""),
        ("Running", Some("Running"), PowerState::On, ""),
        ("Migrating", Some("Running"), PowerState::On, ""),
        ("Stopping", Some("Running"), PowerState::On, ""),
        ("Terminating", Some("Succeeded"), PowerState::Off, ""),
        ("Unknown", None, PowerState::Unknown, ""),
        ("Unknown", Some("Unknown"), PowerState::Unknown, ""),
        (
            "ErrorUnschedulable",
            Some("Scheduling"),
            PowerState::Off,
            "ErrorUnschedulable: why",
        ),
        (
            "ErrImagePull",
            Some("Scheduling"),
            PowerState::Off,
            "ErrImagePull: why",
        ),
        (
            "ImagePullBackOff",
            Some("Scheduling"),
            PowerState::Off,
            "ImagePullBackOff: why",
        ),
        (
            "ErrorPvcNotFound",
            None,
            PowerState::Off,
            "ErrorPvcNotFound: why",
        ),
        (
            "DataVolumeError",
            None,
            PowerState::Off,
            "DataVolumeError: why",
        ),
        (
            "CrashLoopBackOff",
            None,
            PowerState::Off,
            "CrashLoopBackOff: why",
        ),
    ] {
        let vm = vm_facts(json!({"printableStatus": printable, "conditions": failing}));
        let instance = phase.map(instance);
        let state = state(&vm, instance.as_ref());
        assert_eq!(state.power, power, "{printable}");
        assert_eq!(state.fault, fault, "{printable}");
        assert_eq!(state.stage, Stage::Whole, "{printable}");
    }
    let mut paused = instance("Running");
    paused.is_paused = true;
    let vm = vm_facts(json!({"printableStatus": "Paused"}));
    assert_eq!(state(&vm, Some(&paused)).power, PowerState::Suspended);
}

#[test]
fn what_waits_for_a_restart_is_named() {
    let waits = json!({"conditions": [{"type": "RestartRequired", "status": "True"}]});
    let mut running = instance("Running");
    running.size.cpu = 2;
    running.size.memory_mib = 2048;
    let state_of = |status: Value| state(&vm_facts(status), Some(&running));
    assert_eq!(
        state_of(waits.clone()).restart_required,
        ["spec.resources.cpu"]
    );
    assert_eq!(state_of(waits).cpu, 2, "what it has, not what it will have");
    assert!(
        state_of(json!({})).restart_required.is_empty(),
        "it is being plugged in"
    );
}
