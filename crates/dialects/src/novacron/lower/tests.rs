//! What a VM becomes, row by row.
#![allow(
    clippy::needless_pass_by_value,
    reason = "specs are written where they are used"
)]

mod extras;
mod images;
mod networks;
mod snapshots;

use polyvirt_api::infra::{PowerState, ProviderType, RestartPolicy};
use polyvirt_api::novacron::VirtualMachine;
use polyvirt_engine::runtime::key::ObjectKey;
use serde_json::{Value, json};

use super::*;

/// The README's first VM, with a merge patch of its spec.
pub(super) fn vm(patch: &Value) -> VirtualMachine {
    let mut object = json!({
        "apiVersion": "novacron.io/v1alpha1", "kind": "VirtualMachine",
        "metadata": {"name": "my-vm", "namespace": "default", "uid": "uid-1"},
        "spec": {"running": true, "template": {"spec": {
            "resources": {"cpu": 2, "memory": "4Gi", "disk": "50Gi"},
            "image": {"source": "marketplace://ubuntu-22.04-lts"},
            "networks": [{"name": "default", "type": "bridge", "ipv4": {"method": "dhcp"}}],
        }}},
    });
    merge(&mut object, patch);
    serde_json::from_value(object).unwrap()
}

fn merge(into: &mut Value, patch: &Value) {
    match patch {
        Value::Object(members) => {
            for (name, value) in members {
                merge(&mut into[name.as_str()], value);
            }
        }
        other => *into = other.clone(),
    }
}

/// The same, with a merge patch of what the VM is made of.
pub(super) fn made_of(patch: &Value) -> VirtualMachine {
    vm(&json!({"spec": {"template": {"spec": patch}}}))
}

pub(super) struct World {
    pub kind: ProviderType,
    pub networks: Vec<&'static str>,
    pub before: Option<infra::VirtualMachine>,
    pub url: &'static str,
}

impl Default for World {
    fn default() -> Self {
        Self {
            kind: ProviderType::Libvirt,
            networks: Vec::new(),
            before: None,
            url: "https://images.example/jammy.img",
        }
    }
}

impl World {
    pub fn on(kind: ProviderType) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    pub fn lower(&self, vm: &VirtualMachine) -> Result<Lowered, LowerError> {
        let download = |name: &str| {
            let http = infra::HttpImageSource {
                url: self.url.to_owned(),
                ..infra::HttpImageSource::default()
            };
            match name {
                "ubuntu-22.04-lts" => Some(Offer::Download(Box::new(http))),
                "golden" => Some(Offer::Image("golden-3".to_owned())),
                "broken" => Some(Offer::Bad("The entry broken is no image".to_owned())),
                _ => None,
            }
        };
        let around = Surroundings {
            name: vm.metadata.name.as_deref().unwrap(),
            provider: &ObjectKey::new("infra", "hypervisor"),
            provider_type: Some(self.kind),
            marketplace: &download,
            catalogue: &ObjectKey::new("polyvirt-system", "polyvirt-image-catalogue"),
            has_network: &|name| self.networks.contains(&name),
            before: self.before.as_ref(),
        };
        lower(vm, &around)
    }
}

pub(super) fn lowered(vm: &VirtualMachine) -> Lowered {
    World::default().lower(vm).expect("it can be lowered")
}

#[test]
fn the_first_vm_of_the_readme() {
    let found = lowered(&vm(&json!({})));
    let spec = serde_json::to_value(&found.vm.spec).unwrap();
    for (path, expected) in [
        (
            "/providerRef",
            json!({"name": "hypervisor", "namespace": "infra"}),
        ),
        ("/class/cpu", json!(2)),
        ("/class/memory", json!("4Gi")),
        ("/class/diskDefaults/size", json!("50Gi")),
        ("/image/http/url", json!("https://images.example/jammy.img")),
        ("/powerState", json!("On")),
        ("/networks", json!([{"name": "default"}])),
        ("/driftPolicy/power", json!("Correct")),
    ] {
        assert_eq!(spec.pointer(path), Some(&expected), "{path}");
    }
    assert_eq!(found.networks, []);
    assert_eq!(found.snapshot, None);
    assert_eq!(found.ignored, Vec::<String>::new());
    let meta = &found.vm.metadata;
    assert_eq!(meta.name.as_deref(), Some("my-vm"));
    assert_eq!(meta.namespace.as_deref(), Some("default"));
    let owner = &meta.owner_references.as_ref().unwrap()[0];
    assert_eq!(owner.api_version, "novacron.io/v1alpha1");
    assert_eq!(
        (owner.uid.as_str(), owner.controller),
        ("uid-1", Some(true))
    );
}

