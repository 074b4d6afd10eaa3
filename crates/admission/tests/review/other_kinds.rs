//! Classes, images, networks, snapshots, clones, migrations, policies.

use polyvirt_admission::Decision;
use serde_json::{Value, json};

use crate::world::{World, assert_warned, fields};

/// Kind, spec, and the fields of the refusal.
fn refusals() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let static_ip = |address: &str, gateway: &str| json!({"network": {}, "ipAllocation": {"type": "Static", "staticConfig": {"address": address, "gateway": gateway}}});
    vec![
        ("VMClass", json!({"cpu": 1, "memory": "1Gi"}), vec![]),
        (
            "VMClass",
            json!({"cpu": 1, "memory": "1e99"}),
            vec!["spec.memory"],
        ),
        (
            "VMClass",
            json!({"cpu": 1, "memory": "1Gi", "diskDefaults": {"size": "-1Gi"}}),
            vec!["spec.diskDefaults.size"],
        ),
        (
            "VMClass",
            json!({"cpu": 1, "memory": "1Gi", "resourceLimits": {"memoryLimit": "1Gi", "memoryReservation": "1Gi"}}),
            vec![],
        ),
        (
            "VMImage",
            json!({"source": {"http": {"url": "https://x"}}}),
            vec![],
        ),
        (
            "VMImage",
            json!({"source": {"http": {"url": "https://x", "checksum": "00"}}}),
            vec!["spec.source.http.checksum"],
        ),
        (
            "VMImage",
            json!({"source": {"libvirt": {"url": "https://x", "checksum": "0".repeat(64)}}}),
            vec![],
        ),
        (
            "VMNetworkAttachment",
            static_ip("192.0.2.10/24", "192.0.2.1"),
            vec![],
        ),
        (
            "VMNetworkAttachment",
            static_ip("192.0.2.10/24", "192.0.9.1"),
            vec!["spec.ipAllocation.staticConfig.gateway"],
        ),
        (
            "VMNetworkAttachment",
            static_ip("192.0.2.255/24", "192.0.2.1"),
            vec!["spec.ipAllocation.staticConfig.address"],
        ),
        (
            "VMNetworkAttachment",
            json!({"network": {}, "ipAllocation": {"dnsConfig": {"servers": ["a.example"]}}}),
            vec!["spec.ipAllocation.dnsConfig.servers"],
        ),
    ]
}

fn refusals_of_wishes() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let snapshot = |schedule: Value| json!({"vmRef": {"name": "a"}, "schedule": schedule});
    let clone = |target: Value| json!({"source": {"vmRef": {"name": "a"}}, "target": target});
    vec![
        ("VMSnapshot", json!({"vmRef": {"name": "a"}}), vec![]),
        (
            "VMSnapshot",
            snapshot(json!({"enabled": true, "cronSpec": "0 3 * * *"})),
            vec![],
        ),
        (
            "VMSnapshot",
            snapshot(
                json!({"enabled": true, "cronSpec": "TZ=Asia/Tokyo 0 3 * * *", "timezone": "Europe/Oslo"}),
            ),
            vec!["spec.schedule.cronSpec"],
        ),
        (
            "VMSnapshot",
            snapshot(json!({"enabled": true, "cronSpec": "99 3 * * *"})),
            vec!["spec.schedule.cronSpec"],
        ),
        (
            "VMSnapshot",
            json!({"vmRef": {"name": "a"}, "snapshotConfig": {"encryption": {"enabled": true}}}),
            vec!["spec.snapshotConfig.encryption.enabled"],
        ),
        ("VMClone", clone(json!({"name": "b"})), vec![]),
        (
            "VMClone",
            clone(json!({"name": "a"})),
            vec!["spec.target.name"],
        ),
        (
            "VMClone",
            clone(json!({"name": "a", "namespace": "elsewhere"})),
            vec![],
        ),
        (
            "VMClone",
            clone(
                json!({"name": "b", "networks": [{"name": "x", "macAddress": "01:00:00:00:00:00"}]}),
            ),
            vec!["spec.target.networks[x].macAddress"],
        ),
        (
            "VMMigration",
            json!({"source": {"vmRef": {"name": "a"}}, "target": {"name": "b", "providerRef": {"name": "hv"}}}),
            vec![],
        ),
        (
            "VMMigration",
            json!({"source": {"vmRef": {"name": "a"}}, "target": {"name": "b", "providerRef": {"name": "hv"}, "networks": [{"name": "x", "dns": "y"}]}}),
            vec!["spec.target.networks[x].dns"],
        ),
        (
            "VMMigration",
            json!({"source": {"vmRef": {"name": "a"}}, "target": {"providerRef": {"name": "hv"}}, "options": {"live": {"bandwidth": "fast"}}}),
            vec!["spec.options.live.bandwidth"],
        ),
        (
            "VMPlacementPolicy",
            json!({"hard": {"hosts": ["a", "b"], "excludedHosts": ["a"]}}),
            vec![],
        ),
        (
            "VMPlacementPolicy",
            json!({"hard": {"hosts": ["a"], "excludedHosts": ["a", "b"]}}),
            vec!["spec.hard.hosts"],
        ),
        (
            "VMPlacementPolicy",
            json!({"resourceConstraints": {"minMemoryPerHost": "-1Gi"}}),
            vec!["spec.resourceConstraints.minMemoryPerHost"],
        ),
    ]
}

