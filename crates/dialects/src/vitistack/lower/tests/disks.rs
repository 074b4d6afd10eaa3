//! Disks and their claims.

use super::*;

fn claims(lowered: &Lowered) -> Vec<(&str, &str, u64)> {
    let each = lowered.disks.iter();
    each.map(|d| (d.name.as_str(), d.claim.as_str(), d.bytes >> 30))
        .collect()
}

#[test]
fn disks_are_merged_by_name_and_named_as_each_form_does() {
    let cases = [
        // By template: machine and disk.
        (
            json!({"template": "medium"}),
            vec![("root", "web-root", 40)],
        ),
        (
            json!({"template": "small", "disks": [{"name": "data", "size": "100Gi"}]}),
            vec![("root", "web-root", 20), ("data", "web-data", 100)],
        ),
        (
            json!({"template": "small", "disks": [{"name": "data", "size": "1Gi"}, {"name": "root", "size": "30Gi"}]}),
            vec![("root", "web-root", 30), ("data", "web-data", 1)],
        ),
        (
            json!({"template": "small", "disks": [{"name": "root", "storageClass": "fast"}]}),
            vec![("root", "web-root", 20)],
        ),
        (
            json!({"template": "small", "disks": [{"name": "sys", "size": "5Gi", "boot": true}]}),
            vec![("sys", "web-sys", 5), ("root", "web-root", 20)],
        ),
        // By class: the machine's name for the disk that it boots from.
        (json!({}), vec![("root", "web", 10)]),
        (
            json!({"disks": [{"sizeGB": 30}, {"sizeGB": 5}, {"name": "log", "sizeGB": 7}]}),
            vec![
                ("root", "web", 30),
                ("disk1", "web-disk1", 5),
                ("log", "web-log", 7),
            ],
        ),
        (
            json!({"disks": [{"name": "log", "sizeGB": 7}, {"name": "sys", "sizeGB": 9, "boot": true}]}),
            vec![("sys", "web", 9), ("log", "web-log", 7)],
        ),
        (
            json!({"disks": [{"name": "a", "sizeGB": 1, "boot": true}, {"name": "b", "sizeGB": 2, "boot": true}]}),
            vec![("a", "web", 1), ("b", "web-b", 2)],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(claims(&world().spec(spec.clone())), expected, "{spec}");
    }
}

#[test]
fn an_edit_never_gives_a_disk_another_claim() {
    let mut world = world();
    let first = world.spec(json!({"disks": [{"name": "sys", "sizeGB": 9, "boot": true}, {"name": "log", "sizeGB": 7}]}));
    world.before = Some(options(&first));
    let edited = world.spec(json!({
        "template": "small",
        "disks": [
            {"name": "log", "size": "8Gi", "boot": true},
            {"name": "sys", "size": "9Gi"},
        ],
    }));
    assert_eq!(
        claims(&edited),
        [
            ("sys", "web", 9),
            ("root", "web-root", 20),
            ("log", "web-log", 8),
        ]
    );
}

/// A world in which the Machine has a VM already.
fn with_vm(spec: Value) -> World {
    let mut world = world();
    let first = world.spec(spec);
    world.root_bytes = Some(first.disks[0].bytes);
    world.before = Some(options(&first));
    world
}

#[test]
fn an_edit_never_takes_the_disk_that_it_boots_from() {
    let data = json!([{"name": "data", "size": "5Gi"}]);
    let template = |name: &str| json!({"template": name, "disks": data});
    let by_template = with_vm(template("medium"));
    let both = vec![("root", "web-root", 40), ("data", "web-data", 5)];
    for (edit, expected) in [
        // A size by another name has no disk of its own.
        (json!({"cpu": {"cores": 2}, "disks": data}), both.clone()),
        // A smaller template has a smaller one, which nobody has asked for.
        (template("small"), both.clone()),
        (template("large"), vec![("root", "web-root", 80), both[1]]),
        (json!({}), vec![both[0]]),
    ] {
        assert_eq!(claims(&by_template.spec(edit.clone())), expected, "{edit}");
    }
    // Who writes a size means it.
    let smaller = json!({"template": "small", "disks": [{"name": "root", "size": "10Gi"}]});
    let error = by_template.error(smaller).to_string();
    assert!(error.starts_with("spec.disks[0].size: "), "{error}");
    let listed = with_vm(json!({"disks": [{"name": "sys", "sizeGB": 9, "boot": true}]}));
    let other = json!({"disks": [{"name": "new", "sizeGB": 3, "boot": true}]});
    let expected = [("sys", "web", 9), ("new", "web-new", 3)];
    assert_eq!(claims(&listed.spec(other)), expected);
    let unnamed = with_vm(json!({"disks": [{"sizeGB": 30}]}));
    let grown = json!({"disks": [{"sizeGB": 40}]});
    assert_eq!(claims(&unnamed.spec(grown)), [("root", "web", 40)]);
}

#[test]
fn a_disk_says_where_it_is_kept() {
    let disk = json!({"name": "root", "size": "20Gi", "storageClass": "fast-ssd", "accessMode": "ReadWriteOnce", "volumeMode": "Block", "type": "sata"});
    let lowered = world().spec(json!({"template": "small", "disks": [disk]}));
    let root = options(&lowered).root_disk.unwrap();
    assert_eq!(root.name.as_deref(), Some("root"));
    assert_eq!(root.claim.as_deref(), Some("web-root"));
    assert_eq!(root.storage_class.as_deref(), Some("fast-ssd"));
    assert_eq!(root.access_mode.as_deref(), Some("ReadWriteOnce"));
    assert_eq!(root.volume_mode.as_deref(), Some("Block"));
    assert_eq!(root.bus.as_deref(), Some("sata"));
    let mut world = world();
    world.settings.storage_class = Some("usual".into());
    world.settings.access_mode = Some("ReadWriteMany".into());
    let root = options(&world.spec(json!({}))).root_disk.unwrap();
    assert_eq!(root.storage_class.as_deref(), Some("usual"));
    assert_eq!(root.access_mode, None, "the StorageProfile comes first");
    assert_eq!(root.unsaid_access_mode.as_deref(), Some("ReadWriteMany"));
    assert_eq!((root.volume_mode, root.bus), (None, None));
}

#[test]
fn nvme_is_virtio() {
    let bus = |word: &str| {
        let disks = json!([{"name": "root", "sizeGB": 1, "type": word}]);
        options(&world().spec(json!({ "disks": disks })))
            .root_disk
            .unwrap()
            .bus
    };
    assert_eq!(bus("nvme"), None);
    assert_eq!(bus("virtio"), None);
    assert_eq!(bus("scsi").as_deref(), Some("scsi"));
}

#[test]
fn odd_sizes_are_kept_to_the_byte() {
    let lowered = world().spec(
        json!({"disks": [{"name": "root", "size": "1500M"}, {"name": "b", "size": "1500M"}]}),
    );
    let options = options(&lowered);
    assert_eq!(options.root_disk.unwrap().size_bytes, Some(1_500_000_000));
    assert_eq!(options.disks["b"].size_bytes, Some(1_500_000_000));
    assert_eq!(lowered.vm.spec.disks[0].size_gib, 2);
    let class = lowered.vm.spec.class.unwrap();
    assert_eq!(class.disk_defaults.unwrap().size.0, "1500000000");
}

#[test]
fn names_that_meet_are_refused() {
    for disks in [
        json!([{"name": "a", "sizeGB": 1}, {"name": "a", "sizeGB": 1}]),
        json!([{"name": "A b", "sizeGB": 1}, {"name": "a-b", "sizeGB": 1}]),
        json!([{"name": "a", "size": "0"}]),
    ] {
        let error = world().error(json!({ "disks": disks }));
        assert!(error.to_string().starts_with("spec.disks"), "{error}");
    }
    let many: Vec<_> = (0..22).map(|_| json!({"sizeGB": 1})).collect();
    assert!(world().lower(&machine(json!({ "disks": many }))).is_err());
}
