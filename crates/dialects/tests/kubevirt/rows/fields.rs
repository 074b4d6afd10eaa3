//! Fields of a Machine, and what becomes of them in the cluster.

use serde_json::{Value, json};

use super::{Lab, NS, at};

const VM: &str = "spec/template/spec";

/// Kind and name of an object, a path in it, and what stands there.
type Row = (&'static str, &'static str, String, Value);

fn row(kind: &'static str, name: &'static str, path: impl Into<String>, value: Value) -> Row {
    (kind, name, path.into(), value)
}

async fn hold(lab: &Lab, rows: Vec<Row>) {
    for (kind, name, path, value) in rows {
        let object = lab.site.look(kind, (NS, name)).await;
        let found = at(&object, &path);
        assert_eq!(*found, value, "{kind} {name}: {path}: {object:#}");
    }
}

fn everything() -> Value {
    json!({
        "template": "small",
        "resources": {"cpu": {"cores": 4, "threads": 2, "sockets": 1}, "memory": {"size": "8Gi"}},
        "disks": [{
            "name": "data", "size": "100Gi", "storageClass": "sim-storage",
            "accessMode": "ReadWriteOnce", "volumeMode": "Filesystem",
        }],
        "networks": [
            {"name": "eth0", "networkName": "prod-network", "model": "virtio", "macAddress": "52:54:00:12:34:56"},
            {"name": "eth1", "networkName": "storage-network", "model": "e1000"},
            {"name": "eth2", "networkName": "storage-network", "model": "rtl8139"},
        ],
        "bootOrder": ["network", "disk"],
        "cloudInit": {"userData": "#cloud-config\nusers: []\n", "networkData": "version: 2\n"},
        "domain": {
            "machine": {"type": "pc-q35"},
            "features": {"acpi": true, "apic": true, "hyperv": true},
            "firmware": {"bootloader": {"efi": true, "secureBoot": true}},
        },
    })
}

/// The API reference: spec, status, labels, and the objects that are made.
pub async fn spec(lab: &Lab) {
    let mut manifest = crate::site::machine(NS, "full", everything());
    manifest["metadata"]["labels"] = json!({
        "cluster.vitistack.io/cluster-name": "prod",
        "vitistack.io/machine-template": "small",
    });
    lab.site.apply(manifest).await;
    let machine = lab.site.phase((NS, "full"), "Running").await;
    let domain = format!("{VM}/domain");
    let vm = |path: &str, value: Value| row("VM", "vm-full", path, value);
    let inside = |path: &str, value: Value| row("VM", "vm-full", format!("{domain}/{path}"), value);
    let rows = vec![
        inside("cpu/cores", json!(4)),
        inside("cpu/threads", json!(2)),
        inside("cpu/sockets", json!(1)),
        inside("memory/guest", json!("8Gi")),
        inside("machine/type", json!("pc-q35")),
        inside("features/acpi/enabled", json!(true)),
        inside("features/apic/enabled", json!(true)),
        inside("features/hyperv/relaxed/enabled", json!(true)),
        inside("features/smm/enabled", json!(true)),
        inside("firmware/bootloader/efi/secureBoot", json!(true)),
        inside("devices/networkInterfaceMultiqueue", json!(true)),
        inside("devices/disks[name=root]/disk/bus", json!("virtio")),
        inside("devices/disks[name=root]/bootOrder", json!(2)),
        inside("devices/disks[name=data]/disk/bus", json!("virtio")),
        inside("devices/interfaces[name=eth0]/model", json!("virtio")),
        inside(
            "devices/interfaces[name=eth0]/macAddress",
            json!("52:54:00:12:34:56"),
        ),
        inside("devices/interfaces[name=eth0]/bootOrder", json!(1)),
        inside("devices/interfaces[name=eth1]/model", json!("e1000")),
        inside("devices/interfaces[name=eth2]/model", json!("rtl8139")),
        vm(
            "spec/template/spec/networks[name=eth0]/multus/networkName",
            json!("vlan100"),
        ),
        vm(
            "spec/template/spec/networks[name=eth1]/multus/networkName",
            json!("vlan200"),
        ),
        vm(
            "spec/template/spec/volumes[name=root]/persistentVolumeClaim/claimName",
            json!("full-root"),
        ),
        vm(
            "spec/template/spec/volumes[name=data]/persistentVolumeClaim/claimName",
            json!("full-data"),
        ),
        vm(
            "spec/template/spec/volumes[name=cloudinitdisk]/cloudInitNoCloud/userData",
            json!("#cloud-config\nusers: []\n"),
        ),
        vm(
            "spec/template/spec/volumes[name=cloudinitdisk]/cloudInitNoCloud/networkData",
            json!("version: 2\n"),
        ),
        // `running` is no longer taken by KubeVirt beside it.
        vm("spec/runStrategy", json!("Always")),
        vm("metadata/ownerReferences[kind=Machine]/name", json!("full")),
        vm(
            "metadata/ownerReferences[kind=Machine]/apiVersion",
            json!("vitistack.io/v1alpha1"),
        ),
        vm(
            "metadata/ownerReferences[kind=Machine]/uid",
            machine["metadata"]["uid"].clone(),
        ),
        row(
            "PVC",
            "full-data",
            "spec/storageClassName",
            json!("sim-storage"),
        ),
        row(
            "PVC",
            "full-data",
            "spec/accessModes",
            json!(["ReadWriteOnce"]),
        ),
        row("PVC", "full-data", "spec/volumeMode", json!("Filesystem")),
        row(
            "PVC",
            "full-data",
            "spec/resources/requests/storage",
            json!("100Gi"),
        ),
        row(
            "PVC",
            "full-root",
            "spec/resources/requests/storage",
            json!("20Gi"),
        ),
    ];
    hold(lab, rows).await;
    labels(lab).await;
    status(lab, &machine).await;
}