#[test]
fn a_vm_that_is_not_to_run_is_off() {
    for (running, expected) in [
        (json!(true), PowerState::On),
        (json!(false), PowerState::OffGraceful),
    ] {
        let found = lowered(&vm(&json!({"spec": {"running": running}})));
        assert_eq!(found.vm.spec.power_state, Some(expected));
    }
    let mut silent = serde_json::to_value(vm(&json!({}))).unwrap();
    silent["spec"].as_object_mut().unwrap().remove("running");
    let silent: VirtualMachine = serde_json::from_value(silent).unwrap();
    let power = lowered(&silent).vm.spec.power_state;
    assert_eq!(power, Some(PowerState::OffGraceful));
}

#[test]
fn sizes_are_sizes() {
    let size = |patch: Value| World::default().lower(&made_of(&json!({ "resources": patch })));
    for good in [
        json!({"cpu": 128}),
        json!({"memory": "1Mi"}),
        json!({"memory": "1.5Gi"}),
        json!({"disk": "1G"}),
    ] {
        assert!(size(good.clone()).is_ok(), "{good}");
    }
    for (bad, field) in [
        (json!({"cpu": 0}), "cpu"),
        (json!({"cpu": 129}), "cpu"),
        (json!({"memory": "4"}), "memory"),
        (json!({"memory": "much"}), "memory"),
        (json!({"memory": "4GB"}), "memory"),
        (json!({"disk": ""}), "disk"),
        (json!({"disk": "0"}), "disk"),
        (json!({"disk": "70000Gi"}), "disk"),
        (json!({"disk": "-5Gi"}), "disk"),
    ] {
        let error = size(bad.clone()).expect_err("refused");
        let expected = format!("spec.template.spec.resources.{field}");
        assert_eq!(error.field(), expected, "{bad}");
    }
}

#[test]
fn updates_restart_only_where_that_is_allowed() {
    let strategy =
        |value: Value| World::default().lower(&vm(&json!({"spec": {"updateStrategy": value}})));
    for (value, expected) in [
        (json!({"type": "Recreate"}), RestartPolicy::WhenNeeded),
        (json!({"type": "RollingUpdate"}), RestartPolicy::Never),
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}),
            RestartPolicy::Never,
        ),
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}),
            RestartPolicy::WhenNeeded,
        ),
    ] {
        let found = strategy(value.clone()).unwrap().vm.spec.reconfigure_policy;
        assert_eq!(found.and_then(|p| p.restart), Some(expected), "{value}");
    }
    for (value, field) in [
        (json!({"type": "OnDelete"}), "spec.updateStrategy.type"),
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": -1}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
        ),
    ] {
        assert_eq!(strategy(value).expect_err("refused").field(), field);
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let bad = vm(&json!({"spec": {
        "snapshotPolicy": {"schedule": "often"},
        "migrationPolicy": {"bandwidth": "fast"},
        "updateStrategy": {"type": "Whatever"},
        "template": {"spec": {
            "resources": {"memory": "much"},
            "image": {"source": "ftp://x", "pullPolicy": "Sometimes"},
            "networks": [{"name": "a", "type": "pigeon"}],
            "volumes": [{"name": "a", "size": "big"}],
            "devices": [{"type": "gpu", "count": 0}],
            "lifecycle": {"preStart": {"exec": {"command": ["true"]}}},
        }},
    }}));
    let fields: Vec<_> = problems(&bad)
        .iter()
        .map(|p| p.field().to_owned())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.template.spec.resources.memory",
            "spec.template.spec.image.source",
            "spec.template.spec.image.pullPolicy",
            "spec.template.spec.networks[0].type",
            "spec.template.spec.volumes[0].size",
            "spec.template.spec.devices[0].count",
            "spec.template.spec.lifecycle.preStart.exec",
            "spec.migrationPolicy.bandwidth",
            "spec.snapshotPolicy.schedule",
            "spec.updateStrategy.type",
        ]
    );
    assert_eq!(problems(&vm(&json!({}))), []);
}