#[test]
fn what_can_never_work_is_refused_by_field() {
    for (kind, spec, expected) in refusals().into_iter().chain(refusals_of_wishes()) {
        let verdict = World::default().create(kind, spec.clone());
        assert_eq!(fields(&verdict), expected, "{kind} {spec}");
    }
}

#[test]
fn the_guest_of_a_clone_is_looked_at() {
    let clone = |customization: Value| json!({"source": {"vmRef": {"name": "a"}}, "target": {"name": "b"}, "customization": customization});
    let table = [
        (
            json!({"networks": [{"name": "x", "ipAddress": "192.0.2.10", "subnetMask": "255.255.255.0", "gateway": "192.0.2.1"}]}),
            vec![],
        ),
        (
            json!({"networks": [{"name": "x", "ipAddress": "192.0.2.10", "subnetMask": "255.0.255.0"}]}),
            vec!["spec.customization.networks[x].subnetMask"],
        ),
        (
            json!({"networks": [{"name": "x", "ipAddress": "192.0.2.10", "subnetMask": "255.255.255.0", "gateway": "192.0.3.1"}]}),
            vec!["spec.customization.networks[x].gateway"],
        ),
        (
            json!({"userData": {"cloudInit": {"inline": "#cloud-config\na: ["}}}),
            vec!["spec.customization.userData.cloudInit.inline"],
        ),
    ];
    for (customization, expected) in table {
        let verdict = World::default().create("VMClone", clone(customization));
        assert_eq!(fields(&verdict), expected);
    }
}

/// A world with VMs `a`, on a provider that can take plain snapshots only, and `b`.
fn with_vms() -> World {
    let spec = json!({"spec": {"providerRef": {"name": "hv"}, "classRef": {"name": "small"}}});
    let world = World::furnished().with("VirtualMachine", "a", spec.clone());
    world.with("VirtualMachine", "b", spec)
}

#[test]
fn the_rest_of_the_world_only_warns() {
    let migrate = |target: Value| json!({"source": {"vmRef": {"name": "a"}, "deleteAfterMigration": true}, "target": target, "options": {"verifyChecksums": false}});
    let table = [
        ("VMSnapshot", json!({"vmRef": {"name": "a"}}), vec![]),
        (
            "VMSnapshot",
            json!({"vmRef": {"name": "x"}}),
            vec!["VirtualMachine team/x"],
        ),
        (
            "VMSnapshot",
            json!({"vmRef": {"name": "a"}, "snapshotConfig": {"includeMemory": true}}),
            vec!["no snapshots with memory"],
        ),
        (
            "VMSnapshot",
            json!({"vmRef": {"name": "a"}, "snapshotConfig": {"compression": true}}),
            vec!["compression does nothing"],
        ),
        (
            "VMClone",
            json!({"source": {"vmRef": {"name": "a"}}, "target": {"name": "b"}}),
            vec!["does not implement"],
        ),
        (
            "VMClone",
            json!({"source": {"vmRef": {"name": "a"}}, "target": {"name": "c"}, "options": {"type": "LinkedClone"}}),
            vec!["does not implement"],
        ),
        (
            "VMClone",
            json!({"source": {"snapshotRef": {"name": "s"}}, "target": {"name": "c", "providerRef": {"name": "no"}}}),
            vec!["does not implement"],
        ),
        (
            "VMMigration",
            migrate(json!({"name": "c", "providerRef": {"name": "hv"}})),
            vec![
                "keeps the VirtualMachine a",
                "nobody compares checksums",
                "spec.source.deleteAfterMigration: has no effect",
            ],
        ),
        (
            "VMMigration",
            json!({"source": {"vmRef": {"name": "a"}}, "target": {"host": "host-2", "providerRef": {"name": "hv"}}}),
            vec![],
        ),
        (
            "VMMigration",
            json!({"source": {"vmRef": {"name": "a"}}, "target": {"name": "c", "providerRef": {"name": "no"}}}),
            vec!["Provider team/no", "not supported yet"],
        ),
        (
            "VMImage",
            json!({"source": {"http": {"url": "http://x"}}}),
            vec!["can be replaced on its way"],
        ),
        (
            "VMImage",
            json!({"source": {"http": {"url": "http://x", "checksum": "0".repeat(64)}}}),
            vec![],
        ),
        (
            "VMImage",
            json!({"source": {"http": {"url": "https://x", "authentication": {"bearer": {"secretRef": {"name": "s"}}}}}}),
            vec![
                "spec.source.http.authentication.bearer.secretRef: Secret team/s does not exist yet",
            ],
        ),
        (
            "VMNetworkAttachment",
            json!({"network": {}, "ipAllocation": {"type": "Static"}}),
            vec!["has no staticConfig"],
        ),
    ];
    for (kind, spec, expected) in table {
        let verdict = with_vms().create(kind, spec.clone());
        assert_eq!(verdict.decision, Decision::Allowed, "{kind} {spec}");
        assert_warned(&verdict, &expected);
    }
}

#[test]
fn changes_of_what_is_in_use_say_whom_they_reach() {
    let world = World::default().used("it", 2);
    let (small, large) = (
        json!({"cpu": 1, "memory": "1Gi"}),
        json!({"cpu": 2, "memory": "1Gi"}),
    );
    assert_warned(
        &world.update("VMClass", small, large),
        &["2 VirtualMachines use this class"],
    );
    let image = |path: &str| json!({"source": {"libvirt": {"path": path}}});
    assert_warned(
        &world.update("VMImage", image("/a"), image("/b")),
        &["keep their disks"],
    );
}