async fn labels(lab: &Lab) {
    for (kind, name) in [
        ("VM", "vm-full"),
        ("VMI", "vm-full"),
        ("PVC", "full-root"),
        ("PVC", "full-data"),
    ] {
        let object = lab.site.look(kind, (NS, name)).await;
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["vitistack.io/machine"], "full", "{kind} {name}");
    }
    let vm = lab.site.look("VM", (NS, "vm-full")).await;
    let by = &vm["metadata"]["labels"]["vitistack.io/managed-by"];
    assert_eq!(by, "kubevirt-operator");
    let template = &vm["spec"]["template"]["metadata"]["labels"];
    assert_eq!(template["vitistack.io/machine"], "full");
}

async fn status(lab: &Lab, machine: &Value) {
    let instance = lab.site.look("VMI", (NS, "vm-full")).await;
    let status = &machine["status"];
    for (field, value) in [
        ("phase", json!("Running")),
        ("state", json!("Running")),
        ("vmName", json!("vm-full")),
        ("vmiName", json!("vm-full")),
        ("nodeName", instance["status"]["nodeName"].clone()),
        ("kubevirtConfigRef", json!("cluster-east")),
        (
            "providerID",
            json!(format!("kubevirt://cluster-east/{NS}/vm-full")),
        ),
        ("operatingSystem", json!("Simulated Linux")),
        ("kernelVersion", json!("6.1.0-sim")),
        ("cpus", json!(8)),
        ("memory", json!(8_u64 << 30)),
    ] {
        assert_eq!(status[field], value, "{field}: {status:#}");
    }
    for field in [
        "lastUpdated",
        "resourceVersion",
        "conditions",
        "ipAddresses",
    ] {
        assert!(!status[field].is_null(), "{field}: {status:#}");
    }
    let finalizers = &machine["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["machine.vitistack.io/cleanup"]));
}

/// The templates, and how overrides are joined with them.
pub async fn sizes(lab: &Lab) {
    let four = json!({"template": "medium", "resources": {"cpu": {"cores": 4}, "memory": {"size": "8Gi"}}});
    let data = json!({
        "template": "small",
        "resources": {"cpu": {"cores": 4}, "memory": {"size": "8Gi"}},
        "disks": [{"name": "data", "size": "100Gi", "storageClass": "sim-storage"}],
    });
    let rows = [
        ("small-vm", json!({"template": "small"}), 1, "2Gi", "20Gi"),
        ("medium-vm", json!({"template": "medium"}), 2, "4Gi", "40Gi"),
        ("large-vm", json!({"template": "large"}), 4, "8Gi", "80Gi"),
        (
            "by-type",
            json!({"instanceType": "medium"}),
            2,
            "4Gi",
            "40Gi",
        ),
        ("override", four, 4, "8Gi", "40Gi"),
        ("custom-vm", data, 4, "8Gi", "20Gi"),
    ];
    for (name, spec, ..) in &rows {
        lab.machine(name, spec.clone()).await;
    }
    for (name, _, cores, memory, disk) in rows {
        lab.site.phase((NS, name), "Running").await;
        let vm = lab.site.look("VM", (NS, &format!("vm-{name}"))).await;
        assert_eq!(
            *at(&vm, "spec/template/spec/domain/cpu/cores"),
            json!(cores),
            "{name}"
        );
        assert_eq!(
            *at(&vm, "spec/template/spec/domain/cpu/threads"),
            json!(1),
            "{name}"
        );
        assert_eq!(
            *at(&vm, "spec/template/spec/domain/cpu/sockets"),
            json!(1),
            "{name}"
        );
        assert_eq!(
            *at(&vm, "spec/template/spec/domain/memory/guest"),
            json!(memory),
            "{name}"
        );
        let claim = lab.site.look("PVC", (NS, &format!("{name}-root"))).await;
        assert_eq!(
            *at(&claim, "spec/resources/requests/storage"),
            json!(disk),
            "{name}"
        );
    }
}

/// Access modes: the disk says it, else the StorageProfile, else the variable.
pub async fn claims(lab: &Lab) {
    lab.site
        .apply(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": "plain"}, "provisioner": "sim.polyvirt.io/storage",
        }))
        .await;
    let disks = json!([
        {"name": "once", "size": "1Gi", "accessMode": "ReadWriteOnce"},
        {"name": "many", "size": "1Gi", "accessMode": "ReadWriteMany", "volumeMode": "Block"},
        {"name": "read", "size": "1Gi", "accessMode": "ReadOnlyMany"},
        {"name": "profile", "size": "1Gi", "storageClass": "default"},
        {"name": "variable", "size": "1Gi", "storageClass": "plain"},
    ]);
    lab.runs("modes", json!({"template": "small", "disks": disks}))
        .await;
    for (disk, access, volume) in [
        ("once", "ReadWriteOnce", "Filesystem"),
        ("many", "ReadWriteMany", "Block"),
        ("read", "ReadOnlyMany", "Filesystem"),
        ("profile", "ReadWriteMany", "Block"),
        ("variable", "ReadWriteOnce", "Filesystem"),
    ] {
        let claim = lab.site.look("PVC", (NS, &format!("modes-{disk}"))).await;
        assert_eq!(claim["spec"]["accessModes"], json!([access]), "{disk}");
        assert_eq!(claim["spec"]["volumeMode"], json!(volume), "{disk}");
    }
}

/// Which card has which address.
pub async fn addresses(lab: &Lab) {
    let machine = lab.site.look("Machine", (NS, "full")).await;
    let instance = lab.site.look("VMI", (NS, "vm-full")).await;
    let cards = instance["status"]["interfaces"].as_array().unwrap();
    assert_eq!(cards.len(), 3);
    for card in cards {
        let name = card["name"].as_str().unwrap();
        let told = at(&machine, &format!("status/networkInterfaces[name={name}]"));
        assert_eq!(told["ipAddresses"], card["ipAddresses"], "{name}");
        assert_eq!(told["macAddress"], card["mac"], "{name}");
        let all = machine["status"]["ipAddresses"].as_array().unwrap();
        assert!(all.contains(&card["ipAddress"]), "{name}");
    }
}
