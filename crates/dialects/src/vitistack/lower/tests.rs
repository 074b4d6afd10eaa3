//! Row by row of what people write and what becomes of it.
#![allow(
    clippy::needless_pass_by_value,
    reason = "documents are written where they are used"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_api::vitistack::{
    Machine, MachineClass, NetworkConfiguration, NetworkNamespace, NetworkNamespaceSpec,
    NetworkNamespaceStatus,
};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::user_data::{self, Secrets, Sources};
use serde_json::{Value, json};

use super::*;
use crate::vitistack::settings::Settings;

mod disks;
mod guests;
mod networks;
mod sizes;

/// A world in which Machines are lowered.
struct World {
    settings: Settings,
    classes: Vec<Arc<MachineClass>>,
    networks: BTreeMap<String, Arc<NetworkConfiguration>>,
    space: Option<NetworkNamespace>,
    macs: BTreeMap<String, String>,
    taken: Vec<String>,
    maps: ConfigMaps,
    before: Option<KubevirtOptions>,
    root_bytes: Option<u64>,
}

fn world() -> World {
    World {
        settings: Settings::default(),
        classes: Vec::new(),
        networks: BTreeMap::new(),
        space: None,
        macs: BTreeMap::new(),
        taken: Vec::new(),
        maps: ConfigMaps::new(),
        before: None,
        root_bytes: None,
    }
}

impl World {
    fn class(mut self, name: &str, spec: Value) -> Self {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.classes
            .push(Arc::new(serde_json::from_value(object).unwrap()));
        self
    }

    fn network(mut self, name: &str, spec: Value) -> Self {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let object = serde_json::from_value(object).unwrap();
        self.networks.insert(name.to_owned(), Arc::new(object));
        self
    }

    fn lower(&self, machine: &Machine) -> Result<Lowered, LowerError> {
        let is_taken = |mac: &str| self.taken.iter().any(|t| t == mac);
        let config = ObjectKey::new("configs", "east");
        lower(
            machine,
            &Surroundings {
                settings: &self.settings,
                classes: &self.classes,
                networks: &self.networks,
                network_namespace: self.space.as_ref(),
                known_macs: &self.macs,
                is_taken: &is_taken,
                config_maps: &self.maps,
                config: &config,
                cluster: Some("cluster-uid"),
                before: self.before.as_ref(),
                root_bytes: self.root_bytes,
                presence: if self.root_bytes.is_some() {
                    Presence::There
                } else {
                    Presence::Absent
                },
                medium: None,
            },
        )
    }

    fn spec(&self, spec: Value) -> Lowered {
        self.lower(&machine(spec)).unwrap()
    }

    fn error(&self, spec: Value) -> LowerError {
        self.lower(&machine(spec)).unwrap_err()
    }
}

