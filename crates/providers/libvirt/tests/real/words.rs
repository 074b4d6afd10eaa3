//! All that a class and a network can say, taken by a real libvirt. Every definition is held against libvirt's own schema when it
//! is made (`VIR_DOMAIN_DEFINE_VALIDATE`), so one that is made is valid; here each word is seen to be in it.

use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{
    CreateVm, Firmware, NicSpec, PerformanceProfile, PowerOp, ResourceLimits, SecurityProfile,
};

use crate::lab::{Lab, nic};

const WORDS: &[(&str, &str, &str)] = &[
    ("libvirt.machine", "pc-q35-10.0", "machine='pc-q35-10.0'"),
    ("libvirt.cpuMode", "custom", "<cpu mode='custom'"),
    ("libvirt.cpuModel", "qemu64", ">qemu64</model>"),
    ("libvirt.hugepages", "2Mi", "<page size='2048' unit='KiB'/>"),
    (
        "libvirt.numaNodeset",
        "0",
        "<memory mode='strict' nodeset='0'/>",
    ),
    ("libvirt.diskCache", "none", "cache='none'"),
    ("libvirt.diskIo", "native", "io='native'"),
    (
        "libvirt.iotune.totalIopsSec",
        "700",
        "<total_iops_sec>700</total_iops_sec>",
    ),
    (
        "libvirt.iotune.readBytesSec",
        "900001",
        "<read_bytes_sec>900001</read_bytes_sec>",
    ),
    (
        "libvirt.iotune.writeBytesSec",
        "900002",
        "<write_bytes_sec>900002</write_bytes_sec>",
    ),
    ("libvirt.video", "virtio", "<model type='virtio'"),
    ("libvirt.ovs", "true", "<virtualport type='openvswitch'>"),
];

fn card(name: &str, bridge: &str, vlan: u16) -> NicSpec {
    NicSpec {
        bridge: bridge.to_owned(),
        vlan,
        mtu: 1400,
        model: "virtio".to_owned(),
        ..nic(name)
    }
}

fn with_words(desired: CreateVm) -> CreateVm {
    let mut desired = desired;
    let words = WORDS
        .iter()
        .map(|(word, value, _)| ((*word).to_owned(), (*value).to_owned()));
    desired.class.extra_config.extend(words);
    desired.class.limits = Some(ResourceLimits {
        cpu_limit: Some(500),
        cpu_shares: Some(2048),
        memory_limit_mib: Some(1024),
        ..ResourceLimits::default()
    });
    desired.networks = vec![card("eth0", "ovsbr0", 77)];
    desired
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_word_of_a_class_is_in_a_definition_that_libvirt_takes() {
    let lab = Lab::new().await;
    let vm = lab.create(&with_words(lab.desired("worded", 1))).await;
    let xml = lab.host.virsh(&["dumpxml", "--inactive", "worded"]);
    let limits = [
        "<shares>2048</shares>",
        "<hard_limit unit='KiB'>1048576</hard_limit>",
        "<global_quota>",
    ];
    let cards = [
        "<tag id='77'/>",
        "<mtu size='1400'/>",
        "<source bridge='ovsbr0'/>",
        "<serial>polyvirt-vda</serial>",
    ];
    let words = WORDS.iter().map(|(_, _, element)| *element);
    for element in words.chain(limits).chain(cards) {
        assert!(xml.contains(element), "no {element} in {xml}");
    }
    // What libvirt has taken it takes again, with its schema.
    let file = lab.host.path("worded.xml");
    std::fs::write(&file, &xml).expect("written");
    lab.host
        .virsh(&["define", "--validate", &file.display().to_string()]);
    lab.delete(&vm).await;

    // A bridge of the kernel that knows VLANs has the tag in the same place, without a port of Open vSwitch.
    let mut plain = lab.desired("plain", 2);
    plain.networks = vec![card("eth0", "br0", 78)];
    let vm = lab.create(&plain).await;
    let xml = lab.host.virsh(&["dumpxml", "--inactive", "plain"]);
    assert!(
        xml.contains("<tag id='78'/>") && !xml.contains("openvswitch"),
        "{xml}"
    );
    lab.delete(&vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_with_a_pci_bus_starts() {
    let lab = Lab::new().await;
    let mut desired = lab.desired("old", 1);
    let word = ("libvirt.machine".to_owned(), "pc".to_owned());
    desired.class.extra_config.extend([word]);
    let vm = lab.create(&desired).await;
    lab.power(&vm, PowerOp::On).await;
    let xml = lab.host.virsh(&["dumpxml", "old"]);
    for element in ["machine='pc-i440fx", "model='pci-root'"] {
        assert!(xml.contains(element), "no {element} in {xml}");
    }
    lab.delete(&vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_with_all_defences_starts() {
    let lab = Lab::new().await;
    let mut desired = lab.desired("guarded", 1);
    desired.class.firmware = Firmware::Uefi;
    desired.class.security = Some(SecurityProfile {
        secure_boot: true,
        tpm: true,
        tpm_version: "2.0".to_owned(),
        vtd: true,
        ..SecurityProfile::default()
    });
    desired.class.performance = Some(PerformanceProfile {
        nested_virtualization: true,
        ..PerformanceProfile::default()
    });
    let vm = lab.create(&desired).await;
    lab.power(&vm, PowerOp::On).await;
    let xml = lab.host.virsh(&["dumpxml", "guarded"]);
    for element in [
        "secure='yes'",
        "<smm state='on'",
        "<tpm model='tpm-crb'>",
        "version='2.0'",
        "<iommu model='intel'",
    ] {
        assert!(xml.contains(element), "no {element} in {xml}");
    }
    assert!(
        lab.provider
            .describe(&vm.id)
            .await
            .expect("answers")
            .is_some()
    );
    lab.delete(&vm).await;
}
