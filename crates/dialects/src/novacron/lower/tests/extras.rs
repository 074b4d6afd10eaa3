//! Volumes, devices, user data, nodes, hooks, migration, labels.

use polyvirt_api::novacron::IMAGE_SOURCE_ANNOTATION;
use serde_json::json;

use super::*;
use crate::shared::same::LOWERED_ANNOTATION;

fn of(patch: Value) -> Result<Lowered, LowerError> {
    World::default().lower(&made_of(&patch))
}

fn refused(patch: Value) -> String {
    of(patch).expect_err("refused").field().to_owned()
}

#[test]
fn volumes_become_disks() {
    let volumes = json!({"volumes": [
        {"name": "Data_1", "size": "100Gi", "storageClass": "fast", "accessMode": "ReadWriteOnce"},
        {"name": "logs", "size": "1500Mi", "accessMode": "ReadWriteMany"},
    ]});
    let found = of(volumes.clone()).unwrap();
    let disks: Vec<_> = found
        .vm
        .spec
        .disks
        .iter()
        .map(|d| (d.name.as_str(), d.size_gib, d.storage_class.as_deref()))
        .collect();
    assert_eq!(disks, [("data-1", 100, Some("fast")), ("logs", 2, None)]);
    assert_eq!(found.ignored, ["spec.template.spec.volumes[1].accessMode"]);
    let there = World::on(ProviderType::Kubevirt)
        .lower(&made_of(&volumes))
        .unwrap();
    let options = KubevirtOptions::of(&there.vm.spec.class.unwrap().extra_config).unwrap();
    assert_eq!(
        options.disks["logs"].access_mode.as_deref(),
        Some("ReadWriteMany")
    );
    assert_eq!(there.ignored, Vec::<String>::new());
    for (volume, field) in [
        (json!({"name": "a", "size": "big"}), "size"),
        (json!({"name": "a", "size": "0"}), "size"),
        (json!({"name": "!", "size": "1Gi"}), "name"),
        (
            json!({"name": "a", "size": "1Gi", "accessMode": "Mine"}),
            "accessMode",
        ),
    ] {
        let found = refused(json!({"volumes": [volume]}));
        assert_eq!(found, format!("spec.template.spec.volumes[0].{field}"));
    }
    let twice = json!([{"name": "a", "size": "1Gi"}, {"name": "A", "size": "1Gi"}]);
    assert_eq!(
        refused(json!({ "volumes": twice })),
        "spec.template.spec.volumes[1].name"
    );
}

#[test]
fn gpus_are_asked_for_or_named() {
    let gpu =
        json!({"devices": [{"type": "gpu", "vendor": "nvidia", "model": "tesla-t4", "count": 2}]});
    let found = of(gpu.clone()).unwrap().vm.spec;
    let wanted = serde_json::to_value(found.resources.unwrap()).unwrap();
    let gpus = json!({"devices": [
        {"name": "device-1", "type": "gpu", "vendor": "nvidia", "model": "tesla-t4", "count": 2},
    ]});
    assert_eq!(wanted, gpus);
    let there = World::on(ProviderType::Kubevirt)
        .lower(&made_of(&gpu))
        .unwrap()
        .vm
        .spec;
    assert_eq!(there.resources, None);
    let options = KubevirtOptions::of(&there.class.unwrap().extra_config).unwrap();
    let names: Vec<_> = options
        .gpus
        .iter()
        .map(|g| (g.name.as_str(), g.device_name.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            ("gpu1", "nvidia.com/tesla-t4"),
            ("gpu2", "nvidia.com/tesla-t4")
        ]
    );
}

fn three_kinds() -> Value {
    json!({"devices": [
        {"type": "gpu", "vendor": "nvidia", "model": "a100"},
        {"type": "gpu", "vendor": "amd", "model": "mi300"},
        {"type": "pci", "model": "intel.com/qat"},
        {"type": "fpga"},
    ]})
}

#[test]
fn devices_of_every_kind_are_asked_for() {
    let found = of(three_kinds()).unwrap();
    assert_eq!(found.ignored, Vec::<String>::new());
    let wanted = serde_json::to_value(found.vm.spec.resources.unwrap()).unwrap();
    assert_eq!(
        wanted["devices"],
        json!([
            {"name": "device-1", "type": "gpu", "vendor": "nvidia", "model": "a100", "count": 1},
            {"name": "device-2", "type": "gpu", "vendor": "amd", "model": "mi300", "count": 1},
            {"name": "device-3", "model": "intel.com/qat", "count": 1},
            {"name": "device-4", "model": "fpga", "count": 1},
        ])
    );
    let there = World::on(ProviderType::Kubevirt)
        .lower(&made_of(&three_kinds()))
        .unwrap();
    let options = KubevirtOptions::of(&there.vm.spec.class.unwrap().extra_config).unwrap();
    assert_eq!(options.host_devices[0].device_name, "intel.com/qat");
    assert_eq!(options.gpus.len(), 2);
    let none = json!({"devices": [{"type": "gpu", "count": 0}]});
    assert_eq!(refused(none), "spec.template.spec.devices[0].count");
    let many = vec![json!({"type": "gpu"}); 9];
    let many = json!({ "devices": many });
    assert_eq!(refused(many), "spec.template.spec.devices");
}