fn machine(spec: Value) -> Machine {
    let object = json!({
        "metadata": {"name": "web", "namespace": "team", "uid": "u1"},
        "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

fn annotated(spec: Value, annotations: &[(&str, &str)]) -> Machine {
    let mut machine = machine(spec);
    let pairs = annotations.iter();
    let pairs = pairs.map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    machine.metadata.annotations = Some(pairs.collect());
    machine
}

fn options(lowered: &Lowered) -> KubevirtOptions {
    let class = lowered.vm.spec.class.as_ref().unwrap();
    KubevirtOptions::of(&class.extra_config).unwrap()
}

#[test]
fn a_machine_owns_its_virtual_machine_and_both_carry_its_labels() {
    let lowered = world().spec(json!({"template": "medium"}));
    let machine = machine(json!({}));
    assert_eq!(lowered.vm.metadata.name.as_deref(), Some("web"));
    assert_eq!(lowered.vm.metadata.namespace.as_deref(), Some("team"));
    assert!(is_owned(&lowered.vm, &machine));
    let labels: BTreeMap<_, _> = [
        ("vitistack.io/managed-by", "kubevirt-operator"),
        ("vitistack.io/machine", "web"),
        ("vitistack.io/source-machine", "web"),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .into();
    assert_eq!(lowered.vm.metadata.labels.as_ref(), Some(&labels));
    let options = options(&lowered);
    assert_eq!(options.labels, labels);
    assert_eq!(options.namespace.as_deref(), Some("team"));
    assert_eq!(options.owner.unwrap().cluster, "cluster-uid");
    let provider = &lowered.vm.spec.provider_ref;
    assert_eq!(
        (provider.name.as_str(), provider.namespace.as_deref()),
        ("east", Some("configs"))
    );
}

#[test]
fn a_vm_keeps_the_name_that_it_was_given() {
    let fresh = world().spec(json!({}));
    assert_eq!(fresh.vm_name, "vm-web");
    assert_eq!(options(&fresh).adopt_names, ["vm-web", "web"]);
    let proofs = options(&fresh).adopt_labels;
    let proofs: Vec<_> = proofs
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        proofs,
        [
            ("vitistack.io/machine", "web"),
            ("vitistack.io/source-machine", "web")
        ]
    );
    let mut plain = world();
    plain.settings.vm_name_prefix = String::new();
    let named = plain.spec(json!({}));
    assert_eq!(named.vm_name, "web");
    assert_eq!(options(&named).adopt_names, ["web", "vm-web"]);
    plain.before = Some(options(&fresh));
    assert_eq!(plain.spec(json!({})).vm_name, "vm-web");
    let mut recorded = machine(json!({}));
    recorded.status = serde_json::from_value(json!({"vmName": "old-web"})).unwrap();
    let kept = world().lower(&recorded).unwrap();
    assert_eq!(kept.vm_name, "old-web");
    assert_eq!(options(&kept).adopt_names, ["vm-web", "web"]);
}

#[test]
fn a_name_that_kubevirt_does_not_take_is_refused() {
    for name in ["a".repeat(64), "a.b".to_owned()] {
        let mut machine = machine(json!({}));
        machine.metadata.name = Some(name);
        let error = world().lower(&machine).unwrap_err();
        assert_eq!(error.reason(), polyvirt_plan::Reason::InvalidSpec);
        assert!(error.to_string().starts_with("metadata.name: "), "{error}");
    }
}

#[test]
fn a_name_that_is_as_long_as_they_get_is_cut_and_stays_apart() {
    let named = |name: String| {
        let mut machine = machine(json!({}));
        machine.metadata.name = Some(name);
        world().lower(&machine).unwrap().vm_name
    };
    let (one, two) = (named("a".repeat(62) + "1"), named("a".repeat(62) + "2"));
    assert_eq!((one.len(), two.len()), (63, 63));
    assert_ne!(one, two);
    assert_eq!(named("a".repeat(60)), format!("vm-{}", "a".repeat(60)));
}

#[test]
fn the_same_machine_always_gives_the_same_and_an_edit_another_mark() {
    let mark = |spec: Value| {
        let vm = world().spec(spec).vm;
        vm.metadata.annotations.unwrap()[LOWERED_ANNOTATION].clone()
    };
    let (one, two) = (json!({"template": "small"}), json!({"template": "large"}));
    assert_eq!(mark(one.clone()), mark(one.clone()));
    assert_ne!(mark(one), mark(two));
}

#[test]
fn boot_firmware_and_features_follow_the_domain() {
    let domain = json!({
        "machine": {"type": "pc-q35"},
        "features": {"acpi": true, "apic": true, "hyperv": false},
        "firmware": {"bootloader": {"efi": true, "secureBoot": true}},
    });
    let lowered = world().spec(json!({"domain": domain, "bootOrder": ["network", "disk"]}));
    let class = lowered.vm.spec.class.as_ref().unwrap();
    assert_eq!(class.firmware, Firmware::Uefi);
    assert!(class.security_profile.as_ref().unwrap().secure_boot);
    let seen = serde_json::to_value(options(&lowered)).unwrap();
    assert_eq!(seen["machineType"], "pc-q35");
    assert_eq!(
        seen["features"],
        json!({"acpi": true, "apic": true, "hyperv": false})
    );
    assert_eq!(seen["bootOrder"], json!(["network", "disk"]));
    assert_eq!(seen["networkMultiqueue"], true);
    let bios = json!({"firmware": {"bootloader": {"efi": false}}});
    let bios = world().spec(json!({"domain": bios}));
    assert_eq!(bios.vm.spec.class.unwrap().firmware, Firmware::Bios);
    let plain = world().spec(json!({}));
    assert_eq!(plain.vm.spec.class.unwrap().firmware, Firmware::Uefi);
}

#[test]
fn a_medium_is_there_until_it_has_done_its_work() {
    let url = "https://images.example.com/x.iso";
    let os = json!({"os": {"imageID": url}});
    let source = ("kubevirt.io/boot-source", "datavolume");
    let with = |more: &[(&str, &str)]| {
        let all: Vec<_> = [source].iter().chain(more).copied().collect();
        let lowered = world().lower(&annotated(os.clone(), &all)).unwrap();
        serde_json::to_value(options(&lowered)).unwrap()
    };
    let seen = with(&[]);
    assert_eq!(seen["cdrom"]["url"], url);
    assert_eq!(seen["cdrom"]["name"], "cdrom-iso");
    assert_eq!(seen["cdrom"]["claim"], "vm-web-iso");
    assert_eq!(seen["bootOrder"], json!(["disk", "cdrom"]));
    for done in ["vitistack.io/cdrom-ejected", "vitistack.io/os-installed"] {
        let seen = with(&[(done, "true")]);
        assert_eq!(seen["cdrom"], Value::Null);
        assert_eq!(seen["bootOrder"], json!(["disk"]));
    }
    let unmarked = world().spec(os);
    assert_eq!(options(&unmarked).cdrom, None);
    assert!(unmarked.ignored[0].contains("spec.os.imageID"));
    let image = json!({"os": {"imageID": "quay.io/x/y:1"}});
    let registry = [source, ("kubevirt.io/boot-source-type", "registry")];
    let lowered = world().lower(&annotated(image, &registry)).unwrap();
    let cdrom = options(&lowered).cdrom.unwrap();
    assert_eq!(cdrom.url, "docker://quay.io/x/y:1");
    let network = world().spec(json!({}));
    let seen = serde_json::to_value(options(&network)).unwrap();
    assert_eq!(seen["bootOrder"], json!(["disk", "network"]));
}

#[test]
fn power_and_deletion_are_what_the_annotations_say() {
    use polyvirt_api::infra::{DeletionPolicy, PowerState};
    let lowered = |annotations: &[(&str, &str)]| world().lower(&annotated(json!({}), annotations));
    let plain = lowered(&[]).unwrap().vm.spec;
    assert_eq!((plain.power_state, plain.deletion_policy), (None, None));
    let off = lowered(&[("vitistack.io/power-state", "Off")]).unwrap();
    assert_eq!(off.vm.spec.power_state, Some(PowerState::Off));
    let orphan = lowered(&[("vitistack.io/orphan", "true")]).unwrap();
    assert_eq!(orphan.vm.spec.deletion_policy, Some(DeletionPolicy::Retain));
    assert!(lowered(&[("vitistack.io/power-state", "Sometimes")]).is_err());
}

#[test]
fn what_does_nothing_is_named() {
    let lowered = world().spec(json!({
        "backup": {"enabled": true},
        "monitoring": true,
        "securityGroups": ["a"],
        "network": {"assignPublicIP": true, "vpc": "x"},
        "disks": [{"name": "root", "sizeGB": 10, "encrypted": true, "iops": 100}],
    }));
    let expected = [
        "spec.backup",
        "spec.monitoring",
        "spec.securityGroups",
        "spec.network.assignPublicIP",
        "spec.network.vpc",
        "spec.disks[].encrypted",
        "spec.disks[].iops",
    ];
    assert_eq!(lowered.ignored, expected);
    assert!(
        world()
            .spec(json!({"template": "small"}))
            .ignored
            .is_empty()
    );
}