#[test]
fn devices_that_come_after_the_vm_do_nothing_and_are_told() {
    let one = json!({"devices": [{"type": "gpu", "vendor": "nvidia", "model": "a100"}]});
    let mut first = of(one).unwrap().vm;
    let waits = World {
        before: Some(first.clone()),
        ..World::default()
    };
    let found = waits.lower(&made_of(&three_kinds())).unwrap();
    assert_eq!(found.vm.spec.resources.unwrap().devices.len(), 4);
    assert_eq!(found.ignored, Vec::<String>::new());
    first.status = Some(infra::VirtualMachineStatus {
        id: Some("vm-1".to_owned()),
        ..infra::VirtualMachineStatus::default()
    });
    let exists = World {
        before: Some(first.clone()),
        ..World::default()
    };
    let found = exists.lower(&made_of(&three_kinds())).unwrap();
    assert_eq!(found.vm.spec.resources, first.spec.resources);
    let late = |index: usize| format!("spec.template.spec.devices[{index}]");
    assert_eq!(found.ignored, [late(1), late(2), late(3)]);
}

#[test]
fn user_data_is_cloud_init_or_ignition() {
    let text = "#cloud-config\npackages: [nginx]\n";
    let found = of(json!({ "userData": text }))
        .unwrap()
        .vm
        .spec
        .user_data
        .unwrap();
    assert_eq!(found.cloud_init.unwrap().inline.as_deref(), Some(text));
    let text = "{\"ignition\": {\"version\": \"3.4.0\"}}";
    let found = of(json!({ "userData": text }))
        .unwrap()
        .vm
        .spec
        .user_data
        .unwrap();
    assert_eq!(found.ignition.unwrap().inline.as_deref(), Some(text));
    assert_eq!(
        of(json!({"userData": "  \n"})).unwrap().vm.spec.user_data,
        None
    );
}

fn nodes(operator: &str, values: Value) -> Value {
    let term = json!({"matchExpressions": [
        {"key": "node.novacron.io/region", "operator": operator, "values": values},
    ]});
    json!({
        "nodeSelector": {"node.novacron.io/type": "compute"},
        "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        }},
    })
}

#[test]
fn nodes_are_chosen_by_labels() {
    let wanted = nodes("In", json!(["us-east-1", "us-west-2"]));
    let found = of(wanted.clone()).unwrap().vm.spec.placement.unwrap();
    assert_eq!(found.node_selector["node.novacron.io/type"], "compute");
    assert_eq!(
        serde_json::to_value(found.affinity).unwrap(),
        wanted["affinity"]
    );
    let there = World::on(ProviderType::Kubevirt)
        .lower(&made_of(&wanted))
        .unwrap()
        .vm
        .spec;
    assert_eq!(there.placement, None);
    let options = KubevirtOptions::of(&there.class.unwrap().extra_config).unwrap();
    assert_eq!(options.node_selector["node.novacron.io/type"], "compute");
    assert_eq!(options.affinity.unwrap(), wanted["affinity"]);
    for (operator, values) in [
        ("Near", json!([])),
        ("In", json!([])),
        ("Exists", json!(["x"])),
        ("Gt", json!(["much"])),
    ] {
        let field = refused(nodes(operator, values));
        assert!(
            field.ends_with("nodeSelectorTerms[0].matchExpressions[0].operator"),
            "{field}"
        );
    }
}

#[test]
fn a_command_may_have_a_limit_of_its_own() {
    let stop = |seconds: i32| {
        json!({"lifecycle": {"preStop": {
            "exec": {"command": ["/bin/true"], "timeoutSeconds": seconds}, "timeoutSeconds": 5,
        }}})
    };
    let found = of(stop(300)).unwrap();
    let lifecycle = serde_json::to_value(found.vm.spec.lifecycle).unwrap();
    assert_eq!(lifecycle["preStop"]["timeoutSeconds"], 300);
    assert_eq!(found.ignored, Vec::<String>::new());
    assert_eq!(
        of(stop(900)).unwrap().ignored,
        ["spec.template.spec.lifecycle.preStop.exec.timeoutSeconds"]
    );
    assert_eq!(
        refused(stop(0)),
        "spec.template.spec.lifecycle.preStop.exec.timeoutSeconds"
    );
}

#[test]
fn hooks_go_on_or_are_told() {
    let get = json!({"path": "/drain", "port": 8080, "scheme": "https"});
    let gate = json!({"path": "/", "port": 80, "host": "gate.example"});
    let found = of(json!({"lifecycle": {
        "preStart": {"httpGet": gate},
        "postStart": {"exec": {"command": ["/bin/true"]}},
        "preStop": {"httpGet": get, "timeoutSeconds": 900},
    }}))
    .unwrap();
    let lifecycle = serde_json::to_value(found.vm.spec.lifecycle).unwrap();
    assert_eq!(
        lifecycle["postStart"]["exec"]["command"],
        json!(["/bin/true"])
    );
    assert_eq!(
        lifecycle["preStop"]["httpGet"],
        json!({"path": "/drain", "port": 8080, "scheme": "HTTPS"})
    );
    assert_eq!(lifecycle["preStart"]["httpGet"]["host"], "gate.example");
    assert_eq!(lifecycle["postStart"]["timeoutSeconds"], 30);
    assert_eq!(lifecycle["preStop"]["timeoutSeconds"], 300);
    assert_eq!(
        found.ignored,
        ["spec.template.spec.lifecycle.preStop.timeoutSeconds"]
    );
    for (hooks, field) in [
        (
            json!({"preStart": {"exec": {"command": ["x"]}}}),
            "preStart.exec",
        ),
        (
            json!({"preStart": {"httpGet": {"path": "/", "port": 80}}}),
            "preStart.httpGet.host",
        ),
        (json!({"preStop": {"timeoutSeconds": 5}}), "preStop"),
        (
            json!({"preStop": {"exec": {"command": []}}}),
            "preStop.exec.command",
        ),
        (
            json!({"preStop": {"httpGet": {"path": "/", "port": 0}}}),
            "preStop.httpGet.port",
        ),
        (
            json!({"preStop": {"httpGet": {"path": "/", "port": 1, "scheme": "gopher"}}}),
            "preStop.httpGet.scheme",
        ),
        (
            json!({"postStart": {"exec": {"command": ["x"]}, "timeoutSeconds": 0}}),
            "postStart.timeoutSeconds",
        ),
    ] {
        assert_eq!(
            refused(json!({ "lifecycle": hooks })),
            format!("spec.template.spec.lifecycle.{field}")
        );
    }
}

#[test]
fn a_migration_policy_is_read_and_told() {
    let readme = json!({"allowLiveMigration": true, "compression": true, "encrypted": true, "bandwidth": "10Gbps"});
    let found = lowered(&vm(&json!({"spec": {"migrationPolicy": readme}})));
    let terms = MigrationTerms {
        live: Live::Allowed,
        bytes_per_second: Some(1_250_000_000),
    };
    assert_eq!(found.migration, terms);
    assert!(found.ignored.is_empty() && found.move_to.is_none());
    assert_eq!(lowered(&vm(&json!({}))).migration.live, Live::Forbidden);
}

#[test]
fn a_move_is_a_vm_migration_with_the_terms_of_the_policy() {
    let policy = json!({"allowLiveMigration": true, "compression": true, "encrypted": true, "bandwidth": "10Gbps"});
    let asked = |policy: serde_json::Value| {
        vm(&json!({
            "metadata": {"annotations": {"novacron.io/migrate-to": " node-2 "}},
            "spec": {"migrationPolicy": policy},
        }))
    };
    let made = lowered(&asked(policy)).move_to.expect("a VMMigration");
    assert_eq!(made.spec.target.host.as_deref(), Some("node-2"));
    let live = made.spec.options.and_then(|o| o.live).expect("terms");
    assert!(live.compression && live.encrypted);
    assert_eq!(live.bandwidth.as_deref(), Some("10Gbps"));
    assert!(made.metadata.owner_references.is_some_and(|o| o.len() == 1));
    let forbidden = asked(json!({"allowLiveMigration": false}));
    let found = lowered(&forbidden);
    assert_eq!(found.move_to, None);
    let why = refusal(&forbidden, &found.migration).expect("told");
    assert!(why.contains("allowLiveMigration"), "{why}");
}

#[test]
fn labels_go_on_but_none_of_ours() {
    let marked = vm(&json!({
        "metadata": {"annotations": {"virtrigaud.io/paused": "true", "mine": "no"}},
        "spec": {"template": {"metadata": {
            "labels": {"app": "web", "polyvirt.io/identity": "x"},
            "annotations": {"note": "1", "virtrigaud.io/force-delete": "true", "infra.virtrigaud.io/x": "y"},
        }}},
    }));
    let found = lowered(&marked);
    assert_eq!(
        found.ignored,
        [
            "spec.template.metadata.labels[polyvirt.io/identity]",
            "spec.template.metadata.annotations[infra.virtrigaud.io/x]",
            "spec.template.metadata.annotations[virtrigaud.io/force-delete]",
        ]
    );
    let meta = found.vm.metadata;
    assert_eq!(
        meta.labels,
        Some([("app".to_owned(), "web".to_owned())].into())
    );
    let annotations = meta.annotations.unwrap();
    let keys: Vec<_> = annotations.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "note",
            IMAGE_SOURCE_ANNOTATION,
            LOWERED_ANNOTATION,
            "virtrigaud.io/paused"
        ]
    );
    let plain = lowered(&vm(&json!({}))).vm.metadata.annotations.unwrap();
    assert_ne!(plain[LOWERED_ANNOTATION], annotations[LOWERED_ANNOTATION]);
}
